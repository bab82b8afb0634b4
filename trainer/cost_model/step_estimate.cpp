// SPDX-License-Identifier: MIT
#include "trainer/cost_model/step_estimate.h"

#include <algorithm>

namespace dragonn::trainer {
namespace {

/// Returns the last tensor of "fc.weight..conv1.weight".
std::string last_tensor(const std::string& bucket) {
  const std::size_t dots = bucket.rfind("..");
  return dots == std::string::npos ? bucket : bucket.substr(dots + 2);
}

/// Returns the share of all operations that backward has done when it has passed the layer of this tensor.
double share_behind(std::span<const layers::LayerSummary> layers, const std::string& tensor) {
  double all = 0, behind = 0;
  bool found = false;
  for (const layers::LayerSummary& layer : layers) {
    found = found || tensor.starts_with(layer.name + ".");
    all += layer.forward_flops;
    if (found) behind += layer.forward_flops;
  }
  return found && all > 0 ? behind / all : 1;
}

}  // namespace

double exposed_seconds(std::span<const ExchangeStage> stages, const comm::NetworkModel& network,
                       std::optional<double> backward_seconds) {
  const double backward = backward_seconds.value_or(0);
  double now = 0;
  for (const ExchangeStage& stage : stages) {
    now = std::max(now, stage.ready * backward) + stage.local_seconds + stage.messages.seconds(network);
  }
  return std::max(0.0, now - backward);
}

std::vector<double> ready_shares(std::span<const layers::LayerSummary> layers,
                                 std::span<const exchange::Bucket> buckets) {
  std::vector<double> shares;
  double latest = 0;
  for (const exchange::Bucket& bucket : buckets) {
    latest = std::max(latest, share_behind(layers, last_tensor(bucket.name)));
    shares.push_back(latest);
  }
  return shares;
}

}  // namespace dragonn::trainer
