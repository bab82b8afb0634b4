// SPDX-License-Identifier: MIT
// List verbs over a DeviceTransport: lists stay on the device, sizes travel with the communicator. The parts of all
// buckets of a batch are sent in one group of messages.
//
// The sizes are checked before memory is reserved for them. The indices are not: they never reach the host, and kernels
// use them as they come, so a GPU's ranks must trust each other. NCCL itself checks no sender.
#include <algorithm>
#include <array>

#include "comm/device_transport.h"
#include "comm/sparse/list_operations.h"
#include "comm/sparse/list_transport.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::comm {
namespace {

/// The arguments of DeviceTransport::gather: each bucket's parts from all ranks, and this rank's.
class Gathers {
 public:
  explicit Gathers(std::size_t ranks) : ranks_(ranks) {}

  void clear() {
    parts_.clear();
    mine_.clear();
  }
  /// @param part_from returns the place of a rank's part.
  template <class PartFrom>
  void add(View<const std::byte> mine, const PartFrom& part_from) {
    mine_.push_back(mine);
    for (std::size_t from = 0; from < ranks_; ++from) parts_.push_back(part_from(from));
  }
  void run(Communicator& communicator) {
    gathers_.clear();
    for (std::size_t i = 0; i < mine_.size(); ++i)
      gathers_.push_back({mine_[i], std::span(parts_).subspan(i * ranks_, ranks_)});
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.device_transport()->gather(gathers_);
  }

 private:
  std::size_t ranks_;
  std::vector<View<std::byte>> parts_;
  std::vector<View<const std::byte>> mine_;
  std::vector<DeviceGather> gathers_;
};

class DeviceLists final : public ListTransport {
 public:
  explicit DeviceLists(Communicator& communicator) : ListTransport(communicator), gathers_(ranks()) {}

 protected:
  /// Gathers lists. Messages are never filled up: if only a number of slots is known, the sizes of the lists travel
  /// first.
  void gather_lists(VerbBatch batch) override {
    tell_sizes(batch);
    while (gathered_.size() < batch.size()) gathered_.emplace_back(device());
    gathers_.clear();
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      auto& gather = std::get<GatherListsVerb>(*batch[bucket]);
      SparseVector& all = gathered_[bucket];
      bounds_.assign(1, 0);
      for (std::size_t from = 0; from < ranks(); ++from)
        bounds_.push_back(bounds_.back() + sizes_[from * batch.size() + bucket]);
      resize_with_slack(all, bounds_.back());
      for (std::size_t from = 0; from < ranks(); ++from)
        gather.lists[from] = ListView(all).slice(bounds_[from], bounds_[from + 1]);
      const auto add = [&](auto mine, auto whole) {
        gathers_.add(bytes_of(mine), [&](std::size_t from) {
          return bytes_of(whole.subview(bounds_[from], bounds_[from + 1] - bounds_[from]));
        });
      };
      add(gather.mine.indices, all.indices.view());
      if (gather.has_values) add(gather.mine.values, all.values.view());
    }
    gathers_.run(communicator());
  }

  void gather_parts(VerbBatch batch) override {
    gathers_.clear();
    for (const ListVerb* verb : batch) {
      const auto& gather = std::get<GatherPartsVerb>(*verb);
      gathers_.add(gather.part(rank()), [&](std::size_t from) { return gather.part(from); });
    }
    gathers_.run(communicator());
  }

  void allreduce(VerbBatch batch) override {
    vectors_.clear();
    for (const ListVerb* verb : batch) {
      const auto& allreduce = std::get<AllreduceVerb>(*verb);
      if (!allreduce.source.empty()) kernels::copy(allreduce.source, allreduce.values);
      vectors_.push_back(allreduce.values);
    }
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    communicator().device_transport()->allreduce_sum(vectors_);
  }

  void broadcast_indices(VerbBatch batch) override {
    gathers_.clear();
    for (const ListVerb* verb : batch) {
      const auto& broadcast = std::get<BroadcastIndicesVerb>(*verb);
      add_broadcast(broadcast.root, bytes_of(View<const std::uint32_t>(broadcast.indices)),
                    bytes_of(broadcast.indices));
    }
    gathers_.run(communicator());
  }

