// SPDX-License-Identifier: MIT
#include "trainer/run/state_taker.h"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <omp.h>

#include "core/bytes.h"
#include "core/error.h"
#include "core/fault_point.h"
#include "core/log.h"
#include "kernels/devices.h"
#include "trainer/update/logged_update.h"

namespace dragonn::trainer {

StateFollower::StateFollower(TrainingState& state)
    : scheme_(state.config.update.scheme.entry().make(state.config.update.scheme.settings, state.network.arena())),
      model_(scheme_->shared_model()),
      optimizer_fields_(kScheme),
      threads_(static_cast<int>(state.config.comm.threads_per_worker)) {
  if (model_.arena != nullptr) return;
  model_ = {&state.network.arena(), state.optimizer.get()};
  optimizer_fields_ = kOptimizer;
}

void StateFollower::begin(std::unique_ptr<LeftState> copy) {
  copy_.reset();
  omp_set_num_threads(threads_);
  kernels::get_view(copy->shared, kParameters, model_.arena->values());
  if (optimizer_fields_ == kOptimizer) {
    model_.optimizer->load(copy->shared, kOptimizer);
  } else {
    scheme_->load_shared(copy->shared, kScheme);
  }
  copy_ = std::move(copy);
}

void StateFollower::follow(std::span<const std::byte> update) {
  if (!copy_) throw DataError("an update comes in front of the state");
  apply_logged(update, model_.arena->size(), *model_.optimizer);
}

std::unique_ptr<LeftState> StateFollower::take() {
  if (copy_) save();
  return std::move(copy_);
}

void StateFollower::save() {
  Archive present;
  kernels::put_view(present, kParameters, View<const float>(model_.arena->values()));
  if (optimizer_fields_ == kOptimizer) {
    model_.optimizer->save(present, kOptimizer);
  } else {
    scheme_->save_shared(present, kScheme);
  }
  for (auto& [name, field] : copy_->shared.fields())
    if (!present.contains(name)) present.put_field(name, field);
  copy_->shared = std::move(present);
}

StateTaker::StateTaker(comm::Member& member, std::uint64_t run, TrainingState& state)
    : member_(member),
      follower_(state),
      receiver_(member, run, [this](comm::StreamKind kind, int donor, std::span<const std::byte> bytes) {
        take(kind, donor, bytes);
      }) {}

void StateTaker::take(comm::StreamKind kind, int donor, std::span<const std::byte> bytes) {
  if (kind == comm::StreamKind::kUpdate) return follower_.follow(bytes);
  if (kind == comm::StreamKind::kBehind) return follower_.drop();
  if (kind != comm::StreamKind::kState) return;
  const auto place = take_value<std::uint64_t>(bytes, "a state");
  {
    const ScopedRank id(member_.id());
    fault_point("take");
  }
  follower_.begin(LeftState::copy_of(bytes, fmt::format("member {}", donor), LeftState::Origin{donor, place}));
}

std::unique_ptr<LeftState> StateTaker::finish(std::uint64_t updates) {
  const bool has_all = receiver_.wait_for_updates(updates);
  receiver_.stop();
  std::unique_ptr<LeftState> copy = follower_.take();
  if (!has_all)
    log::warning(member_.id(), "the stream of the state broke off: what is missing follows now, while all wait");
  return copy;
}

}  // namespace dragonn::trainer
