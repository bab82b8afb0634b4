// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "bench/exchange/exchange_measure.h"
#include "comm/agreement.h"
#include "comm/sparse/batch_decoder.h"
#include "core/npy.h"

namespace dragonn::bench {
namespace {

constexpr std::string_view kRankMark = "{rank}";

/// Reads an array. It must have one dimension, be finite and not be empty.
std::vector<float> read_array(const std::filesystem::path& path) {
  NpyArray array = read_npy(path);
  if (array.shape.rank() != 1) {
    throw DataError(fmt::format("{}: {} dimensions; a gradient has one", path.string(), array.shape.rank()));
  }
  if (array.values.empty() || array.values.size() >= kEmptySlot) {
    throw DataError(fmt::format("{}: {} elements; a gradient has between 1 and {}", path.string(), array.values.size(),
                                kEmptySlot - 1));
  }
  const auto bad = std::ranges::find_if_not(array.values, [](float value) { return std::isfinite(value); });
  if (bad != array.values.end()) {
    throw DataError(
        fmt::format("{}: element {} is {}; a gradient is finite", path.string(), bad - array.values.begin(), *bad));
  }
  return std::move(array.values);
}

Shape list_of(std::size_t numel) {
  return {static_cast<std::int64_t>(numel)};
}

}  // namespace

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

std::filesystem::path input_path(const std::string& pattern, int rank) {
  const std::size_t mark = pattern.find(kRankMark);
  if (mark == std::string::npos) {
    throw ConfigError(
        fmt::format("--input {}: expected a path with {} in it, one file for each rank", pattern, kRankMark));
  }
  return std::string(pattern).replace(mark, kRankMark.size(), std::to_string(rank));
}

std::size_t input_numel(const std::string& pattern) {
  return read_array(input_path(pattern, 0)).size();
}

std::vector<float> read_input(comm::Communicator& communicator, const std::string& pattern, std::size_t numel) {
  std::vector<float> values;
  comm::all_ranks_or_none(communicator, [&] {
    const std::filesystem::path path = input_path(pattern, communicator.rank());
    values = read_array(path);
    if (values.size() == numel) return;
    throw DataError(fmt::format("{}: {} elements, and {} has {}; the gradients of one model are of one size",
                                path.string(), values.size(), input_path(pattern, 0).string(), numel));
  });
  return values;
}

void write_dump(comm::Communicator& communicator, const std::string& folder, const ExchangeDump& dump) {
  comm::all_ranks_or_none(communicator, [&] {
    const std::filesystem::path path(folder);
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure) throw SystemError(fmt::format("cannot make the folder {}: {}", folder, failure.message()));
    const std::size_t numel = dump.accumulated.size();
    const int rank = communicator.rank();
    write_npy<float>(path / fmt::format("acc_{}.npy", rank), list_of(numel), dump.accumulated);
    std::vector<float> dense(numel);
    std::ranges::copy(dump.residual.host(), dense.begin());
    write_npy<float>(path / fmt::format("residual_{}.npy", rank), list_of(numel), dense);
    if (rank != 0) return;
    if (dump.reduction.is_dense) {
      return write_npy<float>(path / "sum.npy", list_of(numel), dump.reduction.dense_sum.host());
    }
    std::ranges::fill(dense, 0.0f);
    comm::add_to_dense(dump.reduction.sum, dense);
    write_npy<float>(path / "sum.npy", list_of(numel), dense);
  });
}

}  // namespace dragonn::bench