  void broadcast_lists(VerbBatch batch) override {
    words_.clear();
    for (const ListVerb* verb : batch)
      words_.push_back(static_cast<std::uint32_t>(std::get<BroadcastListVerb>(*verb).mine.size()));
    const int root = std::get<BroadcastListVerb>(*batch.front()).root;
    {
      const ScopedPhase phase(communicator().traffic(), Phase::kHeader);
      communicator().broadcast(root, Communicator::as_writable_bytes(std::span(words_)));
    }
    gathers_.clear();
    for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
      const auto& broadcast = std::get<BroadcastListVerb>(*batch[bucket]);
      SparseVector& result = *broadcast.result;
      check_count(words_[bucket], broadcast.bounds(), root, {Route::Kind::kTree});
      resize_with_slack(result, words_[bucket]);
      add_broadcast(root, bytes_of(broadcast.mine.indices), bytes_of(result.indices.view()));
      add_broadcast(root, bytes_of(broadcast.mine.values), bytes_of(result.values.view()));
    }
    gathers_.run(communicator());
  }

  void swap_lists(VerbBatch batch) override {
    swap_sizes(batch);
    outgoing_.clear();
    incoming_.clear();
    std::size_t lists = 0;
    const std::size_t steps = std::get<SwapVerb>(*batch.front()).outgoing.size();
    for (std::size_t step = 0; step < steps; ++step) {
      for (ListVerb* verb : batch) {
        const SwapVerb::Outgoing& outgoing = std::get<SwapVerb>(*verb).outgoing[step];
        if (outgoing.max > 0) {
          outgoing_.push_back({outgoing.destination, bytes_of(outgoing.list.indices)});
          outgoing_.push_back({outgoing.destination, bytes_of(outgoing.list.values)});
        }
        SwapVerb::Incoming& incoming = std::get<SwapVerb>(*verb).incoming[step];
        if (incoming.bounds.max == 0) continue;
        if (received_.size() == lists) received_.emplace_back(device());
        SparseVector& list = received_[lists];
        check_count(words_[lists], incoming.bounds, incoming.source, {});
        resize_with_slack(list, words_[lists++]);
        incoming_.push_back({incoming.source, bytes_of(list.indices.view())});
        incoming_.push_back({incoming.source, bytes_of(list.values.view())});
        incoming.list = list;
      }
    }
    const ScopedPhase phase(communicator().traffic(), Phase::kExchange);
    communicator().device_transport()->exchange(outgoing_, incoming_);
  }

 private:
  Device device() const { return communicator().device_transport()->device(); }

  /// Gathers the lists' sizes into sizes_, [rank][bucket].
  void tell_sizes(VerbBatch batch) {
    const auto knows_sizes = [](const ListVerb* verb) { return !std::get<GatherListsVerb>(*verb).equal; };
    if (std::ranges::all_of(batch, knows_sizes)) {
      sizes_.clear();
      for (std::size_t from = 0; from < ranks(); ++from) {
        for (const ListVerb* verb : batch)
          sizes_.push_back(static_cast<std::uint32_t>(std::get<GatherListsVerb>(*verb).slots[from]));
      }
      return;
    }
    words_.clear();
    for (const ListVerb* verb : batch)
      words_.push_back(static_cast<std::uint32_t>(std::get<GatherListsVerb>(*verb).mine.size()));
    gather_header<std::uint32_t>(words_, sizes_);
    for (std::size_t from = 0; from < ranks(); ++from) {
      for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
        check_count(sizes_[from * batch.size() + bucket], std::get<GatherListsVerb>(*batch[bucket]).bounds(from),
                    static_cast<int>(from), header_route(words_));
      }
    }
  }

  /// Receives the sizes of the incoming lists in words_, step by step: a message of a word per bucket between two
  /// ranks.
  void swap_sizes(VerbBatch batch) {
    const auto& first = std::get<SwapVerb>(*batch.front());
    own_words_.clear();
    std::size_t coming = 0;
    for (std::size_t step = 0; step < first.outgoing.size(); ++step) {
      for (const ListVerb* verb : batch) {
        const auto& [outgoing, incoming, in_flight] = std::get<SwapVerb>(*verb);
        if (outgoing[step].max > 0) own_words_.push_back(static_cast<std::uint32_t>(outgoing[step].list.size()));
        coming += incoming[step].bounds.max > 0 ? 1 : 0;
      }
    }
    words_.resize(coming);
    requests_.clear();
    auto word = words_.begin(), own = own_words_.begin();
    const auto take = [](auto& place, std::size_t count) {
      place += static_cast<std::ptrdiff_t>(count);
      return std::span<std::uint32_t>(place - static_cast<std::ptrdiff_t>(count), place);
    };
    const ScopedPhase phase(communicator().traffic(), Phase::kHeader);
    for (std::size_t step = 0; step < first.outgoing.size(); ++step) {
      std::size_t to = 0, from = 0;
      for (const ListVerb* verb : batch) {
        to += std::get<SwapVerb>(*verb).outgoing[step].max > 0 ? 1 : 0;
        from += std::get<SwapVerb>(*verb).incoming[step].bounds.max > 0 ? 1 : 0;
      }
      if (from > 0) {
        requests_.push_back(communicator().irecv(first.incoming[step].source, kTagSlices,
                                                 Communicator::as_writable_bytes(take(word, from))));
      }
      if (to > 0) {
        requests_.push_back(communicator().isend(first.outgoing[step].destination, kTagSlices,
                                                 Communicator::as_writable_bytes(take(own, to))));
      }
    }
    for (Request& request : requests_) communicator().wait(request);
  }

  /// Adds a broadcast: a gather to which only the root contributes.
  void add_broadcast(int root, View<const std::byte> mine, View<std::byte> whole) {
    const bool is_root = communicator().rank() == root;
    gathers_.add(is_root ? mine : View<const std::byte>(whole).subview(0, 0), [&](std::size_t from) {
      return from == static_cast<std::size_t>(root) ? whole : whole.subview(0, 0);
    });
  }

  Gathers gathers_;
  std::vector<SparseVector> gathered_;  // by bucket of the batch
  std::vector<SparseVector> received_;  // of a swap
  std::vector<std::size_t> bounds_;     // of the ranks' lists in one of gathered_
  std::vector<std::uint32_t> sizes_, words_, own_words_;
  std::vector<View<float>> vectors_;
  std::vector<OutgoingBytes> outgoing_;
  std::vector<IncomingBytes> incoming_;
  std::vector<Request> requests_;
};

}  // namespace

std::unique_ptr<ListTransport> make_device_lists(Communicator& communicator) {
  return std::make_unique<DeviceLists>(communicator);
}

}  // namespace dragonn::comm
