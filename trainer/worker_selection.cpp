// SPDX-License-Identifier: MIT
/// Which tensors a run sparsifies: the part of Worker that comes before the first step.
#include <algorithm>

#include <fmt/format.h>

#include "core/file.h"
#include "core/log.h"
#include "trainer/agreement.h"
#include "trainer/density_plan.h"
#include "trainer/worker.h"

namespace dragonn::trainer {

SelectionQuestion Worker::selection_question() const {
  return {.config = config_,
          .buckets = exchange_->buckets(),
          .densities = sparse_densities(config_.compression, scheduled_steps_, steps_per_epoch_),
          .world_size = communicator_.size(),
          .device = device()};
}

bool Worker::selects_by_cost() const {
  const CompressionConfig& compression = config_.compression;
  return compression.select_tensors == CompressionConfig::SelectTensors::kCostModel && compression.selects();
}

void Worker::check_profile() const {
  if (wants_costs(config_, communicator_.size())) given_profile(selection_question());
}

/// Whether the restored selection covers the densities that this run's config schedules.
bool Worker::selection_fits() const {
  return selection_ && std::ranges::all_of(selection_question().densities, [&](double density) {
           return std::ranges::count(selection_->densities, density, &DensityCosts::density) > 0;
         });
}

void Worker::choose_none() {
  warn(
      "compression.select_tensors = \"cost_model\" with one worker: nothing is exchanged, so sparsifying gains "
      "nothing, "
      "and every tensor stays dense");
  std::vector<BucketChoice> choices;
  for (const double density : selection_question().densities)
    choices.push_back({density, std::vector<bool>(exchange_->buckets().size(), false)});
  exchange_->restrict_to(std::move(choices));
}

void Worker::choose_tensors() {
  if (selects_by_cost() && communicator_.size() == 1) return choose_none();
  if (!wants_costs(config_, communicator_.size())) return selection_.reset();
  if (!selection_fits()) selection_ = trainer::choose_tensors(communicator_, selection_question());
  if (selection_->densities.empty()) return;
  // The schedule ends at the target; of the densities before it one line each is enough.
  for (const DensityCosts& costs : selection_->densities) {
    const std::vector<std::string> lines = describe(*selection_, costs.density);
    const bool last = &costs == &selection_->densities.back();
    for (std::size_t i = 0; i < (last ? lines.size() : 1); ++i) log::info(communicator_.rank(), "{}", lines[i]);
  }
  const std::string warning = dense_is_faster(*selection_, selection_->densities.back().density, selects_by_cost());
  if (!warning.empty()) warn(warning);
  all_ranks_or_none(communicator_, [&] {
    if (selects_by_cost()) exchange_->restrict_to(bucket_choices(*selection_, exchange_->buckets()));
    if (communicator_.rank() == 0) write_file_atomically(folder_.profile(), to_json(*selection_));
  });
}

}  // namespace dragonn::trainer
