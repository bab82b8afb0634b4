// SPDX-License-Identifier: MIT
#include "library/local_steps.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "core/hash.h"
#include "kernels/devices.h"
#include "trainer/update/schemes/local_entry.h"

namespace dragonn::library {
namespace {

constexpr const char* kSteps = "local/steps";
constexpr const char* kArriving = "local/arriving";
constexpr const char* kCommon = "local/common";
constexpr const char* kOuter = "local/outer/";

// The trainer's schemes need its networks; here they are names and settings. A caller with gradients is synchronous.
const Registration<trainer::UpdateSchemeEntry> local{trainer::describe_local};
const Registration<trainer::UpdateSchemeEntry> synchronous{
    [](trainer::UpdateSchemeEntry& entry) { entry.name = "synchronous"; }};

}  // namespace

LocalSteps::LocalSteps(const Settings& settings, const ParameterArena& tensors,
                       const exchange::GradientExchange& exchange)
    : schedule_(trainer::schedule_of(settings)),
      mix_(static_cast<float>(settings.number("mix"))),
      clips_(settings.flag("median_clip")),
      outer_rate_(settings.number("outer.learning_rate")),
      inner_(trainer::arena_like(tensors)),
      outer_(inner_, [&](ParameterArena& own) { return trainer::make_outer(settings, own); }),
      parts_(trainer::model_parts(inner_, schedule_.fragments, exchange)) {}

LocalTurn LocalSteps::next(bool is_last) const {
  const std::uint64_t done = steps_ + 1;
  const trainer::FragmentTurn due = schedule_.next(steps_), following = schedule_.next(done);
  LocalTurn turn{.is_last = is_last, .step = steps_, .end = done};
  // In the end everything arrives.
  if (arriving_ && (arriving_->arrives == done || is_last)) turn.arrives = arriving_->fragment;
  if (is_last) {
    turn.part = schedule_.fragments;
  } else if (due.arrives == done && !turn.arrives) {
    turn.part = due.fragment;
  } else if (schedule_.begins(done)) {
    turn.part = following.fragment;
    turn.is_beside = true;
    turn.step = done;
    turn.end = following.arrives;
  }
  return turn;
}

void LocalSteps::count(const LocalTurn& turn) {
  ++steps_;
  if (turn.arrives) arriving_.reset();
  if (turn.is_beside) arriving_ = {*turn.part, turn.end};
}

void LocalSteps::read(std::span<const ParameterId> tensors, std::span<const Numbers> parameters) {
  for (const ParameterId id : tensors) parameters[id].read(inner_.value(id).host());
}

void LocalSteps::start(std::span<const Numbers> parameters) {
  read(parts_.back().tensors, parameters);
  outer_.keep();
  has_started_ = true;
}

void LocalSteps::write_common(std::span<const Numbers> parameters) {
  for (const ParameterId id : parts_.back().tensors) {
    const Parameter& tensor = inner_[id];
    parameters[id].write(outer_.values().subview(tensor.offset, tensor.size).host());
  }
}

void LocalSteps::give(std::size_t part, bool is_last, std::span<const Numbers> parameters) {
  const std::vector<ParameterId>& tensors = parts_[part].tensors;
  read(tensors, parameters);
  outer_.give(tensors, is_last ? 0 : mix_);
  for (const ParameterId id : tensors) parameters[id].write(inner_.value(id).host());
}

View<const float> LocalSteps::take_change(std::size_t part, std::span<const Numbers> parameters) {
  read(parts_[part].tensors, parameters);
  return outer_.take_change(parts_[part].tensors);
}

void LocalSteps::clip(comm::Communicator& communicator, std::size_t part) {
  if (clips_) outer_.clip_change(communicator, parts_[part].tensors);
}

void LocalSteps::apply(const LocalTurn& turn, std::span<const exchange::BucketSum> sums) {
  outer_.step(sums, outer_rate_, (turn.end - 1) / schedule_.round);
}

std::uint64_t LocalSteps::common_hash() const {
  return hash_bytes(std::as_bytes(outer_.values().host()));
}

void LocalSteps::save(Archive& archive) const {
  archive.put(kSteps, steps_);
  if (!has_started_) return;
  kernels::put_view(archive, kCommon, outer_.values());
  outer_.save(archive, kOuter);
  if (arriving_)
    archive.put_array<std::uint64_t>(kArriving, std::array<std::uint64_t, 2>{arriving_->fragment, arriving_->arrives});
}

void LocalSteps::load(const Archive& archive) {
  steps_ = archive.get<std::uint64_t>(kSteps);
  has_started_ = archive.contains(kCommon);
  if (!has_started_) return;
  kernels::get_view(archive, kCommon, inner_.values());
  outer_.keep();
  outer_.load(archive, kOuter);
  if (!archive.contains(kArriving)) return;
  const std::vector<std::uint64_t> arriving = archive.get_vector<std::uint64_t>(kArriving);
  if (arriving.size() != 2 || arriving[0] >= schedule_.fragments)
    throw DataError("its fragment on its way is none of this run");
  arriving_ = {arriving[0], arriving[1]};
}

}  // namespace dragonn::library
