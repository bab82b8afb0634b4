// SPDX-License-Identifier: MIT
// List verbs as messages: every rank sends a peer the parts of all buckets in one message, bucket by bucket.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "comm/room.h"
#include "comm/sparse/coo.h"
#include "comm/sparse/list_transport.h"
#include "comm/tags.h"

namespace dragonn::comm {
namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

void copy_bytes(std::span<const std::byte> source, std::span<std::byte> target) {
  if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
}

CooView host_list(const ListView& list) {
  return {list.indices.host(), list.values.host()};
}

ListView list_view(const CooView& list) {
  return {View<const std::uint32_t>(list.indices), View<const float>(list.values)};
}

class MessageLists final : public ListTransport {
 public:
  using ListTransport::ListTransport;

 protected:
  void gather_lists(VerbBatch batch) override {
    const bool equal =
        std::ranges::all_of(batch, [](const ListVerb* v) { return std::get<GatherListsVerb>(*v).equal; });
    sizes_.assign(ranks(), 0);
    for (const ListVerb* verb : batch) {
      const auto& gather = std::get<GatherListsVerb>(*verb);
      for (std::size_t from = 0; from < ranks(); ++from) sizes_[from] += slot_bytes(gather) * gather.slots[from];
    }
    lay_out();
    const bool hollow = is_hollow() && std::get<GatherListsVerb>(*batch.front()).has_values;
    if (!hollow) pack_own_lists(batch);
    gather_messages(equal, hollow);
    view_lists(batch, hollow);
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
      const ScopedHollow scope(communicator(), is_hollow());
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
    gather_messages(/*equal=*/false, is_hollow());
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
    gather_messages(/*equal=*/true, is_hollow());
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
    const ScopedHollow scope(communicator(), is_hollow());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    communicator().allreduce_sum(parts_, std::get<AllreduceVerb>(*batch.front()).algorithm);
  }

  void broadcast_indices(VerbBatch batch) override {
    const int root = std::get<BroadcastIndicesVerb>(*batch.front()).root;
    const ScopedHollow scope(communicator(), is_hollow());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    if (batch.size() == 1) {
      const auto& only = std::get<BroadcastIndicesVerb>(*batch.front());
      return communicator().broadcast(root, Communicator::as_writable_bytes(only.indices.host()));
    }
    std::size_t bytes = 0;
    for (const ListVerb* verb : batch) bytes += std::get<BroadcastIndicesVerb>(*verb).indices.host().size_bytes();
    resize_with_room(message_, bytes);
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
  }

  void broadcast_lists(VerbBatch batch) override {
    const int root = std::get<BroadcastListVerb>(*batch.front()).root;
    const bool is_root = communicator().rank() == root;
    std::size_t room = 0;
    lists_.clear();
    for (const ListVerb* verb : batch) {
      const auto& broadcast = std::get<BroadcastListVerb>(*verb);
      lists_.push_back(broadcast.mine);
      room += coo_bytes(is_root ? broadcast.mine.size() : broadcast.most);
    }
    resize_with_room(message_, table_bytes(batch.size()) + room);
    if (is_root) pack_lists(message_.host());
    const ScopedHollow scope(communicator(), is_hollow());
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    const std::size_t bytes = communicator().broadcast_variable(root, message_.view(), is_root ? message_.size() : 0);
    if (is_hollow()) {
      // One list: hollow exchanges have one bucket.
      return resize_with_room(*std::get<BroadcastListVerb>(*batch.front()).result, bytes / SparseVector::kEntryBytes);
    }
    unpack_lists(message_.host().first(bytes), batch.size(), root);
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      SparseVector& result = *std::get<BroadcastListVerb>(*batch[bucket]).result;
      resize_with_room(result, lists_[bucket].size());
      std::ranges::copy(lists_[bucket].indices.host(), result.indices.data());
      std::ranges::copy(lists_[bucket].values.host(), result.values.data());
    }
  }

