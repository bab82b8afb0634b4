// SPDX-License-Identifier: MIT
// Collective "dsa" (SparCML's dynamic sparse allreduce): regions are summed by their owners and gathered, sparse or
// dense.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "comm/room.h"
#include "comm/sparse/coo_gather.h"
#include "comm/sparse/counts.h"
#include "comm/sparse/device_balanced_gather.h"
#include "comm/sparse/device_bytes.h"
#include "comm/sparse/device_lists.h"
#include "comm/sparse/device_region_reduce.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/region_reduce.h"
#include "comm/sparse/scoped_seconds.h"
#include "kernels/devices.h"
#include "kernels/elementwise.h"
#include "kernels/select.h"

namespace dragonn::comm {
namespace {

/// The result is that of `allgather`, to the order of additions. It fills in with the ranks; where the sum has so many
/// entries that indices cost more than zeros, it travels as floats alone.
class DynamicSparseAllreduce final : public SparseCollective {
 public:
  DynamicSparseAllreduce(double dense_share, std::size_t in_flight, std::size_t numel)
      : dense_share_(dense_share), numel_(numel), reduce_(numel, in_flight) {}

  void do_reduce(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                 const SparseVector& selected, SparseReduction& out) override {
    DRAGONN_CHECK(acc.size() == numel_, "a collective for {} elements got {}", numel_, acc.size());
    out.reset(communicator.size());
    out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
    if (out.non_finite) return;
    split_evenly(static_cast<std::size_t>(communicator.size()));
    if (communicator.device_transport() != nullptr) return reduce_on_device(communicator, selected, out);
    reduce_.run(communicator, selected, regions_, out, reduced_);

    owned_.resize(out.selected_counts.size());
    counts_.run(communicator, reduced_.size(), /*non_finite=*/false, owned_);
    out.owned_counts = owned_;
    const auto total = std::accumulate(owned_.begin(), owned_.end(), std::uint64_t{0});
    const ScopedHollow scope(communicator, context.payload_only);
    if (static_cast<double>(total) < dense_share_ * static_cast<double>(numel_)) {
      gather_.run(communicator, view_coo(reduced_), owned_);
      if (!context.payload_only) gather_.concatenate(out.sum);
    } else {
      gather_dense(communicator, out);
    }
    if (context.payload_only) return resize_with_room(out.sum, total);
    resize_with_room(out.contributed, selected.size(), numel_);
    std::ranges::copy(selected.indices.host(), out.contributed.data());
  }

 private:
  /// floor(n / P) elements each; the last rank takes the rest too.
  void split_evenly(std::size_t ranks) {
    regions_.resize(ranks + 1);
    for (std::size_t rank = 0; rank < ranks; ++rank) regions_[rank] = rank * (numel_ / ranks);
    regions_[ranks] = numel_;
  }

  void gather_dense(Communicator& communicator, SparseReduction& out) {
    const auto me = static_cast<std::size_t>(communicator.rank());
    out.dense_sum.resize_discard(numel_);
    out.is_dense = true;
    const auto mine = out.dense_sum.host().subspan(regions_[me], regions_[me + 1] - regions_[me]);
    if (!communicator.is_hollow()) {
      std::ranges::fill(mine, 0.0f);
      kernels::scatter_add(reduced_, out.dense_sum.view());
    }
    sizes_.resize(owned_.size());
    for (std::size_t rank = 0; rank < sizes_.size(); ++rank) {
      sizes_[rank] = (regions_[rank + 1] - regions_[rank]) * sizeof(float);
    }
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.allgather_variable(Communicator::as_bytes(std::span<const float>(mine)), sizes_,
                                    Communicator::as_writable_bytes(out.dense_sum.host()));
  }

  /// The same from GPU to GPU.
  void reduce_on_device(Communicator& communicator, const SparseVector& selected, SparseReduction& out) {
    const Device& device = selected.device();
    if (!on_device_) on_device_.emplace(numel_, device);
    on_device_->reduce.exchange(communicator, selected, regions_);
    {
      const ScopedSeconds decoding(communicator.clock(), out.decode_seconds);
      on_device_->reduce.sum(communicator, on_device_->lists, on_device_->reduced);
      kernels::synchronize(device);
    }
    const SparseVector& reduced = on_device_->reduced;
    on_device_->gather.count(communicator, reduced);
    out.owned_counts = on_device_->gather.counts();
    const auto total = std::accumulate(out.owned_counts.begin(), out.owned_counts.end(), std::uint64_t{0});
    if (static_cast<double>(total) < dense_share_ * static_cast<double>(numel_)) {
      on_device_->gather.run(communicator, reduced, std::numeric_limits<double>::infinity(), out.sum);
    } else {
      gather_dense_on_device(communicator, reduced, out);
    }
    copy_indices(selected, out.contributed);
  }

