// SPDX-License-Identifier: MIT
/// Exchange: exchange::GradientExchange for gradients of another program, tensor by tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "core/buffer.h"
#include "core/parameter.h"
#include "core/timer.h"
#include "exchange/gradient_exchange.h"
#include "library/dragonn.h"
#include "library/gradients.h"
#include "library/local_steps.h"
#include "trainer/config/config.h"
#include "trainer/metrics/step_timeline.h"

namespace dragonn::library {

/// The caller gave a wrong size or address. Nothing was done.
class UsageError : public Error {
  using Error::Error;
};

/// The gradient of some rank holds NaN or infinity. All ranks throw it, and nothing has changed.
class NonFiniteError : public Error {
  using Error::Error;
};

/// A rank gave up a step that had begun. All ranks throw it, and nothing has changed.
class CancelledError : public Error {
  using Error::Error;
};

/// The tensors of a caller, in its order. A tensor of more than two dimensions is kept as one of two: only whether it
/// has fewer matters.
struct Tensor {
  std::string name;
  Shape shape;
};

/// One rank's exchange. Only the thread that runs the rank uses it.
class Exchange {
 public:
  /// Local. Lays out the tensors. @param spec outlives this. @param steps_per_epoch at least 1. @param trace file of
  /// the timeline that spec.logging describes; empty: none. @throws ConfigError.
  Exchange(const trainer::RunSpec& spec, const std::vector<Tensor>& tensors, std::uint64_t steps_per_epoch,
           const std::filesystem::path& trace, comm::Communicator& communicator);

  /// Collective. Checks that all ranks have the same config, tensors and timeline. @throws comm::CollectiveError.
  void check_same_on_all_ranks() const;
  std::size_t elements() const { return arena_.size(); }
  /// Returns how a tensor is treated. @param tensor its place in the caller's order.
  dragonn_tensor_info info(std::size_t tensor) const;
  void set_learning_rate(double learning_rate) { learning_rate_ = learning_rate; }

  /// Groups the buckets from now on by the parts in which their gradients come: a group begins when its last part is
  /// there. The same on every rank; the bits do not depend on it. @param part_of by tensor; ascending as parts come.
  void set_parts(std::span<const std::uint64_t> part_of);

  /// Collective. Replaces the gradients by their means. @param gradients by tensor, in the caller's order.
  /// @throws NonFiniteError; CommError, also for an error of this rank alone.
  void run(std::span<const Numbers> gradients);
  /// Collective. Does the same with gradients that come in parts: what is there is exchanged while others are computed.
  /// Keeps besides what each exchange overwrites of the memories. @throws CancelledError, too.
  void run(StepParts& parts);

  /// Returns the local steps of a config with update.scheme = "local", which exchanges no gradients; else null.
  /// The caller counts steps also while the rank's thread ends the group, and this with it: so it is shared.
  const std::shared_ptr<LocalSteps>& local_steps() const { return local_steps_; }
  /// Collective. Takes these parameters as the common ones. @throws comm::CollectiveError if ranks have different ones.
  void start_local_steps(std::span<const Numbers> parameters);
  /// Takes a result that has arrived, and the change that the turn exchanges.
  void take_turn(const LocalTurn& turn, std::span<const Numbers> parameters);
  /// Collective. Exchanges that change, and makes the outer step. @throws as run(); after a NonFiniteError the common
  /// parameters are as before.
  void exchange_change(const LocalTurn& turn);

  dragonn_statistics statistics() const;

  /// Returns this rank's state as an archive's bytes.
  std::vector<std::byte> save() const;
  /// Restores such a state, or changes nothing. Meanwhile there are two exchanges in memory. @throws DataError if the
  /// state is damaged, or of another rank, number of ranks, config or list of tensors.
  void load(std::span<const std::byte> state);
  /// Restores the states of all ranks of a run, of this number of ranks or another one, likewise.
  void load_all(std::span<const std::span<const std::byte>> states);

 private:
  class Arrival;

  /// Collective. @throws comm::CollectiveError if ranks have different numbers. @param what they stand for, by number,
  /// as "another config".
  void check_same(const std::vector<std::uint64_t>& mine, const std::vector<std::string>& what) const;

  /// Runs a collective step, whose errors of this rank alone end the group.
  template <class Step>
  void collectively(const Step& step);
  /// Makes an exchange. @param sums computes the sums of a step.  @param apply uses them.
  template <class Sums, class Apply>
  void exchange(const exchange::ExchangeStep& step, const Sums& sums, const Apply& apply);
  /// Collective. Writes the timeline behind the last exchange that it has.
  void end_trace();
  /// Returns a tensor of this rank whose gradient holds NaN or infinity.
  template <class Gradients>
  std::optional<ParameterId> find_non_finite(const Gradients& gradients) const;
  /// Takes a bucket's gradient: where the caller has it, if it is float32 and in one piece, or else a copy.
  template <class Gradients>
  void take(std::size_t bucket, const Gradients& gradients);
  /// Makes an exchange of gradients, whose means take their places.
  template <class Sums, class Gradients>
  void average(const Sums& sums, const Gradients& gradients);
  /// Returns the next exchange. @param step by which schedules go.  @param exchanges by which those of density do.
  exchange::ExchangeStep next_step(std::uint64_t step, std::uint64_t exchanges) const;
  /// Writes the mean of a bucket where the caller's gradient was.
  template <class Gradients>
  void write_mean(const exchange::BucketSum& sum, const Gradients& gradients) const;
  std::span<float> slice(ParameterId id) { return gradient_.host().subspan(arena_[id].offset, arena_[id].size); }
  /// Collective. Refuses on all ranks a step that some rank cannot make. @param bad this rank's tensor that is not
  /// finite.
  void agree(std::optional<ParameterId> bad, bool is_cancelled);
  /// Agrees behind a revertible exchange, which a refusal takes back.
  void agree_or_revert(std::optional<ParameterId> bad, bool is_cancelled);
  /// Reads a state, and checks that it is of this rank of `size` of the same run. @throws DataError, ConfigError.
  Archive read_state(std::span<const std::byte> state, int rank, int size) const;
  /// Continues with an exchange that `fill` fills, from where the first state says. Changes nothing if any of this
  /// fails. @throws DataError.
  template <class Fill>
  void continue_with(std::span<const std::byte> first, int rank, int size, const Fill& fill);

  const trainer::RunSpec& spec_;
  std::uint64_t steps_per_epoch_;
  comm::Communicator& communicator_;
  std::uint64_t tensors_hash_;
  ParameterArena arena_;                       // sizes and offsets only
  std::vector<exchange::BucketGroup> groups_;  // of set_parts(); empty: the exchange's own
  std::unique_ptr<exchange::GradientExchange> exchange_;
  std::shared_ptr<LocalSteps> local_steps_;
  View<const float> change_;  // of the local steps' turn
  Buffer<float> gradient_;    // this rank's where it is gathered or converted, in the arena's order; else untouched
  std::vector<View<const float>> places_;  // by bucket, of the caller's gradient; empty: it is in gradient_
  StepTimers timers_;
  double learning_rate_;
  std::uint64_t step_ = 0;
  std::unique_ptr<trainer::StepTimeline> timeline_;  // null: not recorded
  std::uint64_t recorded_ = 0;                       // exchanges of this object, which is what the timeline counts
  std::optional<std::size_t> overflowed_;            // a bucket whose residual holds no numbers any more
  dragonn_statistics last_ = {};
};

}  // namespace dragonn::library
