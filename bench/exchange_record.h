// SPDX-License-Identifier: MIT
/// ExchangeRecord: the measurement of one exchange, on a rank and over all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "comm/communicator.h"
#include "core/timer.h"
#include "trainer/metrics/metrics.h"

namespace dragonn::bench {

/// A quantity of one exchange on one rank. kSeconds is the collective, decoding included; kSecondsTotal is compensate
/// to settle. Bytes and messages are payload; counts and flags are headers. kFirstVerb and those after it are seconds
/// by Verb.
enum class Quantity : std::size_t {
  kSeconds,
  kSecondsTotal,
  kBytesSent,
  kBytesReceived,
  kMessagesSent,
  kMessagesReceived,
  kHeaderBytesSent,
  kHeaderMessagesSent,
  kSelected,  ///< number of entries that the rank selected
  kGlobal,    ///< number of entries of the sum
  kFirstVerb
};
inline constexpr std::size_t kQuantities = static_cast<std::size_t>(Quantity::kFirstVerb) + kVerbNames.size();

/// The quantities of one step, over the ranks.
struct ExchangeRecord {
  std::uint64_t step = 0;
  std::array<trainer::MeanMax, kQuantities> values{};

  trainer::MeanMax& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
  const trainer::MeanMax& operator[](Quantity quantity) const { return values[static_cast<std::size_t>(quantity)]; }
};

/// The quantities of one rank.
class RankValues {
 public:
  double& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
  std::array<double, kQuantities> values{};
};

/// Measures the steps of one rank.
class StepMeter {
 public:
  explicit StepMeter(comm::Communicator& communicator) : communicator_(communicator) {}

  /// Collective. Starts the measurement on all ranks at the same time; on a virtual cluster exactly so.
  void start();
  /// Sets kSecondsTotal, bytes and messages.
  void stop(RankValues& values) const;
  /// Collective. Returns the record of a step from each rank's values.
  ExchangeRecord record(std::uint64_t step, const RankValues& mine) const;

 private:
  comm::Communicator& communicator_;
  comm::TrafficCounters before_;
  double start_ = 0;
};

}  // namespace dragonn::bench