  void gather_dense_on_device(Communicator& communicator, const SparseVector& reduced, SparseReduction& out) {
    out.dense_sum.resize_discard(numel_);
    out.is_dense = true;
    parts_.clear();
    for (std::size_t rank = 0; rank + 1 < regions_.size(); ++rank) {
      const auto region = out.dense_sum.view().subview(regions_[rank], regions_[rank + 1] - regions_[rank]);
      parts_.push_back(bytes_of(region));
      if (rank == static_cast<std::size_t>(communicator.rank())) kernels::fill(0.0f, region);
    }
    kernels::scatter_add(reduced, out.dense_sum.view());
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.device_transport()->gather(parts_[static_cast<std::size_t>(communicator.rank())], parts_);
  }

  /// From the first exchange of GPUs on.
  struct OnDevice {
    OnDevice(std::size_t numel, const Device& device)
        : lists(numel, device), reduce(device), gather(device), reduced(device) {}
    DeviceLists lists;
    DeviceRegionReduce reduce;
    DeviceBalancedGather gather;
    SparseVector reduced;
  };

  double dense_share_;
  std::size_t numel_;
  CountExchange counts_;
  RegionReduce reduce_;
  CooGather gather_;
  std::vector<std::uint64_t> regions_;
  std::vector<std::uint64_t> owned_;
  std::vector<std::size_t> sizes_;
  SparseVector reduced_;
  std::optional<OnDevice> on_device_;
  std::vector<View<std::byte>> parts_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.shared_indices) return "all ranks select the same indices, so only the values need to be summed";
  if (traits.partitioned) return "the ranks select in disjoint ranges, so there is nothing to sum";
  return traits.leader_only ? "the collective sums the selections of all ranks, but only the leader selects" : "";
}

Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const double slices = SparseVector::kEntryBytes * sizes.selected;
  const auto numel = static_cast<double>(sizes.numel);
  const bool is_sparse = sizes.global < settings.number("switch") * numel;
  const double sum = is_sparse ? SparseVector::kEntryBytes * sizes.global : sizeof(float) * numel;
  return {(slices + sum) * share_of_others(sizes.ranks),
          slices_chain(slices, sizes.ranks, in_flight(settings)) + ring_gather_chain(sum, sizes.ranks),
          2 * counts_chain(sizes.ranks)};
}

/// Slices as they are sent and as they came, this rank's sums, and the sum of all: a list that was gathered as
/// messages, or n floats.
std::size_t memory(const Settings& settings, const ExchangeSizes& sizes, const Device& device) {
  const double slices = 2 * sizes.selected;
  const double own = sizes.global / sizes.ranks;
  const auto numel = static_cast<double>(sizes.numel);
  const bool is_sparse = sizes.global < settings.number("switch") * numel;
  const std::size_t sum = is_sparse ? list_bytes(2 * sizes.global) : word_bytes(numel);
  return list_bytes(slices + own) + decoder_bytes(sizes, device) + sum + word_bytes(sizes.selected);
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "dsa",
     .summary = "each worker sums a region of the bucket; all workers gather the regions as lists, or dense where they "
                "fill in",
     .source = "SparCML (Renggli et al., SC 2019), dynamic sparse allreduce, as Ok-Topk (PPoPP 2022) describes it",
     .settings = {{.name = "switch",
                   .default_value = 0.5,
                   .help = "share of entries from which the sum is sent dense; at 0.5 both forms have the same size",
                   .minimum = 0,
                   .maximum = 1},
                  in_flight_setting()}},
    refuses,
    /*make=*/
    [](const Settings& settings, std::size_t numel) -> std::unique_ptr<SparseCollective> {
      return std::make_unique<DynamicSparseAllreduce>(settings.number("switch"), in_flight(settings), numel);
    },
    predict,
    memory,
    SumSize::kUnion,
    /*traffic=*/"(2 k + min(2 k P, n)) (P-1) / P"}};

}  // namespace
}  // namespace dragonn::comm
