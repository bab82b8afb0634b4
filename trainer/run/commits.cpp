// SPDX-License-Identifier: MIT
#include "trainer/run/commits.h"

#include "comm/elastic/member.h"

namespace dragonn::trainer {

void Commits::require_group(std::optional<std::uint64_t> step) const {
  const bool is_dismissed = member_ != nullptr && member_->is_over();
  const bool is_left = end_ && (end_->place == place_ || (step && end_->step == step));
  if (is_dismissed || is_left) throw GenerationOver();
}

bool Commits::is_settled(const CommError& failure) {
  return member_ != nullptr && member_->settle(place_, /*is_prepared=*/true, failure.what());
}

}  // namespace dragonn::trainer
