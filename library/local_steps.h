// SPDX-License-Identifier: MIT
/// LocalSteps: the update scheme `local` for a caller that makes the inner steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "core/parameter.h"
#include "exchange/gradient_exchange.h"
#include "library/gradients.h"
#include "trainer/config/config.h"
#include "trainer/update/schemes/fragments.h"
#include "trainer/update/schemes/model_parts.h"
#include "trainer/update/schemes/outer_parameters.h"

namespace dragonn::library {

/// The work of a rank behind one of its steps, in this order. A part is a fragment of the model, or all of it.
struct LocalTurn {
  std::optional<std::size_t> arrives = {};  ///< takes the result of this part's exchange, which began earlier
  std::optional<std::size_t> part = {};     ///< exchanges this one
  bool is_beside = false;                   ///< beside the next steps; else it waits and takes the result
  bool is_last = false;                     ///< of the run: the result is taken whole
  std::uint64_t step = 0;                   ///< of the exchange, from 0: for schedules
  std::uint64_t end = 0;                    ///< steps that are done where the result arrives
};

/// One rank's common parameters and its place in the round. next() and count() are the caller's thread's, also while
/// the rank's exchanges; the others are called when the rank's thread does nothing else. Source: as OuterParameters.
class LocalSteps {
 public:
  /// @param settings those of the scheme `local`.  @param tensors laid out; of the same tensors as `exchange`'s.
  LocalSteps(const Settings& settings, const ParameterArena& tensors, const exchange::GradientExchange& exchange);

  /// Returns what follows the next step. @param is_last of the run: after it all ranks have the same parameters.
  LocalTurn next(bool is_last) const;
  /// Counts that step, before its turn.
  void count(const LocalTurn& turn);

  /// Takes these parameters, the same on every rank, as the common ones.
  void start(std::span<const Numbers> parameters);
  bool has_started() const { return has_started_; }
  /// Writes the common parameters.
  void write_common(std::span<const Numbers> parameters);
  /// Takes on the common parameters of a part, or a share of them.
  void give(std::size_t part, bool is_last, std::span<const Numbers> parameters);
  /// Computes the change of a part since its last exchange. Valid until the next call.
  View<const float> take_change(std::size_t part, std::span<const Numbers> parameters);
  /// Collective. Clips the change, if that is wanted.
  void clip(comm::Communicator& communicator, std::size_t part);
  std::span<const std::size_t> groups(std::size_t part) const { return parts_[part].groups; }
  /// Makes the outer step.
  void apply(const LocalTurn& turn, std::span<const exchange::BucketSum> sums);
  /// Returns the steps from one exchange of a fragment to its next.
  std::uint64_t round() const { return schedule_.round; }
  /// Returns the hash of the common parameters.
  std::uint64_t common_hash() const;

  void save(Archive& archive) const;
  /// @throws DataError.
  void load(const Archive& archive);

 private:
  void read(std::span<const ParameterId> tensors, std::span<const Numbers> parameters);

  trainer::FragmentSchedule schedule_;
  float mix_;
  bool clips_;
  double outer_rate_;
  ParameterArena inner_;  // of this rank, as far as a turn needs them
  trainer::OuterParameters outer_;
  std::vector<trainer::ModelPart> parts_;  // by fragment; the last one is the whole model
  bool has_started_ = false;
  std::uint64_t steps_ = 0;                        // of this rank
  std::optional<trainer::FragmentTurn> arriving_;  // exchanged, or about to be, and this rank has not taken the result
};

}  // namespace dragonn::library
