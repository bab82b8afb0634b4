// SPDX-License-Identifier: MIT
// Collective "dsa" (SparCML's dynamic sparse allreduce): regions are summed by their owners and gathered, sparse or
// dense.
#include <numeric>
#include <optional>

#include "comm/sparse/coding_error.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/slices.h"
#include "comm/sparse/sparse_collective.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::comm {
namespace {

constexpr double kNeverDense = 1;

/// Returns whether a sum of so many entries is sent as lists.
bool is_sparse(double dense_share, double entries, std::size_t numel) {
  return dense_share >= kNeverDense || entries < dense_share * static_cast<double>(numel);
}

/// Gives the result of `allgather`, to the order of additions. The sum fills in with the number of ranks; if it has so
/// many entries that indices cost more than zeros, it is sent as floats alone.
class DynamicSparseAllreduce final : public SparseCollective {
 public:
  DynamicSparseAllreduce(double dense_share, std::size_t in_flight, std::size_t numel)
      : dense_share_(dense_share), in_flight_(in_flight), numel_(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext&, View<const float> acc,
                   const SparseVector& selected, SparseReduction& out) override {
    DRAGONN_CHECK(acc.size() == numel_, "a collective for {} elements got {}", numel_, acc.size());
    out.reset(communicator.size());
    if (!scratch_) scratch_.emplace(selected.device());
    co_await CountsVerb{selected.size(), out.statistics.selected_counts, numel_};
    // Regions of floor(n / P) elements; the last rank also takes the rest.
    const std::size_t ranks = out.statistics.selected_counts.size();
    regions_.assign(ranks + 1, numel_);
    for (std::size_t rank = 0; rank < ranks; ++rank) regions_[rank] = rank * (numel_ / ranks);
    slices_.plan_regions(communicator.rank(), selected, scratch_->indices.of(selected.indices.view()), regions_,
                         out.statistics.selected_counts);
    error_.clear();
    const bool is_lossy = co_await slices_.verb(in_flight_);
    if (is_lossy) error_.add_selection(selected, slices_.sent());
    sum_lists(communicator.clock(), slices_.in_rotation(), numel_, scratch_->reduced, out.statistics);

    out.statistics.owned_counts.resize(out.statistics.selected_counts.size());
    co_await CountsVerb{scratch_->reduced.size(), out.statistics.owned_counts, numel_};
    const auto total = std::reduce(out.statistics.owned_counts.begin(), out.statistics.owned_counts.end());
    if (is_sparse(dense_share_, static_cast<double>(total), numel_)) {
      lists_.resize(out.statistics.owned_counts.size());
      co_await GatherListsVerb{
          .mine = scratch_->reduced, .slots = out.statistics.owned_counts, .lists = lists_, .regions = regions_};
      operations(numel_, out.sum.device()).concatenate(lists_, out.sum);
      if (is_lossy) error_.add_sums(scratch_->reduced, lists_[static_cast<std::size_t>(communicator.rank())]);
    } else {
      scatter_region(communicator.rank(), out);
      co_await GatherPartsVerb{bytes_of(out.dense_sum.view()), regions_};
    }
    copy_indices(selected.indices.view(), out.contributed, numel_);
    if (!is_lossy) co_return;
    error_.give_back(out);
    error_.unmask_stayed(out);
  }

 private:
  /// The memory of the lists, on the device of the first selection.
  struct Scratch {
    explicit Scratch(const Device& device) : reduced(device), indices(device) {}
    SparseVector reduced;
    kernels::HostMirror<std::uint32_t> indices;
  };

  /// Scatters this rank's region of the dense sum.
  void scatter_region(int rank, SparseReduction& out) {
    const auto me = static_cast<std::size_t>(rank);
    out.dense_sum.resize_discard(numel_);
    out.is_dense = true;
    kernels::fill(0.0f, out.dense_sum.view().subview(regions_[me], regions_[me + 1] - regions_[me]));
    kernels::scatter_add(scratch_->reduced, out.dense_sum.view());
  }

  double dense_share_;
  std::size_t in_flight_;
  std::size_t numel_;
  std::optional<Scratch> scratch_;
  std::vector<std::uint64_t> regions_;
  Slices slices_;
  std::vector<ListView> lists_;  // by rank
  CodingError error_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.shared_indices) return "all ranks select the same indices, so only the values need to be summed";
  if (traits.partitioned) return "the ranks select in disjoint ranges, so there is nothing to sum";
  return traits.leader_only ? "the collective sums the selections of all ranks, but only the leader selects" : "";
}

Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const double slices = sizes.part_bytes(sizes.selected);
  const bool sends_lists = is_sparse(settings.number("switch"), sizes.global, sizes.numel);
  const double sum = sends_lists ? sizes.part_bytes(sizes.global) : word_bytes(static_cast<double>(sizes.numel));
  return {(slices + sum) * share_of_others(sizes.ranks),
          slices_chain(slices, sizes.ranks, in_flight(settings)) + ring_gather_chain(sum, sizes.ranks),
          2 * counts_chain(sizes.ranks)};
}

/// Returns the bytes of sent and received slices, which are moved aside as they come, this rank's sums, and the sum of
/// all: a list that was gathered as messages, or n floats.
std::size_t memory(const Settings& settings, const ExchangeSizes& sizes, const Device& device) {
  const double slices = 3 * sizes.selected;
  const double own = sizes.global / sizes.ranks;
  const bool sends_lists = is_sparse(settings.number("switch"), sizes.global, sizes.numel);
  const std::size_t sum = sends_lists ? list_bytes(2 * sizes.global) : word_bytes(static_cast<double>(sizes.numel));
  return list_bytes(slices + own) + decoder_bytes(sizes, device) + sum + word_bytes(sizes.selected) +
         coding_error_bytes(sizes, own);
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "dsa",
     .summary = "each worker sums a region of the bucket; all workers gather the regions as lists, or dense if they "
                "fill up",
     .source = "SparCML (Renggli et al., SC 2019), dynamic sparse allreduce, as Ok-Topk (PPoPP 2022) describes it",
     .settings = {SettingSpec::number("switch", 0.5,
                                      "share of entries from which the sum is sent dense; at 0.5 both forms have the "
                                      "same size, without a code; 1: never",
                                      0, 1),
                  in_flight_setting()}},
    refuses,
    /*make=*/
    [](const Settings& settings, std::size_t numel) {
      return std::make_unique<DynamicSparseAllreduce>(settings.number("switch"), in_flight(settings), numel);
    },
    predict,
    memory,
    SumSize::kUnion,
    /*traffic=*/"(2 k + min(2 k P, n)) (P-1) / P",
    CodedValues::kLists,
    /*resize=*/{},
    /*lists_shared_indices=*/nullptr,
    union_forecast}};

}  // namespace
}  // namespace dragonn::comm
