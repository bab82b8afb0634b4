// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include <algorithm>
#include <array>

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
  enum Sum : std::size_t { kLoss, kCorrect, kCount, kSums };
  std::array<double, kSums> sums{};
  loader.restart();
  while (const data::Batch* batch = loader.next()) {
    const layers::LossResult result =
        network.forward(batch->input_view(), batch->label_view(), batch->count, layers::Mode::kEvaluate);
    sums[kLoss] += result.loss_sum;
    sums[kCorrect] += static_cast<double>(result.correct);
    sums[kCount] += static_cast<double>(result.count);
  }
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kEvaluation);
  communicator.allreduce_sum(std::span<double>(sums));
  const double count = std::max(sums[kCount], 1.0);
  return {sums[kLoss] / count, sums[kCorrect] / count, static_cast<std::uint64_t>(sums[kCount])};
}

}  // namespace dragonn::trainer
