// SPDX-License-Identifier: MIT
// List verbs as messages: every rank sends a peer the parts of all buckets in one message, bucket by bucket.
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "codec/list_codec.h"
#include "comm/coded_ring.h"
#include "comm/sparse/list_transport.h"

namespace dragonn::comm {
namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);

/// Rounds up to words: codes begin where a word may stand, and messages are aligned to that.
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kWord - 1) / kWord * kWord;
}

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
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
  void gather_lists(VerbBatch batch) override {
    sizes_.assign(ranks(), codec_->is_fixed_size() ? 0 : table_bytes(batch.size()));
    for (std::size_t from = 0; from < ranks(); ++from) {
      for (const ListVerb* verb : batch) {
        const auto& gather = std::get<GatherListsVerb>(*verb);
        sizes_[from] += max_bytes(gather.slots[from], gather.has_values);
      }
    }
    lay_out();
    if (codec_->is_fixed_size()) return gather_raw_lists(batch);
    gather_coded_lists(batch);
  }

  void gather_parts(VerbBatch batch) override {
    sizes_.assign(ranks(), 0);
    const auto part = [&](const ListVerb* verb, std::size_t from) {
      const auto& gather = std::get<GatherPartsVerb>(*verb);
      return gather.whole.host().subspan(gather.bounds[from], gather.bounds[from + 1] - gather.bounds[from]);
    };
    for (const ListVerb* verb : batch) {
      for (std::size_t from = 0; from < ranks(); ++from) sizes_[from] += part(verb, from).size_bytes();
    }
    if (batch.size() == 1) {
      const std::span<float> whole = std::get<GatherPartsVerb>(*batch.front()).whole.host();
      const ScopedSizeOnly scope(communicator(), is_size_only());
      const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
      return communicator().allgather_variable(bytes_of(std::span<const float>(part(batch.front(), rank()))), sizes_,
                                               Communicator::as_writable_bytes(whole));
    }
    lay_out();
    std::byte* to = gathered_.data() + offsets_[rank()];
    for (const ListVerb* verb : batch) {
      const std::span<const float> own = part(verb, rank());
      copy_bytes(bytes_of(own), {to, own.size_bytes()});
      to += own.size_bytes();
    }
    gather_messages(/*equal=*/false, is_size_only());
    for (std::size_t from = 0; from < ranks(); ++from) {
      const std::byte* message = gathered_.data() + offsets_[from];
      for (const ListVerb* verb : batch) {
        const std::span<float> target = part(verb, from);
        copy_bytes({message, target.size_bytes()}, std::as_writable_bytes(target));
        message += target.size_bytes();
      }
    }
  }

  void gather_codes(VerbBatch batch) override {
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    if (batch.size() == 1) {
      const auto& gather = std::get<GatherCodesVerb>(*batch.front());
      return communicator().allgather(gather.mine, gather.all);
    }
    std::size_t bytes = 0;
    for (const ListVerb* verb : batch) bytes += std::get<GatherCodesVerb>(*verb).mine.size();
    sizes_.assign(ranks(), bytes);
    lay_out();
    std::byte* to = gathered_.data() + offsets_[rank()];
    for (const ListVerb* verb : batch) {
      const std::span<const std::byte> own = std::get<GatherCodesVerb>(*verb).mine.host();
      copy_bytes(own, {to, own.size()});
      to += own.size();
    }
    gather_messages(/*equal=*/true, is_size_only());
    for (std::size_t from = 0; from < ranks(); ++from) {
      const std::byte* message = gathered_.data() + offsets_[from];
      for (const ListVerb* verb : batch) {
        const auto& gather = std::get<GatherCodesVerb>(*verb);
        const std::size_t size = gather.mine.size();
        copy_bytes({message, size}, gather.all.host().subspan(from * size, size));
        message += size;
      }
    }
  }

  void allreduce(VerbBatch batch) override {
    parts_.clear();
    for (const ListVerb* verb : batch) parts_.push_back(std::get<AllreduceVerb>(*verb).values.host());
    const ScopedSizeOnly scope(communicator(), is_size_only());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    const auto& first = std::get<AllreduceVerb>(*batch.front());
    if (first.remainder != nullptr && codec_->sums() != nullptr && ranks() > 1) return coded_allreduce(batch);
    communicator().allreduce_sum(parts_, first.algorithm);
  }

  void broadcast_indices(VerbBatch batch) override {
    if (!codec_->is_fixed_size()) return broadcast_coded_indices(batch);
    const int root = std::get<BroadcastIndicesVerb>(*batch.front()).root;
    const ScopedSizeOnly scope(communicator(), is_size_only());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    if (batch.size() == 1) {
      const auto& only = std::get<BroadcastIndicesVerb>(*batch.front());
      communicator().broadcast(root, Communicator::as_writable_bytes(only.indices.host()));
      return check_indices(batch);
    }
    std::size_t bytes = 0;
    for (const ListVerb* verb : batch) bytes += std::get<BroadcastIndicesVerb>(*verb).indices.host().size_bytes();
    resize_with_slack(message_, bytes);
    const auto each = [&](const auto& copy) {
      std::size_t begin = 0;
      for (const ListVerb* verb : batch) {
        const auto indices = std::as_writable_bytes(std::get<BroadcastIndicesVerb>(*verb).indices.host());
        copy(indices, message_.host().subspan(begin, indices.size()));
        begin += indices.size();
      }
    };
    if (communicator().rank() == root) each([](auto indices, auto place) { copy_bytes(indices, place); });
    communicator().broadcast(root, message_.view());
    if (communicator().rank() != root) each([](auto indices, auto place) { copy_bytes(place, indices); });
    check_indices(batch);
  }

  void broadcast_lists(VerbBatch batch) override {
    const int root = std::get<BroadcastListVerb>(*batch.front()).root;
    const bool is_root = communicator().rank() == root;
    std::size_t scratch = 0;
    lists_.clear();
    bounds_.clear();
    for (const ListVerb* verb : batch) {
      const auto& broadcast = std::get<BroadcastListVerb>(*verb);
      lists_.push_back(broadcast.mine);
      bounds_.push_back(broadcast.bounds());
      scratch += max_bytes(is_root ? broadcast.mine.size() : broadcast.max);
    }
    resize_with_slack(message_, table_bytes(batch.size()) + scratch);
    if (is_root) message_.truncate(pack_lists(message_.host()));
    const ScopedSizeOnly scope(communicator(), is_size_only());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    const std::size_t bytes = communicator().broadcast_variable(root, message_.view(), is_root ? message_.size() : 0);
    if (is_size_only()) {
      // There is one list: size-only exchanges have one bucket.
      return resize_with_slack(*std::get<BroadcastListVerb>(*batch.front()).result, bytes / SparseVector::kEntryBytes);
    }
    unpack_lists(message_.host().first(bytes), {root, {Route::Kind::kTree}});
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      SparseVector& result = *std::get<BroadcastListVerb>(*batch[bucket]).result;
      resize_with_slack(result, lists_[bucket].size());
      std::ranges::copy(lists_[bucket].indices.host(), result.indices.data());
      std::ranges::copy(lists_[bucket].values.host(), result.values.data());
    }
  }

  /// Swaps with a window of pending steps; a message that has come is moved out of the way while the next ones travel.
  void swap_lists(VerbBatch batch) override {
    const auto& first = std::get<SwapVerb>(*batch.front());
    const std::size_t steps = first.outgoing.size();
    const std::size_t window = std::min(first.in_flight, steps);
    while (slots_.size() < window) slots_.emplace_back();
    // There is room for all that may come, and for what is sent; only pages that are really filled are ever touched.
    std::size_t max = 0;
    for (const ListVerb* verb : batch) {
      for (const SwapVerb::Incoming& incoming : std::get<SwapVerb>(*verb).incoming) max += incoming.bounds.max;
      if (!is_lossy()) continue;
      for (const SwapVerb::Outgoing& outgoing : std::get<SwapVerb>(*verb).outgoing) max += outgoing.list.size();
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
    resize_with_slack(gathered_, offsets_.back() + sizes_.back());
  }
  View<std::byte> place_of(std::size_t rank) { return gathered_.view().subview(offsets_[rank], sizes_[rank]); }
  /// Gathers messages that fill their places.
  void gather_messages(bool equal, bool size_only) {
    const ScopedSizeOnly scope(communicator(), size_only);
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    if (equal) return communicator().allgather(place_of(rank()), gathered_.view());
    communicator().allgather_variable(place_of(rank()), sizes_, gathered_.view());
  }

  /// Gathers lists that fill their slots, and are read where they lie.
  void gather_raw_lists(VerbBatch batch) {
    const bool equal =
        std::ranges::all_of(batch, [](const ListVerb* v) { return std::get<GatherListsVerb>(*v).equal; });
    const bool size_only = is_size_only() && std::get<GatherListsVerb>(*batch.front()).has_values;
    if (!size_only) encode_own(batch);
    gather_messages(equal, size_only);
    if (size_only) {
      for (ListVerb* verb : batch) std::ranges::fill(std::get<GatherListsVerb>(*verb).lists, ListView());
      return;
    }
    for (std::size_t from = 0; from < ranks(); ++from) {
      const int source = static_cast<int>(from);
      const Route route{equal ? Route::Kind::kAllgather : Route::Kind::kRing, sizes_[from]};
      std::span<const std::byte> message = place_of(from).host();
      for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
        auto& gather = std::get<GatherListsVerb>(*batch[bucket]);
        const auto [code, rest] = split_at(message, max_bytes(gather.slots[from], gather.has_values));
        gather.lists[from] = decode(code, gather.has_values, gather.bounds(from), from * batch.size() + bucket,
                                    {source, route, bucket, batch.size()});
        message = rest;
      }
    }
  }
  void encode_own(VerbBatch batch) {
    std::span<std::byte> message = place_of(rank()).host();
    for (const ListVerb* verb : batch) {
      const auto& gather = std::get<GatherListsVerb>(*verb);
      const auto [code, rest] = split_at(message, max_bytes(gather.slots[rank()], gather.has_values));
      codec_->encode(gather.mine, gather.has_values, code);
      if (gather.has_values) count_list(gather.mine.size(), code.size());
      message = rest;
    }
  }
  template <class Byte>
  static std::pair<std::span<Byte>, std::span<Byte>> split_at(std::span<Byte> bytes, std::size_t size) {
    return {bytes.first(size), bytes.subspan(size)};
  }

  /// Gathers lists whose codes are as long as their content makes them. A message is read while the next one travels.
  void gather_coded_lists(VerbBatch batch) {
    const bool has_values = std::get<GatherListsVerb>(*batch.front()).has_values;
    lists_.clear();
    for (const ListVerb* verb : batch) lists_.push_back(std::get<GatherListsVerb>(*verb).mine);
    const std::size_t bytes = pack_lists(place_of(rank()).host(), has_values);
    const auto read = [&](int from, std::size_t size) { read_gathered(batch, static_cast<std::size_t>(from), size); };
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    communicator().allgather_messages(place_of(rank()).subview(0, bytes), sizes_, gathered_.view(), std::cref(read));
  }
  void read_gathered(VerbBatch batch, std::size_t from, std::size_t bytes) {
    bounds_.clear();
    for (const ListVerb* verb : batch) bounds_.push_back(std::get<GatherListsVerb>(*verb).bounds(from));
    const bool has_values = std::get<GatherListsVerb>(*batch.front()).has_values;
    const int source = static_cast<int>(from);
    unpack_lists(place_of(from).host().first(bytes), {source, {Route::Kind::kRing}}, has_values, from * batch.size());
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket)
      std::get<GatherListsVerb>(*batch[bucket]).lists[from] = lists_[bucket];
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
  /// Checks indices that were broadcast into their place.
  void check_indices(VerbBatch batch) {
    const int root = std::get<BroadcastIndicesVerb>(*batch.front()).root;
    if (communicator().rank() == root || is_size_only()) return;
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      const auto& broadcast = std::get<BroadcastIndicesVerb>(*batch[bucket]);
      decode(std::as_bytes(broadcast.indices.host()), /*has_values=*/false, broadcast.bounds(), bucket,
             {root, {Route::Kind::kTree}, bucket, batch.size()});
    }
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

  /// Writes the table, if there is one, and the codes of lists_. Returns their length.
  std::size_t pack_lists(std::span<std::byte> message, bool has_values = true) {
    std::size_t begin = table_bytes(lists_.size());
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      const std::size_t max = codec_->max_bytes(lists_[i].size(), has_values);
      const auto bytes = static_cast<std::uint32_t>(codec_->encode(lists_[i], has_values, message.subspan(begin, max)));
      if (lists_.size() > 1) std::memcpy(message.data() + i * kWord, &bytes, kWord);
      if (has_values) count_list(lists_[i].size(), bytes);
      // An only list is as long as its message.
      begin += lists_.size() > 1 ? aligned(bytes) : bytes;
    }
    return begin;
  }

  void broadcast_coded_indices(VerbBatch batch) {
    const int root = std::get<BroadcastIndicesVerb>(*batch.front()).root;
    const bool is_root = communicator().rank() == root;
    std::size_t scratch = table_bytes(batch.size());
    lists_.clear();
    bounds_.clear();
    for (const ListVerb* verb : batch) {
      const View<const std::uint32_t> indices = std::get<BroadcastIndicesVerb>(*verb).indices;
      lists_.push_back({indices, {}});
      bounds_.push_back(std::get<BroadcastIndicesVerb>(*verb).bounds());
      scratch += max_bytes(indices.size(), /*has_values=*/false);
    }
    resize_with_slack(message_, scratch);
    if (is_root) message_.truncate(pack_lists(message_.host(), /*has_values=*/false));
    const ScopedSizeOnly scope(communicator(), is_size_only());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    const std::size_t bytes = communicator().broadcast_variable(root, message_.view(), is_root ? message_.size() : 0);
    if (is_root || is_size_only()) return;
    unpack_lists(message_.host().first(bytes), {root, {Route::Kind::kTree}}, /*has_values=*/false);
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      std::ranges::copy(lists_[bucket].indices.host(),
                        std::get<BroadcastIndicesVerb>(*batch[bucket]).indices.host().begin());
    }
  }

  /// Sums parts_ in the code of values.
  void coded_allreduce(VerbBatch batch) {
    remainders_.clear();
    stayed_.clear();
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      const auto& allreduce = std::get<AllreduceVerb>(*batch[bucket]);
      DRAGONN_CHECK(allreduce.algorithm == DenseAlgorithm::kRing, "only a ring sums in a code of values");
      resize_with_slack(*allreduce.remainder, parts_[bucket].size());
      remainders_.push_back(allreduce.remainder->host());
      if (allreduce.stayed != nullptr) resize_with_slack(*allreduce.stayed, parts_[bucket].size());
      stayed_.push_back(allreduce.stayed != nullptr ? allreduce.stayed->host() : std::span<std::uint8_t>());
    }
    const ScopedOperation operation = communicator().operation("allreduce");
    coded_ring_allreduce(communicator(), *codec_->sums(), {parts_, remainders_, stayed_}, ring_scratch_);
  }

  /// Unpacks a message into lists_, which keep bounds_. @param first of the rooms of its lists.
  /// @throws CommError if a list, or its length, does not fit.
  void unpack_lists(std::span<const std::byte> message, const Origin& origin, bool has_values = true,
                    std::size_t first = 0) {
    lists_.clear();
    const std::size_t count = bounds_.size();
    std::size_t begin = table_bytes(count);
    for (std::size_t i = 0; i < count && begin <= message.size(); ++i) {
      auto bytes = static_cast<std::uint32_t>(message.size());
      if (count > 1) std::memcpy(&bytes, message.data() + i * kWord, kWord);
      if (bytes > message.size() - begin) break;
      lists_.push_back(decode(message.subspan(begin, bytes), has_values, bounds_[i], first + i,
                              {origin.rank, origin.route, i, count}));
      begin += count > 1 ? aligned(bytes) : bytes;
    }
    if (lists_.size() == count && begin == message.size()) return;
    throw communicator().bad_data(
        origin.rank, origin.route,
        fmt::format("{} bytes are not {} list{} of entries", message.size(), count, count == 1 ? "" : "s"));
  }

  void start_step(VerbBatch batch, std::size_t step, Slot& slot) {
    std::size_t lists = 0, max = 0;
    for (const ListVerb* verb : batch) {
      const SwapVerb::Incoming& incoming = std::get<SwapVerb>(*verb).incoming[step];
      lists += incoming.bounds.max > 0 ? 1 : 0;
      max += max_bytes(incoming.bounds.max);
    }
    if (lists > 0) {
      resize_with_slack(slot.incoming, table_bytes(lists) + max);
      slot.receive = communicator().irecv(std::get<SwapVerb>(*batch.front()).incoming[step].source, kTagSlices,
                                          slot.incoming.view());
    }
    lists_.clear();
    max = 0;
    for (const ListVerb* verb : batch) {
      const SwapVerb::Outgoing& outgoing = std::get<SwapVerb>(*verb).outgoing[step];
      if (outgoing.max == 0) continue;
      lists_.push_back(outgoing.list);
      max += max_bytes(outgoing.max);
    }
    if (lists_.empty()) return;
    resize_with_slack(slot.outgoing, table_bytes(lists_.size()) + max);
    slot.outgoing.truncate(pack_lists(slot.outgoing.host()));
    if (is_lossy()) keep_sent(batch, step, slot.outgoing);
    slot.send = communicator().isend(std::get<SwapVerb>(*batch.front()).outgoing[step].destination, kTagSlices,
                                     std::as_const(slot.outgoing).view());
  }

  /// Keeps what the lists of a packed message decode to, for their sender.
  void keep_sent(VerbBatch batch, std::size_t step, const Buffer<std::byte>& message) {
    bounds_.assign(lists_.size(), {});
    unpack_lists(message.host(), {communicator().rank()});
    auto list = lists_.begin();
    for (ListVerb* verb : batch) {
      SwapVerb::Outgoing& outgoing = std::get<SwapVerb>(*verb).outgoing[step];
      if (outgoing.max > 0) outgoing.sent = keep(*list++);
    }
  }

  void finish_step(VerbBatch batch, std::size_t step, Slot& slot) {
    std::size_t lists = 0;
    bool sends = false;
    for (const ListVerb* verb : batch) {
      lists += std::get<SwapVerb>(*verb).incoming[step].bounds.max > 0 ? 1 : 0;
      sends = sends || std::get<SwapVerb>(*verb).outgoing[step].max > 0;
    }
    if (lists > 0) receive_step(batch, step, slot);
    if (sends) communicator().wait(slot.send);
  }

  void receive_step(VerbBatch batch, std::size_t step, Slot& slot) {
    const std::size_t bytes = communicator().wait(slot.receive);
    bounds_.clear();
    for (const ListVerb* verb : batch) {
      const SwapVerb::Incoming& incoming = std::get<SwapVerb>(*verb).incoming[step];
      if (incoming.bounds.max > 0) bounds_.push_back(incoming.bounds);
    }
    const int source = std::get<SwapVerb>(*batch.front()).incoming[step].source;
    unpack_lists(slot.incoming.host().first(bytes), {source});
    auto list = lists_.begin();
    for (ListVerb* verb : batch) {
      SwapVerb::Incoming& incoming = std::get<SwapVerb>(*verb).incoming[step];
      if (incoming.bounds.max == 0) continue;
      incoming.list = keep(*list++);
    }
  }

  /// Copies a list of a message, so that the next messages may overwrite its place.
  ListView keep(const ListView& list) {
    const std::size_t begin = kept_;
    kept_ += list.size();
    std::ranges::copy(list.indices.host(), swapped_.indices.data() + begin);
    std::ranges::copy(list.values.host(), swapped_.values.data() + begin);
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
  std::vector<ListView> lists_;     // of the message that is packed or unpacked
  std::vector<ListBounds> bounds_;  // of the lists of a message that is unpacked
  std::vector<Slot> slots_;
  SparseVector swapped_;  // what has come in a swap, and what was sent if that is not what was to be sent
  std::size_t kept_ = 0;  // entries of it
};

}  // namespace

std::unique_ptr<ListTransport> make_message_lists(Communicator& communicator, std::unique_ptr<codec::ListCodec> codec) {
  return std::make_unique<MessageLists>(communicator, std::move(codec));
}

}  // namespace dragonn::comm
