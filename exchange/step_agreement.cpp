// SPDX-License-Identifier: MIT
#include "exchange/step_agreement.h"

#include <array>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "comm/agreement.h"

namespace dragonn::exchange {
namespace {

// The ranks agree on the maximum of a number that orders faults: a step to be skipped, and above that the buckets, the
// first one last.
constexpr std::uint64_t kFine = 0;
constexpr std::uint64_t kSkip = 1;
constexpr std::uint64_t kFirstBucket = std::numeric_limits<std::uint64_t>::max();

std::uint64_t severity(const StepWord& word) {
  if (word.non_finite_bucket) return kFirstBucket - *word.non_finite_bucket;
  return word.skip ? kSkip : kFine;
}

}  // namespace

StepWord reduce_step_word(comm::Communicator& communicator, const StepWord& mine) {
  std::array<std::uint64_t, 2> words{mine.stop ? std::uint64_t{1} : 0, severity(mine)};
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kControl);
  const comm::ScopedOperation operation = communicator.operation("agreement on the step");
  communicator.allreduce_max(std::span<std::uint64_t>(words));
  StepWord agreed{.stop = words[0] != 0, .skip = words[1] == kSkip};
  if (words[1] > kSkip) agreed.non_finite_bucket = static_cast<std::size_t>(kFirstBucket - words[1]);
  return agreed;
}

void check_finite(const StepWord& word, std::uint64_t step, const std::vector<Bucket>& buckets) {
  if (!word.non_finite_bucket) return;
  throw comm::CollectiveError(
      fmt::format("step {}: a worker's gradient of {} is not finite (NaN or infinity); lower the learning rate, "
                  "clip (train.clip), or set train.non_finite = \"skip\"",
                  step, buckets.at(*word.non_finite_bucket).name));
}

}  // namespace dragonn::exchange
