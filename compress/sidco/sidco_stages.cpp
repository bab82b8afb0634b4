// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco_stages.h"

#include <algorithm>
#include <cmath>

namespace dragonn::compress {
namespace {

constexpr std::int64_t kTurnsBeforeHold = 2;
constexpr std::int64_t kWindowsHeld = 20;

}  // namespace

std::int64_t max_stages(double density) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(-std::log2(density))));
}

StageSearch::StageSearch(const StageRules& rules) : rules_(rules), stages_(rules.initial) {}

std::int64_t StageSearch::stages(double density) const {
  return rules_.adaptation == StageAdaptation::kFixed ? stages_ : std::min(stages_, max_stages(density));
}

void StageSearch::observe(double ratio, double density) {
  if (rules_.adaptation == StageAdaptation::kFixed) return;
  sum_ += ratio;
  if (++count_ < rules_.window) return;
  const double mean = sum_ / static_cast<double>(count_);
  sum_ = 0;
  count_ = 0;
  stages_ = stages(density);
  const std::int64_t max = max_stages(density);
  if (rules_.adaptation == StageAdaptation::kHillclimb) {
    climb(mean, max);
  } else if (!in_band(mean)) {
    stages_ = std::clamp<std::int64_t>(stages_ + (mean > 1 ? -1 : 1), 1, max);
  }
}

bool StageSearch::in_band(double mean) const {
  return mean >= 1 - rules_.tolerance_low && mean <= 1 + rules_.tolerance_high;
}

void StageSearch::climb(double mean, std::int64_t max) {
  if (windows_held_ > 0) {
    if (++windows_held_ <= kWindowsHeld) return;
    search_anew();
  }
  if (in_band(mean)) return forget_errors();
  const double error = std::fabs(mean - 1);
  if (best_stages_ == 0 || error < best_error_) {
    best_stages_ = stages_;
    best_error_ = error;
  }
  // At an unchanged M two windows differ by noise only.
  if (moved_ && error > last_error_) {
    direction_ = -direction_;
    if (++turns_ == kTurnsBeforeHold) return hold();
  }
  const std::int64_t wanted = stages_ + direction_ * (mean > 1 ? -1 : 1);
  const std::int64_t next = std::clamp<std::int64_t>(wanted, 1, max);
  if (next != wanted) direction_ = -direction_;
  moved_ = next != stages_;
  last_error_ = error;
  stages_ = next;
}

void StageSearch::hold() {
  stages_ = best_stages_;
  windows_held_ = 1;
}

void StageSearch::forget_errors() {
  turns_ = 0;
  best_stages_ = 0;
}

void StageSearch::search_anew() {
  forget_errors();
  windows_held_ = 0;
  moved_ = false;
  first_direction_ = -first_direction_;
  direction_ = first_direction_;
}

void StageSearch::save(Archive& archive, const std::string& prefix) const {
  archive.put(prefix + "stages", stages_);
  archive.put(prefix + "sum", sum_);
  archive.put(prefix + "count", count_);
  archive.put(prefix + "direction", direction_);
  archive.put(prefix + "first_direction", first_direction_);
  archive.put(prefix + "moved", moved_);
  archive.put(prefix + "last_error", last_error_);
  archive.put(prefix + "turns", turns_);
  archive.put(prefix + "best_stages", best_stages_);
  archive.put(prefix + "best_error", best_error_);
  archive.put(prefix + "windows_held", windows_held_);
}

void StageSearch::load(const Archive& archive, const std::string& prefix) {
  stages_ = archive.get<std::int64_t>(prefix + "stages");
  sum_ = archive.get<double>(prefix + "sum");
  count_ = archive.get<std::int64_t>(prefix + "count");
  direction_ = archive.get<std::int64_t>(prefix + "direction");
  first_direction_ = archive.get<std::int64_t>(prefix + "first_direction");
  moved_ = archive.get<bool>(prefix + "moved");
  last_error_ = archive.get<double>(prefix + "last_error");
  turns_ = archive.get<std::int64_t>(prefix + "turns");
  best_stages_ = archive.get<std::int64_t>(prefix + "best_stages");
  best_error_ = archive.get<double>(prefix + "best_error");
  windows_held_ = archive.get<std::int64_t>(prefix + "windows_held");
}

}  // namespace dragonn::compress
