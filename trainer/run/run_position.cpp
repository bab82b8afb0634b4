// SPDX-License-Identifier: MIT
#include "trainer/run/run_position.h"

#include <algorithm>

#include "core/error.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kEpoch = "position/epoch";
constexpr const char* kSamplesPerStep = "position/samples_per_step";
constexpr const char* kSteps = "position/steps";

}  // namespace

void save_position(Archive& archive, const DataPosition& position) {
  std::vector<std::uint64_t> samples, steps;
  for (const data::EpochPart& part : position.parts) {
    samples.push_back(part.samples_per_step);
    steps.push_back(part.steps);
  }
  archive.put(kEpoch, position.epoch);
  archive.put_array<std::uint64_t>(kSamplesPerStep, samples);
  archive.put_array<std::uint64_t>(kSteps, steps);
}

DataPosition load_position(const Archive& archive) {
  DataPosition position{.epoch = archive.get<std::uint64_t>(kEpoch)};
  const auto samples = archive.get_vector<std::uint64_t>(kSamplesPerStep);
  const auto steps = archive.get_vector<std::uint64_t>(kSteps);
  const bool is_valid = !samples.empty() && samples.size() == steps.size() && std::ranges::count(samples, 0U) == 0;
  if (!is_valid) throw DataError("the checkpoint's position does not say how many samples a step took");
  for (std::size_t i = 0; i < samples.size(); ++i) position.parts.push_back({samples[i], steps[i]});
  return position;
}

bool has_position(const Archive& archive) {
  return archive.contains(kEpoch);
}

void RunPosition::resume(std::uint64_t step, const DataPosition& position, const ContinueEpoch& continue_epoch) {
  resumed_ = position;
  std::uint64_t own = 0;
  if (!position.parts.empty() && position.parts.back().samples_per_step == samples_per_step_) {
    own = position.parts.back().steps;
    resumed_.parts.pop_back();
  }
  std::erase_if(resumed_.parts, [](const data::EpochPart& part) { return part.steps == 0; });
  const std::uint64_t left = resumed_.parts.empty() ? steps_per_epoch_ : continue_epoch(position.epoch, resumed_.parts);
  first_step_ = steps_per_epoch_ - left;
  ahead_ = position.epoch * steps_per_epoch_ + std::min(first_step_ + own, steps_per_epoch_) - step;
}

std::uint64_t RunPosition::step_at(std::uint64_t scheduled) const {
  const auto step = static_cast<std::int64_t>(scheduled - ahead_);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(step, 0));
}

DataPosition RunPosition::at(std::uint64_t step) const {
  DataPosition position{.epoch = epoch(step)};
  std::uint64_t own = scheduled(step) % steps_per_epoch_;
  if (position.epoch == resumed_.epoch && !resumed_.parts.empty()) {
    position.parts = resumed_.parts;
    own -= first_step_;
  }
  position.parts.push_back({samples_per_step_, own});
  return position;
}

}  // namespace dragonn::trainer
