// SPDX-License-Identifier: MIT
#include "comm/elastic/membership.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::comm {

bool counts(const GenerationPlan& next, std::uint64_t place, bool is_prepared) {
  const bool is_ahead = is_prepared && next.place == place + 1;
  DRAGONN_CHECK(is_ahead || next.place == place, "generation {} goes on from place {}, and this member is at {}",
                next.number, next.place, place);
  return is_ahead;
}

void Membership::join(int member) {
  if (has_begun()) {
    orders_.push_back({Order::Kind::kDrop, member, plan_, "the run has begun without this process"});
    return;
  }
  present_[member] = Standing::kReported;
  if (static_cast<int>(present_.size()) == workers_) form();
}

void Membership::begin_with_fewer() {
  if (!has_begun() && static_cast<int>(present_.size()) >= min_workers_) form();
}

void Membership::leave(int member, const std::string& why) {
  const auto found = present_.find(member);
  if (found == present_.end()) return;
  const bool has_finished = found->second == Standing::kFinished;
  present_.erase(found);
  if (phase_ == Phase::kTraining && !has_finished) end(why);
  if (phase_ == Phase::kEnding) why_ = why;  // the cause of what others have reported
  form_if_known();
}

void Membership::report(int member, std::uint64_t generation, std::uint64_t place, const std::string& why) {
  const auto found = present_.find(member);
  const bool is_news = found != present_.end() && found->second == Standing::kTraining && generation == plan_.number;
  if (!is_news) return;
  found->second = Standing::kReported;
  place_ = std::max(place_, place);
  if (phase_ == Phase::kTraining) end(fmt::format("member {} has lost its group: {}", member, why));
  form_if_known();
}

void Membership::finish(int member, std::uint64_t place) {
  const auto found = present_.find(member);
  if (found == present_.end()) return;
  found->second = Standing::kFinished;
  place_ = std::max(place_, place);
  form_if_known();
}

std::vector<Order> Membership::take_orders() {
  return std::exchange(orders_, {});
}

void Membership::end(const std::string& why) {
  phase_ = Phase::kEnding;
  why_ = why;
  for (const auto& [member, standing] : present_)
    if (standing == Standing::kTraining) orders_.push_back({Order::Kind::kEnd, member, plan_, why});
}

void Membership::form_if_known() {
  const auto is = [](Standing standing) { return [=](const auto& entry) { return entry.second == standing; }; };
  if (has_begun() && std::ranges::all_of(present_, is(Standing::kFinished))) phase_ = Phase::kOver;
  if (phase_ == Phase::kEnding && std::ranges::none_of(present_, is(Standing::kTraining))) form();
}

void Membership::form() {
  ++plan_.number;
  plan_.place = place_;
  plan_.members.clear();
  for (auto& [member, standing] : present_) {
    if (standing != Standing::kReported) continue;
    standing = Standing::kTraining;
    plan_.members.push_back(member);
  }
  plan_.stops = static_cast<int>(plan_.members.size()) < min_workers_;
  phase_ = Phase::kTraining;
  for (const int member : plan_.members) orders_.push_back({Order::Kind::kForm, member, plan_, why_});
}

}  // namespace dragonn::comm
