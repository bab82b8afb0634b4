// SPDX-License-Identifier: MIT
/// TrafficCheck: compares the bytes that a run sends with those that its plan assumes.
#pragma once

#include <cstdint>
#include <optional>

#include "comm/communicator.h"
#include "exchange/exchange_plan.h"
#include "exchange/gradient_exchange.h"

namespace dragonn::trainer {

/// The counts and bytes of the steps that a check looks at.
struct SeenTraffic {
  double bytes = 0;  ///< payload that a worker sent in a step, mean over workers and steps
  comm::AssumedCounts counts = {};
};

/// Looks at steps 11 to 20 at the target density, then at the last ten of 40, of 80 and so on: a long run asks the
/// other ranks a few times only. The outcome is the same on every rank, and nothing but log lines depends on it.
class TrafficCheck {
 public:
  static constexpr std::uint64_t kWindow = 10;
  /// Within the stated range bytes may be off by this factor, and outside of it by the other one.
  static constexpr double kInRange = 2, kOutside = 1.25;
  /// A correction is repeated when the bytes have changed by this factor.
  static constexpr double kChange = 2;

  /// @param assumed bytes of a step.
  TrafficCheck(const exchange::ExchangeRules& rules, const ByteRange& assumed)
      : rules_(&rules), assumed_(assumed) {}

  /// Collective in a few steps. Adds a step at the target density. @param bytes the payload that this rank sent.
  /// Returns the traffic if it is not what was assumed, or was said last.
  std::optional<SeenTraffic> add(comm::Communicator& communicator, const exchange::ExchangeCounts& counts,
                                 double bytes);

  const ByteRange& assumed() const { return assumed_; }

 private:
  bool is_off(double bytes) const;
  comm::AssumedCounts seen_counts(int ranks) const;

  const exchange::ExchangeRules* rules_;
  ByteRange assumed_;
  std::uint64_t steps_ = 0, next_ = 2 * kWindow;
  double bytes_ = 0;               // of this rank in the window, and below of all ranks and buckets
  exchange::ExchangeCounts sums_;  // numel, target, padded and global alone
  double selected_ = 0;
  std::optional<double> told_;
};

}  // namespace dragonn::trainer
