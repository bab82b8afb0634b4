// SPDX-License-Identifier: MIT
// List verbs as messages: every rank sends a peer the parts of all buckets in one message, bucket by bucket.
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "codec/list_codec.h"
#include "comm/allreduce.h"
#include "comm/sparse/list_operations.h"
#include "comm/sparse/list_transport.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::comm {
namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);

/// Rounds up to words: codes begin where a word may stand, and messages are aligned to that.
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kWord - 1) / kWord * kWord;
}

void copy_bytes(std::span<const std::byte> source, std::span<std::byte> target) {
  if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
}

class MessageLists final : public ListTransport {
 public:
  MessageLists(Communicator& communicator, std::unique_ptr<codec::ListCodec> codec)
      : ListTransport(communicator), codec_(std::move(codec)) {}

  bool is_lossy() const override { return codec_->is_lossy(); }

 protected:
  /// Gathers lists. Codes of a fixed size fill their slots. Others are as long as their content makes them: a message
  /// is read while the next one travels.
  void gather_lists(VerbBatch batch) override {
    const bool fixed = codec_->is_fixed_size();
    const bool has_values = std::get<GatherListsVerb>(*batch.front()).has_values;
    const bool equal = std::ranges::all_of(verbs_of<GatherListsVerb>(batch), &GatherListsVerb::equal);
    const GatherRoute way = std::get<GatherListsVerb>(*batch.front()).route;
    sizes_.assign(ranks(), fixed ? 0 : table_bytes(batch.size()));
    clear_lists();
    for (const auto& gather : verbs_of<GatherListsVerb>(batch)) {
      for (std::size_t from = 0; from < ranks(); ++from) sizes_[from] += max_bytes(gather.slots[from], has_values);
      lists_.push_back(gather.mine);
      if (fixed) lengths_.push_back(max_bytes(gather.slots[rank()], has_values));
    }
    lay_out();
    resize_with_slack(gathered_, offsets_.back() + sizes_.back());
    const std::size_t own_bytes = pack_lists(place_of(rank()).host(), has_values);
    const auto read = [&](int source, std::size_t bytes) {
      const auto from = static_cast<std::size_t>(source);
      clear_lists();
      for (const auto& gather : verbs_of<GatherListsVerb>(batch)) {
        bounds_.push_back(gather.bounds(from));
        if (fixed) lengths_.push_back(max_bytes(gather.slots[from], has_values));
      }
      const Route::Kind varying = way == GatherRoute::kRing ? Route::Kind::kRing : Route::Kind::kMessage;
      const Route route{fixed && equal ? Route::Kind::kAllgather : varying, bytes};
      unpack_lists(place_of(from).host().first(bytes), {source, route}, has_values, from * batch.size());
      for (std::size_t bucket = 0; bucket < batch.size(); ++bucket)
        std::get<GatherListsVerb>(*batch[bucket]).lists[from] = lists_[bucket];
    };
    if (!fixed) {
      const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
      return communicator().allgather_messages(place_of(rank()).subview(0, own_bytes), sizes_, gathered_.view(),
                                               std::cref(read), way);
    }
    gather_messages(equal, way, gathered_.view());
    for (std::size_t from = 0; from < ranks(); ++from) read(static_cast<int>(from), sizes_[from]);
  }

  void gather_parts(VerbBatch batch) override {
    const auto gathers = verbs_of<GatherPartsVerb>(batch);
    sizes_.assign(ranks(), 0);
    for (const auto& gather : gathers)
      for (std::size_t from = 0; from < ranks(); ++from) sizes_[from] += gather.part(from).size();
    lay_out();
    const GatherPartsVerb& first = gathers.front();
    if (batch.size() == 1) return gather_messages(first.equal, first.route, first.whole);
    resize_with_slack(gathered_, offsets_.back() + sizes_.back());
    std::byte* to = gathered_.data() + offsets_[rank()];
    for (const auto& gather : gathers) to = std::ranges::copy(gather.part(rank()).host(), to).out;
    gather_messages(first.equal, first.route, gathered_.view());
    for (std::size_t from = 0; from < ranks(); ++from) {
      const std::byte* message = gathered_.data() + offsets_[from];
      for (const auto& gather : gathers) {
        const std::span<std::byte> part = gather.part(from).host();
        copy_bytes({message, part.size()}, part);
        message += part.size();
      }
    }
  }

