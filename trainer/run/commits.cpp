// SPDX-License-Identifier: MIT
#include "trainer/run/commits.h"

#include "comm/elastic/member.h"
#include "trainer/run/signals.h"

namespace dragonn::trainer {

void Commits::require_group(std::optional<std::uint64_t> step) const {
  const bool is_dismissed = member_ != nullptr && member_->is_over();
  const bool is_left = end_ && (end_->place == place_ || (step && end_->step == step));
  if (is_dismissed || is_left) throw GenerationOver();
}

void Commits::require_group_of_leaver() const {
  if (member_ == nullptr) return;
  const bool stops = wants_stop();  // a group that is over asks nobody
  if ((stops || member_->leaves()) && member_->is_over()) throw GenerationOver();
}

bool Commits::wants_stop() const {
  const bool is_signaled = StopSignals::received() != 0;
  if (member_ == nullptr) return is_signaled;
  if (is_signaled) member_->ask_to_leave(place_);
  return member_->is_stopping();
}

bool Commits::is_settled(const CommError& failure) {
  return member_ != nullptr && member_->settle(place_, /*is_prepared=*/true, failure.what());
}

}  // namespace dragonn::trainer
