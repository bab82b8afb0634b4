// SPDX-License-Identifier: MIT
/// UpdateScheme: how gradients become updates: what the workers exchange in a step, and what each applies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/archive.h"
#include "core/component_traits.h"
#include "core/parameter.h"
#include "core/registry.h"
#include "core/view.h"
#include "exchange/resize.h"
#include "optim/optimizer.h"

namespace dragonn::trainer {

struct Generation;  // trainer/run/generation.h

/// The values of one step.
struct StepValues {
  double learning_rate = 0;      ///< of the optimizer
  double rate_share = 1;         ///< of the base rate (optim::Schedule::decay)
  double density = 1;            ///< target of an exchange, in (0, 1]
  View<float> accumulated = {};  ///< as ExchangeStep::accumulated
  bool is_last = false;          ///< of the run: after it the ranks are synchronized
  std::uint64_t free_steps = 0;  ///< so many more steps may be computed with this one: nothing looks at ranks before
};

/// The outcome of one step. All but `skipped` is the same on every rank.
struct StepOutcome {
  bool is_exchanged = true;  ///< gradients were exchanged; the metrics of other steps have neither counts nor densities
  bool stop = false;         ///< a signal has reached some rank
  std::uint64_t skipped = 0;  ///< planned steps behind this one that this rank leaves out (UpdateTraits::skips_steps)
  /// The steps that each rank made in the round that ends here; empty where ranks leave out none. Valid until the next
  /// step.
  std::span<const std::uint64_t> inner_steps = {};
};

/// The demands of a scheme with given settings on the run around it.
struct UpdateTraits {
  std::int64_t steps_per_exchange = 1;         ///< a bucket is exchanged once in so many steps, and in the last
  std::size_t floats_per_parameter = 0;        ///< floats of state of each rank, at most
  std::size_t saved_floats_per_parameter = 0;  ///< the part that a checkpoint holds once for all ranks
  std::size_t own_floats_per_parameter = 0;    ///< floats that a checkpoint holds for each rank, at most
  bool averages_senders = false;               ///< ExchangeRules::averages_senders
  bool delays = false;  ///< a step exchanges a gradient of an earlier one, so that backward hides all of the exchange
  std::size_t fragments = 1;        ///< parts of the model that take turns in being exchanged (BucketRules::fragments)
  std::uint64_t overlap_steps = 0;  ///< steps that Generation::compute_thread makes beside an exchange, at most
  /// A rank may leave out steps in front of an exchange. Ranks are at the same step only behind one that updated the
  /// model, so what they do together waits for it.
  bool skips_steps = false;
};

/// The parameters that all ranks share, and the optimizer that moves them by exchanged sums.
struct SharedModel {
  ParameterArena* arena = nullptr;
  optim::Optimizer* optimizer = nullptr;
};

/// The update rule of one rank. It has its own state; network, optimizer and exchange are the generation's.
class UpdateScheme {
 public:
  virtual ~UpdateScheme() = default;

  /// Prepares a start: called once, before its first step and behind any load(). The path is the run's metrics.jsonl
  /// if it goes on with the same settings from where it had been further; empty otherwise. @throws ConfigError.
  virtual void begin(const Generation& /*generation*/, const std::filesystem::path& /*earlier*/) {}
  /// Collective. Trains on the next batch. @throws comm::CollectiveError if a gradient is not finite and such steps are
  /// not skipped.
  virtual StepOutcome step(Generation& generation, const StepValues& values) = 0;
  /// Returns whether the ranks communicate in this rank's step `step` (from 1). In other steps they may be at different
  /// places, and a signal stops each before the next step that it would make.
  virtual bool communicates(const Generation& /*generation*/, std::uint64_t /*step*/) const { return true; }
  /// Returns whether an exchange has a result that arrives in a later step. No rank stops before.
  virtual bool awaits_result() const { return false; }
  /// Returns whether the last step updated the model, the parameters that all ranks share. Evaluations, comparisons of
  /// replicas and lines of metrics wait for such a step; checkpoints and stops do not. A run's last step
  /// (StepValues::is_last) is one.
  virtual bool is_synchronized() const = 0;
  /// Returns the model's parameters, [arena], where the network's are this rank's own. Empty: the network's are the
  /// model's.
  virtual View<const float> model_parameters() const { return {}; }
  /// Saves this rank's state after any step below `prefix`, and takes it over while the network has the model's
  /// parameters. Most schemes have none.
  virtual void save(Archive& /*rank*/, const std::string& /*prefix*/) const {}
  virtual void load(const Archive& /*rank*/, const std::string& /*prefix*/) {}
  /// Takes over state that a rank of another number of workers saved; called on a fresh scheme, once for each rank
  /// whose state this rank takes.
  virtual void reshard_from(const Archive& rank, const std::string& prefix, const exchange::ReshardedParts& what) {
    if (what.methods) load(rank, prefix);
  }
  /// Returns the field of save(), behind its prefix, that holds what this rank has not sent; empty: none does. A rank
  /// that joins an elastic run does without it.
  virtual std::string unsent_field() const { return {}; }
  /// Returns the parameters that all ranks share and the optimizer that moves them; null where they are the network's
  /// and the run's.
  virtual SharedModel shared_model() { return {}; }
  /// Saves the state that all ranks share: any rank's, and any number of ranks takes it over.
  virtual void save_shared(Archive& /*model*/, const std::string& /*prefix*/) const {}
  virtual void load_shared(const Archive& /*model*/, const std::string& /*prefix*/) {}
};

struct UpdateSchemeEntry : RegistryEntry {
  static constexpr const char* kKind = "update scheme";
  /// Reshard: UpdateScheme::reshard_from; by default a rank loads the state of one rank of the other number of workers.
  ResizeRule resize = {};
  /// A step exchanges the gradient that it computes, with Generation::overlapped as the gate, or an earlier one
  /// (UpdateTraits::delays). Otherwise compression.overlap has no effect.
  bool overlaps = false;
  /// Every rank steps by an optimizer of its own, whose state checkpoints keep for each rank, and the ranks exchange
  /// changes of parameters. What belongs to gradients (their momentum, their clipping after the exchange) is refused.
  bool steps_locally = false;
  /// Makes a scheme for the parameters of an arena that outlives it.
  std::function<std::unique_ptr<UpdateScheme>(const Settings&, ParameterArena&)> make;
  /// @throws ConfigError naming the keys of settings that do not fit together.
  std::function<UpdateTraits(const Settings&)> traits = [](const Settings&) { return UpdateTraits{}; };
};

}  // namespace dragonn::trainer
