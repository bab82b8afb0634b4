// SPDX-License-Identifier: MIT
#include "trainer/run/evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
#include "core/hash.h"
#include "core/memory_ledger.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::trainer {

Buffer<float> mean_statistics(comm::Communicator& communicator, layers::Network& network) {
  Buffer<float> mean(network.statistics().size());
  kernels::copy(network.statistics(), mean.view());
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kEvaluation);
  communicator.allreduce_sum(mean.view());
  const float share = 1.0f / static_cast<float>(communicator.size());
  for (float& value : mean.host()) value *= share;
  return mean;
}

AveragedStatistics::AveragedStatistics(comm::Communicator& communicator, layers::Network& network)
    : network_(network), own_(network.statistics().size()) {
  kernels::copy(network.statistics(), own_.view());
  kernels::copy(mean_statistics(communicator, network).view(), network.statistics());
}

AveragedStatistics::~AveragedStatistics() {
  try {
    kernels::copy(own_.view(), network_.statistics());
  } catch (const DeviceError&) {
    // A GPU that fails here fails at the next use, too, which reports it.
  }
}

SharedParameters::SharedParameters(layers::Network& network, View<const float> model) {
  if (model.empty()) return;
  arena_ = &network.arena();
  kernels::copy(arena_->values(), arena_->gradients());
  kernels::copy(model, arena_->values());
}

SharedParameters::~SharedParameters() {
  if (arena_ != nullptr) kernels::copy(arena_->gradients(), arena_->values());
}

EvaluationResult evaluate(comm::Communicator& communicator, layers::Network& network, data::EvaluationLoader& loader) {
  const MemoryLabel label("activations of evaluation");
  QualitySums sums(loader.dataset());
  loader.restart();
  while (const data::Batch* batch = loader.next()) {
    if (batch->begins) network.reset_state(layers::Mode::kEvaluate);
    const layers::LossResult loss = network.forward(network_batch(*batch), layers::Mode::kEvaluate);
    Outputs outputs;
    if (sums.reads_outputs()) outputs = {network.logits(), network.logits_shape(), network.logits_lengths()};
    sums.add(outputs, *batch, loss);
  }
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kEvaluation);
  communicator.allreduce_sum(sums.sums());
  return {sums.loss(), sums.qualities(), sums.count()};
}

std::uint64_t check_replicas(comm::Communicator& communicator, std::span<const float> parameters, std::uint64_t step) {
  const std::uint64_t mine = hash_bytes(std::as_bytes(parameters));
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint64_t>(&mine, 1), std::span<std::uint64_t>(hashes));
  std::vector<std::size_t> different;
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[0]) different.push_back(rank);
  }
  if (!different.empty()) {
    throw comm::CollectiveError(
        fmt::format("step {}: the parameters of rank{} {} differ from those of rank 0; the run stops because "
                    "its replicas have diverged",
                    step, different.size() == 1 ? "" : "s", fmt::join(different, ", ")));
  }
  return mine;
}

layers::NetworkBatch network_batch(const data::Batch& batch) {
  return {.inputs = batch.input_view(),
          .targets = batch.targets(),
          .size = batch.count,
          .lengths = batch.length_view(),
          .steps = batch.steps};
}

}  // namespace dragonn::trainer
