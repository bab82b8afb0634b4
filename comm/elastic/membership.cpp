// SPDX-License-Identifier: MIT
#include "comm/elastic/membership.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::comm {
namespace {

constexpr const char* kAtEnd = "the run is at its end";

}  // namespace

bool counts(const GenerationPlan& next, std::uint64_t place, bool is_prepared) {
  const bool is_ahead = is_prepared && next.place == place + 1;
  DRAGONN_CHECK(is_ahead || next.place == place, "generation {} goes on from place {}, and this member is at {}",
                next.number, next.place, place);
  return is_ahead;
}

Membership::Membership(int min_workers, int max_workers, const LastGeneration& last)
    : workers_(static_cast<int>(last.plan.first)),
      min_workers_(min_workers),
      max_workers_(max_workers),
      phase_(Phase::kTraining),
      plan_(last.plan),
      place_(last.reached),
      why_(last.why) {
  for (const auto& [member, place] : last.since) present_[member] = {Standing::kTraining, place};
}

void Membership::come_back(int member, std::uint64_t generation) {
  const auto found = present_.find(member);
  if (found == present_.end() || found->second.standing != Standing::kTraining) return;
  const auto tell = [&](Order::Kind kind) {
    orders_.push_back({.kind = kind, .member = member, .plan = plan_, .why = why_});
  };
  if (generation < plan_.number) tell(Order::Kind::kForm);
  if (stops_) tell(Order::Kind::kStop);
  if (phase_ == Phase::kYielding) tell(Order::Kind::kYield);
  if (phase_ == Phase::kEnding) tell(Order::Kind::kEnd);
}

LastGeneration Membership::last() const {
  LastGeneration last{.plan = plan_, .why = why_, .since = {}, .reached = place_};
  for (const int member : plan_.members) {
    const auto found = present_.find(member);  // a member may be gone since
    last.since[member] = found == present_.end() ? plan_.place : found->second.since.value_or(plan_.place);
  }
  return last;
}

bool Membership::has_finished() const {
  return std::ranges::any_of(present_, [](const auto& entry) { return entry.second.standing == Standing::kFinished; });
}

bool Membership::is_lost() const {
  return std::ranges::none_of(present_, [&](const auto& entry) {
    return entry.second.standing == Standing::kReported && has_state(entry.second);
  });
}

void Membership::join(int member) {
  const bool is_full = has_begun() && static_cast<int>(present_.size()) >= max_workers_;
  if (is_full || is_over() || stops_ || plan_.stops || has_finished()) {
    orders_.push_back(
        {.kind = Order::Kind::kDrop,
         .member = member,
         .plan = plan_,
         .why = is_full ? fmt::format("the run has {} workers (comm.max_workers)", max_workers_) : kAtEnd});
    return;
  }
  present_[member] = {};
  if (!has_begun()) {
    if (static_cast<int>(present_.size()) == workers_) form();
    return;
  }
  present_[member].standing = Standing::kFetching;
  orders_.push_back({.kind = Order::Kind::kFetch, .member = member, .plan = plan_});
  assign_donors();
}

void Membership::ready(int member) {
  const auto found = present_.find(member);
  if (found == present_.end() || found->second.standing != Standing::kFetching) return;
  found->second.standing = Standing::kReported;
  found->second.donor.reset();
  if (phase_ != Phase::kTraining) return;
  why_ = fmt::format("member {} joins", member);
  end(Phase::kYielding);
}

void Membership::fetch_again(int member, int lost) {
  const auto found = present_.find(member);
  if (found == present_.end() || found->second.standing != Standing::kFetching) return;
  if (lost == member || found->second.donor == lost) assign_donor(member, found->second);
}

void Membership::assign_donors() {
  for (auto& [member, present] : present_) {
    if (present.standing != Standing::kFetching) continue;
    const auto donor = present.donor ? present_.find(*present.donor) : present_.end();
    if (donor == present_.end() || !can_give(donor->second)) assign_donor(member, present);
  }
}

void Membership::assign_donor(int member, Present& fetching) {
  const auto former = std::exchange(fetching.donor, std::nullopt);
  const auto burden = [&](int donor) {
    const auto takers = std::ranges::count_if(present_, [&](const auto& entry) { return entry.second.donor == donor; });
    return std::pair(former == donor, takers);  // the former donor only where there is no other
  };
  std::optional<int> lightest;
  for (const auto& [donor, present] : present_)
    if (can_give(present) && (!lightest || burden(donor) < burden(*lightest))) lightest = donor;
  fetching.donor = lightest;
  if (lightest) orders_.push_back({.kind = Order::Kind::kGive, .member = *lightest, .taker = member, .plan = plan_});
}

void Membership::drop_fetching(const char* why) {
  std::erase_if(present_, [&](const auto& entry) {
    const bool fetches = entry.second.standing == Standing::kFetching;
    if (fetches) orders_.push_back({.kind = Order::Kind::kDrop, .member = entry.first, .plan = plan_, .why = why});
    return fetches;
  });
}

