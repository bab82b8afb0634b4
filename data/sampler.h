// SPDX-License-Identifier: MIT
/// ShardedSampler: the samples that a rank trains on in each step, and those that it evaluates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

struct SamplerOptions {
  std::size_t samples = 0;
  std::size_t batch = 1;  ///< per rank
  std::uint64_t seed = 1;
  int rank = 0;
  int world = 1;
  Remainder remainder = Remainder::kDrop;
};

/// Draws one permutation per epoch, the same on all ranks (keyed by seed and epoch). Step s of the epoch takes world *
/// batch consecutive samples of it, rank r the r-th `batch` of them. So the samples of a step are the same set for
/// every split of one global batch over ranks.
class ShardedSampler {
 public:
  /// @throws ConfigError if there are fewer samples than ranks, or too few for one step under kDrop.
  explicit ShardedSampler(const SamplerOptions& options);

  std::size_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Returns this rank's samples of one step ([batch]), valid until the next call. O(samples) if the epoch is another
  /// than in the last call, else O(1). `step` < steps_per_epoch().
  std::span<const std::uint32_t> batch(std::uint64_t epoch, std::size_t step);

 private:
  void shuffle(std::uint64_t epoch);

  SamplerOptions options_;
  std::size_t steps_per_epoch_ = 0;
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
