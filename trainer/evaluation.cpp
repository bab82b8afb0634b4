// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include <algorithm>

namespace dragonn::trainer {

AveragedStatistics::AveragedStatistics(comm::Communicator& communicator, layers::Network& network)
    : network_(network), own_(network.statistics().size()) {
  const std::span<float> statistics = network.statistics().host();
  std::ranges::copy(statistics, own_.host().begin());
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kEvaluation);
  communicator.allreduce_sum(network.statistics());
  const float share = 1.0f / static_cast<float>(communicator.size());
  for (float& value : statistics) value *= share;
}

AveragedStatistics::~AveragedStatistics() {
  std::ranges::copy(own_.host(), network_.statistics().host().begin());
}

EvaluationResult evaluate(comm::Communicator& communicator, layers::Network& network, data::EvaluationLoader& loader) {
  QualitySums sums(loader.dataset());
  loader.restart();
  while (const data::Batch* batch = loader.next()) {
    if (batch->begins) network.reset_state(layers::Mode::kEvaluate);
    const layers::LossResult loss = network.forward(network_batch(*batch), layers::Mode::kEvaluate);
    sums.add({network.logits(), network.logits_shape(), network.logits_lengths()}, *batch, loss);
  }
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kEvaluation);
  communicator.allreduce_sum(sums.sums());
  return {sums.loss(), sums.qualities(), sums.count()};
}

layers::NetworkBatch network_batch(const data::Batch& batch) {
  return {.inputs = batch.input_view(),
          .targets = batch.targets(),
          .size = batch.count,
          .lengths = batch.length_view(),
          .steps = batch.steps};
}

}  // namespace dragonn::trainer