void Membership::begin_with_fewer() {
  if (!has_begun() && static_cast<int>(present_.size()) >= min_workers_) form();
}

void Membership::leave(int member, const std::string& why) {
  const auto found = present_.find(member);
  if (found == present_.end()) return;
  const Standing standing = found->second.standing;
  present_.erase(found);
  const bool ends = standing == Standing::kTraining;
  if (ends || is_ending()) why_ = why;  // the cause of what others have reported, too
  if (ends) end(Phase::kEnding);
  form_if_known();
  assign_donors();
}

void Membership::ask_to_leave(int member, std::uint64_t place) {
  const auto found = present_.find(member);
  if (found == present_.end() || found->second.standing != Standing::kTraining || stops_) return;
  found->second.leaves = true;
  const bool all_have_state = plan_.place == 0 || place > plan_.place;
  const auto stays = [&](int id) {
    const auto other = present_.find(id);
    const bool is_there = other != present_.end() && other->second.standing != Standing::kFinished;
    return is_there && !other->second.leaves && (all_have_state || other->second.since < plan_.place);
  };
  if (std::ranges::count_if(plan_.members, stays) < min_workers_) return stop();
  assign_donors();
  if (phase_ != Phase::kTraining) return;
  why_ = fmt::format("member {} leaves on a signal", member);
  end(Phase::kYielding);
}

void Membership::stop() {
  stops_ = true;
  drop_fetching(kAtEnd);
  for (auto& [member, present] : present_) {
    present.leaves = false;
    if (present.standing == Standing::kTraining)
      orders_.push_back({.kind = Order::Kind::kStop, .member = member, .plan = plan_});
  }
}

void Membership::report(int member, std::uint64_t generation, std::uint64_t place, const std::string& why) {
  const auto found = present_.find(member);
  const bool is_news =
      found != present_.end() && found->second.standing == Standing::kTraining && generation == plan_.number;
  if (!is_news) return;
  found->second.standing = Standing::kReported;
  place_ = std::max(place_, place);
  if (phase_ == Phase::kTraining) why_ = fmt::format("member {} has lost its group: {}", member, why);
  end(Phase::kEnding);  // no agreement that it has not entered completes
  if (found->second.leaves) {
    orders_.push_back({.kind = Order::Kind::kDrop, .member = member, .plan = plan_, .why = "it leaves on a signal"});
    present_.erase(found);
  }
  form_if_known();
  assign_donors();
}

void Membership::finish(int member, std::uint64_t place) {
  const auto found = present_.find(member);
  if (found == present_.end()) return;
  found->second.standing = Standing::kFinished;
  place_ = std::max(place_, place);
  drop_fetching(kAtEnd);
  form_if_known();
}

std::vector<Order> Membership::take_orders() {
  return std::exchange(orders_, {});
}

void Membership::end(Phase phase) {
  if (phase_ == Phase::kEnding) return;
  phase_ = phase;
  const Order::Kind kind = phase == Phase::kYielding ? Order::Kind::kYield : Order::Kind::kEnd;
  for (const auto& [member, present] : present_)
    if (present.standing == Standing::kTraining)
      orders_.push_back({.kind = kind, .member = member, .plan = plan_, .why = why_});
}

void Membership::form_if_known() {
  const auto is = [](Standing standing) {
    return [=](const auto& entry) { return entry.second.standing == standing; };
  };
  if (is_ending() && std::ranges::none_of(present_, is(Standing::kTraining))) {
    if (has_finished() || is_lost()) drop_latecomers();
    if (std::ranges::any_of(present_, is(Standing::kReported))) form();
  }
  if (has_begun() && std::ranges::all_of(present_, is(Standing::kFinished))) phase_ = Phase::kOver;
}

void Membership::drop_latecomers() {
  const char* const why = has_finished() ? kAtEnd : "nobody is left who has the state of the run";
  drop_fetching(why);
  std::erase_if(present_, [&](const auto& entry) {
    const bool is_late = entry.second.standing == Standing::kReported && !has_state(entry.second);
    if (is_late) orders_.push_back({.kind = Order::Kind::kDrop, .member = entry.first, .plan = plan_, .why = why});
    return is_late;
  });
}

void Membership::form() {
  ++plan_.number;
  plan_.place = place_;
  plan_.members.clear();
  for (auto& [member, present] : present_) {
    if (present.standing != Standing::kReported) continue;
    present.standing = Standing::kTraining;
    if (!present.since) present.since = place_;
    plan_.members.push_back(member);
  }
  if (plan_.number == 1) plan_.first = plan_.members.size();
  plan_.stops = stops_ || static_cast<int>(plan_.members.size()) < min_workers_;
  if (plan_.stops) drop_fetching(kAtEnd);
  phase_ = Phase::kTraining;
  for (const int member : plan_.members)
    orders_.push_back({.kind = Order::Kind::kForm, .member = member, .plan = plan_, .why = why_});
}

}  // namespace dragonn::comm