  /// Sums in the codec's code of values where the verbs allow it, and it carries sums.
  void allreduce(VerbBatch batch) override {
    parts_.clear();
    remainders_.clear();
    stayed_.clear();
    for (const auto& allreduce : verbs_of<AllreduceVerb>(batch)) {
      if (!allreduce.source.empty()) kernels::copy(allreduce.source, allreduce.values);
      parts_.push_back(allreduce.values.host());
    }
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    const auto& first = std::get<AllreduceVerb>(*batch.front());
    if (first.remainder == nullptr || codec_->sums() == nullptr || ranks() == 1)
      return communicator().allreduce_sum(parts_, first.algorithm);
    DRAGONN_CHECK(first.algorithm == DenseAlgorithm::kRing, "only a ring sums in a code of values");
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      const auto& allreduce = std::get<AllreduceVerb>(*batch[bucket]);
      resize_with_slack(*allreduce.remainder, parts_[bucket].size());
      remainders_.push_back(allreduce.remainder->host());
      if (allreduce.stayed != nullptr) resize_with_slack(*allreduce.stayed, parts_[bucket].size());
      stayed_.push_back(allreduce.stayed != nullptr ? allreduce.stayed->host() : std::span<std::uint8_t>());
    }
    const ScopedOperation operation = communicator().operation("allreduce");
    coded_ring_allreduce(communicator(), *codec_->sums(), {parts_, remainders_, stayed_}, ring_scratch_);
  }

  void broadcast_indices(VerbBatch batch) override {
    clear_lists();
    for (const auto& broadcast : verbs_of<BroadcastIndicesVerb>(batch)) {
      lists_.push_back({broadcast.indices, {}});
      bounds_.push_back(broadcast.bounds());
      if (codec_->is_fixed_size()) lengths_.push_back(max_bytes(broadcast.indices.size(), /*has_values=*/false));
    }
    const int root = std::get<BroadcastIndicesVerb>(*batch.front()).root;
    if (batch.size() == 1 && codec_->is_fixed_size()) {  // the message is the indices, in their place
      const View<std::byte> message = bytes_of(std::get<BroadcastIndicesVerb>(*batch.front()).indices);
      const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
      communicator().broadcast(root, message);
      return unpack_lists(message.host(), {root, {Route::Kind::kTree}}, /*has_values=*/false);
    }
    broadcast_packed(root, /*has_values=*/false);
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      const auto& broadcast = std::get<BroadcastIndicesVerb>(*batch[bucket]);
      std::ranges::copy(lists_[bucket].indices.host(), broadcast.indices.host().begin());
    }
  }

  void broadcast_lists(VerbBatch batch) override {
    clear_lists();
    for (const auto& broadcast : verbs_of<BroadcastListVerb>(batch)) {
      lists_.push_back(broadcast.mine);
      bounds_.push_back(broadcast.bounds());
    }
    broadcast_packed(std::get<BroadcastListVerb>(*batch.front()).root, /*has_values=*/true);
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket)
      copy_list(lists_[bucket], *std::get<BroadcastListVerb>(*batch[bucket]).result);
  }

  /// Swaps with a window of pending steps; a message that has come is moved out of the way while the next ones travel.
  void swap_lists(VerbBatch batch) override {
    const auto& first = std::get<SwapVerb>(*batch.front());
    const std::size_t steps = first.outgoing.size();
    const std::size_t window = std::min(first.in_flight, steps);
    while (slots_.size() < window) slots_.emplace_back();
    // There is room for all that may come, and for what is sent; only pages that are really filled are ever touched.
    std::size_t max = 0;
    for (const SwapVerb& swap : verbs_of<SwapVerb>(batch)) {
      for (const SwapVerb::Incoming& incoming : swap.incoming) max += incoming.bounds.max;
      if (!is_lossy()) continue;
      for (const SwapVerb::Outgoing& outgoing : swap.outgoing) max += outgoing.list.size();
    }
    kept_ = 0;
    resize_with_slack(swapped_, max);
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    for (std::size_t step = 0; step < window; ++step) start_step(batch, step, slots_[step]);
    for (std::size_t step = 0; step < steps; ++step) {
      Slot& slot = slots_[step % window];
      finish_step(batch, step, slot);
      if (step + window < steps) start_step(batch, step + window, slot);
    }
  }

 private:
  /// A pending step of a swap.
  struct Slot {
    Buffer<std::byte> incoming;
    Buffer<std::byte> outgoing;
    Request receive;
    Request send;
  };

  std::size_t max_bytes(std::size_t entries, bool has_values = true) const {
    return aligned(codec_->max_bytes(entries, has_values));
  }
  /// Returns the bytes of a message's table. If a message holds several lists whose sizes its receiver does not know,
  /// it begins with their sizes.
  static std::size_t table_bytes(std::size_t lists) { return lists > 1 ? lists * kWord : 0; }

  /// Lays out places for messages of sizes_[r] bytes, in rank order.
  void lay_out() {
    offsets_.resize(ranks());
    std::exclusive_scan(sizes_.begin(), sizes_.end(), offsets_.begin(), std::size_t{0});
  }
  View<std::byte> place_of(std::size_t rank) { return gathered_.view().subview(offsets_[rank], sizes_[rank]); }
  /// Gathers messages that fill their places in `all`.
  void gather_messages(bool equal, GatherRoute route, View<std::byte> all) {
    const View<const std::byte> mine = all.subview(offsets_[rank()], sizes_[rank()]);
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    if (equal) return communicator().allgather(mine, all);
    communicator().allgather_variable(mine, sizes_, all, route);
  }

  /// Broadcasts the root's lists_ in one message. All ranks then have in lists_ what it decodes to.
  void broadcast_packed(int root, bool has_values) {
    const bool is_root = communicator().rank() == root;
    std::size_t room = table_bytes(lists_.size());
    for (std::size_t i = 0; i < lists_.size(); ++i)
      room += max_bytes(is_root ? lists_[i].size() : bounds_[i].max, has_values);
    resize_with_slack(message_, room);
    if (is_root) message_.truncate(pack_lists(message_.host(), has_values));
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    const std::size_t bytes = communicator().broadcast_variable(root, message_.view(), is_root ? message_.size() : 0);
    unpack_lists(message_.host().first(bytes), {root, {Route::Kind::kTree}}, has_values);
  }

  /// The origin of a list, for errors.
  struct Origin {
    int rank;               ///< whose list it is
    Route route = {};       ///< on which it came
    std::size_t list = 0;   ///< number in the message
    std::size_t lists = 1;  ///< of the message
  };

  CommError bad_list(const Origin& origin, const std::string& reason) const {
    const std::string place = origin.lists == 1 ? "" : fmt::format(" {} of {}", origin.list + 1, origin.lists);
    return communicator().bad_data(origin.rank, origin.route, fmt::format("list{}: {}", place, reason));
  }

  /// Reads a list. That of another rank is checked: what uses it may rely on its bounds.
  /// @param index of the code among those of this verb, whose lists are all in use at once.
  ListView decode(std::span<const std::byte> code, bool has_values, const ListBounds& bounds, std::size_t index,
                  const Origin& origin) {
    while (decoded_.size() <= index) decoded_.emplace_back();
    ListView list;
    try {
      list = codec_->decode(code, has_values, decoded_[index]);
    } catch (const DataError& error) {
      throw bad_list(origin, error.what());
    }
    if (origin.rank != communicator().rank()) check_list(list, bounds, origin);
    return list;
  }
  /// @param list ascends, as the codec has checked: its ends tell the rest.
  void check_list(const ListView& list, const ListBounds& bounds, const Origin& origin) const {
    check_count(list.size(), bounds, origin.rank, origin.route);
    if (list.size() == 0) return;
    const std::span<const std::uint32_t> indices = list.indices.host();
    const std::uint32_t wrong = indices.front() < bounds.begin ? indices.front() : indices.back();
    if (wrong >= bounds.begin && wrong < bounds.end) return;
    throw bad_list(origin, fmt::format("index {} is not in [{}, {})", wrong, bounds.begin, bounds.end));
  }

  void clear_lists() {
    lists_.clear();
    bounds_.clear();
    lengths_.clear();
  }
  /// Writes the codes of lists_, behind the table if there are several of which the receiver does not know lengths_.
  /// Returns the bytes written.
  std::size_t pack_lists(std::span<std::byte> message, bool has_values) {
    const bool is_known = !lengths_.empty();
    std::size_t begin = is_known ? 0 : table_bytes(lists_.size());
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      const std::size_t room = is_known ? lengths_[i] : codec_->max_bytes(lists_[i].size(), has_values);
      const std::size_t bytes = codec_->encode(lists_[i], has_values, message.subspan(begin, room));
      if (!is_known && lists_.size() > 1) {
        const auto word = static_cast<std::uint32_t>(bytes);
        std::memcpy(message.data() + i * kWord, &word, kWord);
      }
      if (has_values) count_list(lists_[i].size(), bytes);
      // An only list is as long as its message.
      begin += lists_.size() > 1 ? aligned(bytes) : bytes;
    }
    return begin;
  }
  /// Unpacks a message into lists_, which keep bounds_. @param first of the rooms of its lists.
  /// @throws CommError if a list, or its length, does not fit.
  void unpack_lists(std::span<const std::byte> message, const Origin& origin, bool has_values = true,
                    std::size_t first = 0) {
    const bool is_known = !lengths_.empty();
    const std::size_t count = bounds_.size();
    lists_.clear();
    std::size_t begin = is_known ? 0 : table_bytes(count);
    for (std::size_t i = 0; i < count && begin <= message.size(); ++i) {
      auto bytes = static_cast<std::uint32_t>(message.size());
      if (count > 1 && !is_known) std::memcpy(&bytes, message.data() + i * kWord, kWord);
      const std::size_t length = is_known ? lengths_[i] : bytes;
      if (length > message.size() - begin) break;
      lists_.push_back(decode(message.subspan(begin, length), has_values, bounds_[i], first + i,
                              {origin.rank, origin.route, i, count}));
      begin += count > 1 ? aligned(length) : length;
    }
    if (lists_.size() == count && begin == message.size()) return;
    throw communicator().bad_data(
        origin.rank, origin.route,
        fmt::format("{} bytes are not {} list{} of entries", message.size(), count, count == 1 ? "" : "s"));
  }

  void start_step(VerbBatch batch, std::size_t step, Slot& slot) {
    std::size_t lists = 0, room = 0, max = 0;
    clear_lists();
    for (const auto& [outgoing, incoming, in_flight] : verbs_of<SwapVerb>(batch)) {
      lists += incoming[step].bounds.max > 0 ? 1 : 0;
      room += max_bytes(incoming[step].bounds.max);
      if (outgoing[step].max == 0) continue;
      lists_.push_back(outgoing[step].list);
      max += max_bytes(outgoing[step].max);
    }
    const auto& first = std::get<SwapVerb>(*batch.front());
    if (lists > 0) {
      resize_with_slack(slot.incoming, table_bytes(lists) + room);
      slot.receive = communicator().irecv(first.incoming[step].source, kTagSlices, slot.incoming.view());
    }
    if (lists_.empty()) return;
    resize_with_slack(slot.outgoing, table_bytes(lists_.size()) + max);
    slot.outgoing.truncate(pack_lists(slot.outgoing.host(), /*has_values=*/true));
    if (is_lossy()) keep_sent(batch, step, slot.outgoing);
    slot.send = communicator().isend(first.outgoing[step].destination, kTagSlices, std::as_const(slot.outgoing).view());
  }

  /// Keeps what the lists of a packed message decode to, for their sender.
  void keep_sent(VerbBatch batch, std::size_t step, const Buffer<std::byte>& message) {
    bounds_.assign(lists_.size(), {});
    unpack_lists(message.host(), {communicator().rank()});
    auto list = lists_.begin();
    for (const SwapVerb& swap : verbs_of<SwapVerb>(batch))
      if (swap.outgoing[step].max > 0) swap.outgoing[step].sent = keep(*list++);
  }

  void finish_step(VerbBatch batch, std::size_t step, Slot& slot) {
    bool sends = false;
    clear_lists();
    for (const auto& [outgoing, incoming, in_flight] : verbs_of<SwapVerb>(batch)) {
      if (incoming[step].bounds.max > 0) bounds_.push_back(incoming[step].bounds);
      sends = sends || outgoing[step].max > 0;
    }
    if (!bounds_.empty()) {
      const std::size_t bytes = communicator().wait(slot.receive);
      unpack_lists(slot.incoming.host().first(bytes), {std::get<SwapVerb>(*batch.front()).incoming[step].source});
      auto list = lists_.begin();
      for (const SwapVerb& swap : verbs_of<SwapVerb>(batch))
        if (swap.incoming[step].bounds.max > 0) swap.incoming[step].list = keep(*list++);
    }
    if (sends) communicator().wait(slot.send);
  }

  /// Copies a list of a message, so that the next messages may overwrite its place.
  ListView keep(const ListView& list) {
    const std::size_t begin = kept_;
    kept_ += list.size();
    std::copy_n(list.indices.host().data(), list.size(), swapped_.indices.data() + begin);
    std::copy_n(list.values.host().data(), list.size(), swapped_.values.data() + begin);
    return ListView(swapped_).slice(begin, kept_);
  }

  std::unique_ptr<codec::ListCodec> codec_;
  std::deque<SparseVector> decoded_;                  // of lists that are not read where their code lies
  std::vector<std::size_t> sizes_, offsets_;          // bytes by rank, of gathered_
  Buffer<std::byte> gathered_;                        // the messages of all ranks
  Buffer<std::byte> message_;                         // of a broadcast
  std::vector<std::span<float>> parts_, remainders_;  // of an allreduce
  std::vector<std::span<std::uint8_t>> stayed_;       // likewise
  CodedRingScratch ring_scratch_;
  // The lists of a message that is packed or unpacked, their bounds in the latter case, and the bytes of their codes if
  // the receiver knows them.
  std::vector<ListView> lists_;
  std::vector<ListBounds> bounds_;
  std::vector<std::size_t> lengths_;
  std::vector<Slot> slots_;
  SparseVector swapped_;  // what has come in a swap, and what was sent if that is not what was to be sent
  std::size_t kept_ = 0;  // entries of it
};

}  // namespace

std::unique_ptr<ListTransport> make_message_lists(Communicator& communicator, std::unique_ptr<codec::ListCodec> codec) {
  return std::make_unique<MessageLists>(communicator, std::move(codec));
}

}  // namespace dragonn::comm
