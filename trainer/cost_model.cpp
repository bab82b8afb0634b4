// SPDX-License-Identifier: MIT
#include "trainer/cost_model.h"

#include <utility>

#include "comm/sparse/sparse_collective.h"
#include "compress/sparsifier.h"

namespace dragonn::trainer {

CostModel::CostModel(const comm::NetworkModel& network, Component dense, Component collective, int world_size)
    : network_(network), dense_(std::move(dense)), collective_(std::move(collective)), world_size_(world_size) {}

TensorCost CostModel::cost(const CostCurve& curve, std::size_t numel, double density) const {
  return {.numel = numel,
          .full_seconds = exchange_seconds(dense_, numel, numel),
          .encode_seconds = curve.encode_seconds(numel),
          .decode_seconds = curve.decode_seconds(numel),
          .sparse_seconds = exchange_seconds(collective_, numel, compress::target_count(density, numel))};
}

double CostModel::exchange_seconds(const Component& collective, std::size_t numel, std::size_t k) const {
  if (world_size_ == 1) return 0;
  const auto& entry = Registry<comm::SparseCollectiveEntry>::instance().at(collective.name);
  return network_.seconds(entry.latencies(collective.settings, world_size_),
                          entry.bytes_sent(collective.settings, numel, k, world_size_));
}

}  // namespace dragonn::trainer