  /// A window of steps is in flight; a message that has come is moved out of the way while the next ones travel.
  void swap(VerbBatch batch) override {
    const auto& first = std::get<SwapVerb>(*batch.front());
    const std::size_t steps = first.outgoing.size();
    const std::size_t window = std::min(first.in_flight, steps);
    while (slots_.size() < window) slots_.emplace_back();
    // Room for all that may come; only pages that messages really fill are ever touched.
    std::size_t most = 0;
    for (const ListVerb* verb : batch) {
      for (const SwapVerb::Incoming& incoming : std::get<SwapVerb>(*verb).incoming) most += coo_bytes(incoming.most);
    }
    incoming_bytes_ = 0;
    resize_with_room(incoming_, most);
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    for (std::size_t step = 0; step < window; ++step) start_step(batch, step, slots_[step]);
    for (std::size_t step = 0; step < steps; ++step) {
      Slot& slot = slots_[step % window];
      finish_step(batch, step, slot);
      if (step + window < steps) start_step(batch, step + window, slot);
    }
  }

 private:
  /// A step of a swap on its way.
  struct Slot {
    Buffer<std::byte> incoming;
    Buffer<std::byte> outgoing;
    Request receive;
    Request send;
  };

  static std::size_t slot_bytes(const GatherListsVerb& gather) {
    return gather.has_values ? SparseVector::kEntryBytes : kWord;
  }
  /// Where a message holds several lists whose sizes its receiver does not know, it begins with their sizes.
  static std::size_t table_bytes(std::size_t lists) { return lists > 1 ? lists * kWord : 0; }

  /// Places for messages of sizes_[r] bytes, in rank order.
  void lay_out() {
    offsets_.resize(ranks());
    std::exclusive_scan(sizes_.begin(), sizes_.end(), offsets_.begin(), std::size_t{0});
    resize_with_room(gathered_, offsets_.back() + sizes_.back());
  }
  void gather_messages(bool equal, bool hollow) {
    const View<const std::byte> mine = std::as_const(gathered_).view().subview(offsets_[rank()], sizes_[rank()]);
    const ScopedHollow scope(communicator(), hollow);
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    if (equal) return communicator().allgather(mine, gathered_.view());
    communicator().allgather_variable(mine, sizes_, gathered_.view());
  }

  void pack_own_lists(VerbBatch batch) {
    std::size_t begin = offsets_[rank()];
    for (const ListVerb* verb : batch) {
      const auto& gather = std::get<GatherListsVerb>(*verb);
      const std::size_t slots = gather.slots[rank()];
      const std::span<std::byte> message = gathered_.host().subspan(begin, slot_bytes(gather) * slots);
      begin += message.size();
      if (gather.has_values) {
        pack_coo(host_list(gather.mine), message);
      } else {
        const std::span<std::uint32_t> indices(reinterpret_cast<std::uint32_t*>(message.data()), slots);
        DRAGONN_CHECK(gather.mine.size() <= slots, "{} indices for a message of {}", gather.mine.size(), slots);
        std::ranges::copy(gather.mine.indices.host(), indices.begin());
        std::ranges::fill(indices.subspan(gather.mine.size()), kEmptySlot);
      }
    }
  }

  void view_lists(VerbBatch batch, bool hollow) {
    for (std::size_t from = 0; from < ranks(); ++from) {
      std::size_t begin = offsets_[from];
      for (ListVerb* verb : batch) {
        auto& gather = std::get<GatherListsVerb>(*verb);
        const auto message =
            std::span<const std::byte>(gathered_.host()).subspan(begin, slot_bytes(gather) * gather.slots[from]);
        begin += message.size();
        const ListView list =
            gather.has_values
                ? list_view(view_coo(message))
                : ListView(View<const std::uint32_t>(std::span<const std::uint32_t>(
                               reinterpret_cast<const std::uint32_t*>(message.data()), gather.slots[from])),
                           {});
        gather.lists[from] = hollow ? list : without_padding(list);
      }
    }
  }

  /// A message's empty slots are at its end.
  static ListView without_padding(const ListView& list) {
    const std::span<const std::uint32_t> indices = list.indices.host();
    if (indices.empty() || indices.back() != kEmptySlot) return list;
    return list.slice(0, static_cast<std::size_t>(std::ranges::find(indices, kEmptySlot) - indices.begin()));
  }

  /// The table, if there is one, and lists_.
  void pack_lists(std::span<std::byte> message) const {
    if (lists_.size() > 1) {
      for (std::size_t i = 0; i < lists_.size(); ++i) {
        const auto size = static_cast<std::uint32_t>(lists_[i].size());
        std::memcpy(message.data() + i * kWord, &size, kWord);
      }
    }
    std::size_t begin = table_bytes(lists_.size());
    for (const ListView& list : lists_) {
      pack_coo(host_list(list), message.subspan(begin, coo_bytes(list.size())));
      begin += coo_bytes(list.size());
    }
  }

