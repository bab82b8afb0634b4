// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include "core/memory_ledger.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::trainer {

AveragedStatistics::AveragedStatistics(comm::Communicator& communicator, layers::Network& network)
    : network_(network), own_(network.statistics().size()) {
  kernels::copy(network.statistics(), own_.view());
  Buffer<float> mean(own_.size());
  kernels::copy(own_.view(), mean.view());
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kEvaluation);
  communicator.allreduce_sum(mean.view());
  const float share = 1.0f / static_cast<float>(communicator.size());
  for (float& value : mean.host()) value *= share;
  kernels::copy(mean.view(), network.statistics());
}

AveragedStatistics::~AveragedStatistics() {
  try {
    kernels::copy(own_.view(), network_.statistics());
  } catch (const DeviceError&) {
    // A GPU that fails here fails at the next use, too, which reports it.
  }
}

EvaluationResult evaluate(comm::Communicator& communicator, layers::Network& network, data::EvaluationLoader& loader) {
  const MemoryLabel label("activations of evaluation");
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
