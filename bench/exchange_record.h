// SPDX-License-Identifier: MIT
/// What is measured of one exchange, on a rank and over all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "comm/communicator.h"
#include "core/timer.h"
#include "trainer/metrics/metrics.h"

namespace dragonn::bench {

/// What is known of one exchange on one rank. kSeconds is of the collective, decoding included, kSecondsTotal from
/// compensate to settle. Bytes and messages are payload, those of headers are counts and flags. kFirstVerb and what
/// follows: seconds by Verb.
enum class Quantity : std::size_t {
  kSeconds,
  kSecondsTotal,
  kBytesSent,
  kBytesReceived,
  kMessagesSent,
  kMessagesReceived,
  kHeaderBytesSent,
  kHeaderMessagesSent,
  kSelected,  ///< entries that the rank selected
  kGlobal,    ///< entries of the sum
  kFirstVerb
};
inline constexpr std::size_t kQuantities = static_cast<std::size_t>(Quantity::kFirstVerb) + kVerbNames.size();

/// One step, over the ranks.
struct ExchangeRecord {
  std::uint64_t step = 0;
  std::array<trainer::MeanMax, kQuantities> values{};

  trainer::MeanMax& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
  const trainer::MeanMax& operator[](Quantity quantity) const { return values[static_cast<std::size_t>(quantity)]; }
};

/// One rank's quantities.
class RankValues {
 public:
  double& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
  std::array<double, kQuantities> values{};
};

/// Measures the steps of one rank.
class StepMeter {
 public:
  explicit StepMeter(comm::Communicator& communicator) : communicator_(communicator) {}

  /// Collective. All ranks begin at the same time: on a virtual cluster to the bit.
  void start();
  /// Sets kSecondsTotal, bytes and messages.
  void stop(RankValues& values) const;
  /// Collective. The record of a step from what each rank saw.
  ExchangeRecord record(std::uint64_t step, const RankValues& mine) const;

 private:
  comm::Communicator& communicator_;
  comm::TrafficCounters before_;
  double start_ = 0;
};

}  // namespace dragonn::bench
