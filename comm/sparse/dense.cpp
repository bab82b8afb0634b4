// SPDX-License-Identifier: MIT
// Collective "dense": the selection is ignored and all of acc is summed.
#include <algorithm>
#include <bit>

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {
namespace {

class DenseAllreduce final : public SparseCollective {
 public:
  explicit DenseAllreduce(DenseAlgorithm algorithm) : algorithm_(algorithm) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                   const SparseVector& /*selected*/, SparseReduction& out) override {
    out.reset(communicator.size());
    out.dense_sum.resize_discard(acc.size());
    co_await AllreduceVerb{.values = out.dense_sum.view(),
                           .algorithm = algorithm_,
                           .remainder = context.codes_dense ? &out.remainder : nullptr,
                           .source = acc};
    out.is_dense = true;
    out.contributed_all = true;
    std::ranges::fill(out.statistics.selected_counts, acc.size());
  }

 private:
  DenseAlgorithm algorithm_;
};

Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const double bytes = sizes.sum_bytes(static_cast<double>(sizes.numel));
  switch (dense_algorithm(settings.text("algorithm"))) {
    case DenseAlgorithm::kRing:
      return {2 * bytes * share_of_others(sizes.ranks), ring_allreduce_chain(bytes, sizes.ranks)};
    case DenseAlgorithm::kRabenseifner: {
      const auto participants = static_cast<int>(std::bit_floor(static_cast<unsigned>(sizes.ranks)));
      // Each rank that is folded sends all of its elements, and receives all of the sums.
      const double sent = 2 * bytes * ((participants - 1) + (sizes.ranks - participants));
      return {sent / sizes.ranks, rabenseifner_chain(bytes, sizes.ranks)};
    }
    case DenseAlgorithm::kNative:
      return {2 * bytes * share_of_others(sizes.ranks), tree_allreduce_chain(bytes, sizes.ranks)};
  }
  return {};
}

std::size_t memory(const Settings&, const ExchangeSizes& sizes, const Device&) {
  const bool is_rounded = sizes.coding.sum_bytes() < sizeof(float);
  return (is_rounded ? 2 : 1) * sizeof(float) * sizes.numel;  // the sum, and what rounding leaves behind
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "dense",
     .summary = "dense allreduce of the whole accumulated gradient; the selection is ignored",
     .source = "ring: Patarasuk and Yuan 2009; rabenseifner: Rabenseifner 2004",
     .settings = {SettingSpec::text(
         "algorithm", "ring",
         "ring and rabenseifner give the same bits on every backend; native is the backend's own algorithm",
         {"ring", "rabenseifner", "native"})}},
    /*refuses=*/[](const SelectionTraits&) { return std::string(); },
    /*make=*/
    [](const Settings& settings, std::size_t /*numel*/) {
      return std::make_unique<DenseAllreduce>(dense_algorithm(settings.text("algorithm")));
    },
    predict,
    memory,
    SumSize::kDense,
    /*traffic=*/"2 n (P-1) / P",
    CodedValues::kSums,
    /*resize=*/{},
    /*lists_shared_indices=*/nullptr,
    /*sum_forecast=*/nullptr,
    Senders::kAll}};

}  // namespace
}  // namespace dragonn::comm
