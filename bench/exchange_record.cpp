// SPDX-License-Identifier: MIT
#include "bench/exchange_record.h"

#include <algorithm>
#include <vector>

#include "comm/align.h"

namespace dragonn::bench {

void StepMeter::start() {
  comm::align(communicator_);
  before_ = communicator_.traffic();
  start_ = communicator_.now();
}

void StepMeter::stop(RankValues& values) const {
  values[Quantity::kSecondsTotal] = communicator_.now() - start_;
  const comm::TrafficCounters& now = communicator_.traffic();
  const comm::Traffic payload = now[comm::Phase::kExchange] - before_[comm::Phase::kExchange];
  const comm::Traffic header = now[comm::Phase::kHeader] - before_[comm::Phase::kHeader];
  values[Quantity::kBytesSent] = static_cast<double>(payload.bytes_sent);
  values[Quantity::kBytesReceived] = static_cast<double>(payload.bytes_received);
  values[Quantity::kMessagesSent] = static_cast<double>(payload.messages_sent);
  values[Quantity::kMessagesReceived] = static_cast<double>(payload.messages_received);
  values[Quantity::kHeaderBytesSent] = static_cast<double>(header.bytes_sent);
  values[Quantity::kHeaderMessagesSent] = static_cast<double>(header.messages_sent);
}

ExchangeRecord StepMeter::record(std::uint64_t step, const RankValues& mine) const {
  const ClockPause pause(communicator_.clock());
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  std::vector<RankValues> all(ranks);
  communicator_.allgather_values(std::span<const RankValues>(&mine, 1), std::span(all));
  ExchangeRecord record{.step = step};
  for (std::size_t i = 0; i < kQuantities; ++i) {
    trainer::MeanMax& value = record.values[i];
    value.max = all[0].values[i];
    for (const RankValues& rank : all) {
      value.mean += rank.values[i] / static_cast<double>(ranks);
      value.max = std::max(value.max, rank.values[i]);
    }
  }
  return record;
}

}  // namespace dragonn::bench
