// SPDX-License-Identifier: MIT
/// ShardedSampler: the samples that a rank trains on in each step, and those that it evaluates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dragonn::data {

/// The handling of samples that do not fill a batch on every rank. Every rank runs the same number of full batches.
enum class Remainder {
  kDrop,  ///< left out of this epoch (another remainder in the next one)
  kPad,   ///< the epoch's last batches are filled up from its first samples
};
constexpr auto choices(Remainder) {
  return std::array{"drop", "pad"};
}

/// The rules by which one rank's training batches are drawn.
struct BatchRules {
  std::size_t batch = 32;  ///< samples per rank and step
  std::uint64_t seed = 1;
  int rank = 0;
  int world = 1;
  Remainder remainder = Remainder::kDrop;
};

/// Draws one permutation per epoch, the same on all ranks (keyed by seed and epoch). Step s of the epoch takes world *
/// batch consecutive samples of it, rank r the r-th `batch` of them. So the samples of a step are the same set for
/// every split of one global batch over ranks, and the samples of the steps done are a prefix of the permutation,
/// however many ranks shared each step.
class ShardedSampler {
 public:
  /// @throws ConfigError if there are fewer samples than ranks, or too few for one step under kDrop.
  ShardedSampler(std::size_t samples, const BatchRules& rules);

  std::size_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Returns this rank's samples of one step ([batch]), valid until the next call. O(samples) if the epoch is another
  /// than in the last call, else O(1). `step` < steps_per_epoch().
  std::span<const std::uint32_t> batch(std::uint64_t epoch, std::size_t step);

  /// Lets the last steps of `epoch` take the samples behind the first `done` of its permutation, as many steps as they
  /// fill; none if there are too few under kDrop. Returns their number. The epoch's steps before them are no longer
  /// valid.
  std::size_t continue_epoch(std::uint64_t epoch, std::uint64_t done);
  /// Returns the permutation of all samples in `epoch`, valid until the next call. Costs as batch().
  std::span<const std::uint32_t> permutation(std::uint64_t epoch);

 private:
  /// An epoch whose beginning was done in other steps.
  struct Continued {
    std::uint64_t epoch;
    std::size_t done;        ///< samples
    std::size_t first_step;  ///< the first step behind them
  };

  std::size_t steps_in(std::size_t samples) const;
  std::size_t per_step() const { return rules_.batch * static_cast<std::size_t>(rules_.world); }
  /// Shuffles, unless the order is already that of the epoch.
  void shuffle(std::uint64_t epoch);

  std::size_t samples_;
  BatchRules rules_;
  std::size_t steps_per_epoch_ = 0;
  std::optional<Continued> continued_;
  std::vector<std::uint32_t> order_;  ///< every rank's samples of the epoch, in the order of the steps
  std::uint64_t epoch_ = 0;
  bool shuffled_ = false;
};

/// A range of sample indices.
struct EvaluationShard {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// Returns the samples that a rank evaluates: consecutive ranges that cover every sample once, for any world size.
/// Sizes differ by one at most; with more ranks than samples some are empty.
EvaluationShard evaluation_shard(std::size_t samples, int rank, int world);

}  // namespace dragonn::data
