// SPDX-License-Identifier: MIT
#include "trainer/cost_model.h"

#include <utility>

namespace dragonn::trainer {

CostModel::CostModel(const comm::NetworkModel& network, ExchangeRules rules, int world_size)
    : network_(network), rules_(std::move(rules)), world_size_(world_size) {}

TensorCost CostModel::cost(const CostCurve& curve, std::size_t numel, double density) const {
  return {.numel = numel,
          .full_seconds = exchange_seconds(numel, ExchangeForm::kDense, 1),
          .encode_seconds = curve.encode_seconds(numel),
          .decode_seconds = curve.decode_seconds(numel),
          .sparse_seconds = exchange_seconds(numel, ExchangeForm::kSparse, density)};
}

double CostModel::exchange_seconds(std::size_t numel, ExchangeForm form, double density) const {
  if (world_size_ == 1) return 0;
  return predict_bucket(rules_, numel, form, density, world_size_).seconds(network_);
}

}  // namespace dragonn::trainer