  /// lists_ <- those of a message of `count` lists. @throws CommError if its length is not theirs.
  void unpack_lists(std::span<const std::byte> message, std::size_t count, int source) {
    lists_.clear();
    std::size_t begin = table_bytes(count);
    for (std::size_t i = 0; i < count && begin <= message.size(); ++i) {
      std::uint32_t size = 0;
      if (count > 1) {
        std::memcpy(&size, message.data() + i * kWord, kWord);
      } else {
        size = static_cast<std::uint32_t>(message.size() / SparseVector::kEntryBytes);
      }
      if (coo_bytes(size) > message.size() - begin) break;
      lists_.push_back(list_view(view_coo(message.subspan(begin, coo_bytes(size)))));
      begin += coo_bytes(size);
    }
    if (lists_.size() == count && begin == message.size()) return;
    throw CommError(fmt::format("rank {} received {} bytes from rank {}, which are not {} list{} of entries",
                                communicator().rank(), message.size(), source, count, count == 1 ? "" : "s"));
  }

  void start_step(VerbBatch batch, std::size_t step, Slot& slot) {
    std::size_t lists = 0, most = 0;
    for (const ListVerb* verb : batch) {
      const SwapVerb::Incoming& incoming = std::get<SwapVerb>(*verb).incoming[step];
      lists += incoming.most > 0 ? 1 : 0;
      most += coo_bytes(incoming.most);
    }
    if (lists > 0) {
      resize_with_room(slot.incoming, table_bytes(lists) + most);
      slot.receive = communicator().irecv(std::get<SwapVerb>(*batch.front()).incoming[step].source, kTagSlices,
                                          slot.incoming.view());
    }
    lists_.clear();
    std::size_t bytes = 0;
    most = 0;
    for (const ListVerb* verb : batch) {
      const SwapVerb::Outgoing& outgoing = std::get<SwapVerb>(*verb).outgoing[step];
      if (outgoing.most == 0) continue;
      lists_.push_back(outgoing.list);
      bytes += coo_bytes(outgoing.list.size());
      most += coo_bytes(outgoing.most);
    }
    if (lists_.empty()) return;
    resize_with_room(slot.outgoing, table_bytes(lists_.size()) + most);
    slot.outgoing.truncate(table_bytes(lists_.size()) + bytes);
    pack_lists(slot.outgoing.host());
    slot.send = communicator().isend(std::get<SwapVerb>(*batch.front()).outgoing[step].destination, kTagSlices,
                                     std::as_const(slot.outgoing).view());
  }

  void finish_step(VerbBatch batch, std::size_t step, Slot& slot) {
    std::size_t lists = 0;
    bool sends = false;
    for (const ListVerb* verb : batch) {
      lists += std::get<SwapVerb>(*verb).incoming[step].most > 0 ? 1 : 0;
      sends = sends || std::get<SwapVerb>(*verb).outgoing[step].most > 0;
    }
    if (lists > 0) receive_step(batch, step, slot, lists);
    if (sends) communicator().wait(slot.send);
  }

  void receive_step(VerbBatch batch, std::size_t step, Slot& slot, std::size_t lists) {
    const std::size_t bytes = communicator().wait(slot.receive);
    unpack_lists(slot.incoming.host().first(bytes), lists, std::get<SwapVerb>(*batch.front()).incoming[step].source);
    auto list = lists_.begin();
    for (ListVerb* verb : batch) {
      SwapVerb::Incoming& incoming = std::get<SwapVerb>(*verb).incoming[step];
      if (incoming.most == 0) continue;
      const std::span<std::byte> place = incoming_.host().subspan(incoming_bytes_, coo_bytes(list->size()));
      pack_coo(host_list(*list++), place);
      incoming.list = list_view(view_coo(place));
      incoming_bytes_ += place.size();
    }
  }

  std::vector<std::size_t> sizes_, offsets_;  // bytes by rank, of gathered_
  Buffer<std::byte> gathered_;                // the messages of all ranks
  Buffer<std::byte> message_;                 // of a broadcast
  std::vector<std::span<float>> parts_;
  std::vector<ListView> lists_;  // of the message that is packed or unpacked
  std::vector<Slot> slots_;
  Buffer<std::byte> incoming_;  // what has come in a swap
  std::size_t incoming_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ListTransport> make_message_lists(Communicator& communicator) {
  return std::make_unique<MessageLists>(communicator);
}

}  // namespace dragonn::comm
