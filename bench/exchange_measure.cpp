// SPDX-License-Identifier: MIT
#include "bench/exchange_measure.h"

#include <algorithm>
#include <limits>

#include "core/parameter.h"

namespace dragonn::bench {
namespace {

using RankValues = std::array<double, kQuantities>;

/// A gradient of one tensor.
ParameterArena one_tensor(std::size_t numel) {
  ParameterArena arena;
  arena.declare("gradient", Shape{1, static_cast<std::int64_t>(numel)}, ParameterRole::kWeight);
  arena.lay_out();
  return arena;
}

void set(RankValues& values, Quantity quantity, double value) {
  values[static_cast<std::size_t>(quantity)] = value;
}

/// What a rank moved since the counters were `before`.
void set_traffic(const comm::TrafficCounters& now, const comm::TrafficCounters& before, RankValues& values) {
  const comm::Traffic payload = now[comm::Phase::kExchange] - before[comm::Phase::kExchange];
  const comm::Traffic header = now[comm::Phase::kHeader] - before[comm::Phase::kHeader];
  set(values, Quantity::kBytesSent, static_cast<double>(payload.bytes_sent));
  set(values, Quantity::kBytesReceived, static_cast<double>(payload.bytes_received));
  set(values, Quantity::kMessagesSent, static_cast<double>(payload.messages_sent));
  set(values, Quantity::kMessagesReceived, static_cast<double>(payload.messages_received));
  set(values, Quantity::kHeaderBytesSent, static_cast<double>(header.bytes_sent));
  set(values, Quantity::kHeaderMessagesSent, static_cast<double>(header.messages_sent));
}

/// Collective: the record of a step from what each rank saw.
ExchangeRecord over_ranks(comm::Communicator& communicator, std::uint64_t step, const RankValues& mine) {
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kMetrics);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<RankValues> all(ranks);
  communicator.allgather_values(std::span<const RankValues>(&mine, 1), std::span(all));
  ExchangeRecord record{.step = step};
  for (std::size_t i = 0; i < kQuantities; ++i) {
    trainer::MeanMax& value = record.values[i];
    value.max = all[0][i];
    for (const RankValues& rank : all) {
      value.mean += rank[i] / static_cast<double>(ranks);
      value.max = std::max(value.max, rank[i]);
    }
  }
  return record;
}

/// One rank's part in the steps of a case.
class ExchangeRun {
 public:
  ExchangeRun(comm::Communicator& communicator, const ExchangeCase& exchange_case)
      : communicator_(communicator),
        case_(exchange_case),
        arena_(one_tensor(exchange_case.numel)),
        exchange_(exchange_case.rules, arena_, communicator),
        source_(exchange_case.gradients, exchange_case.numel, communicator.rank()),
        gradient_(exchange_case.numel) {
    if (case_.files.input.empty()) return;
    const std::vector<float> input = read_input(communicator, case_.files.input, case_.numel);
    std::ranges::copy(input, gradient_.host().begin());
  }

  ExchangeRecord step(std::uint64_t step) {
    if (case_.files.input.empty()) draw(step);
    start_together();
    const comm::TrafficCounters before = communicator_.traffic();
    StepTimers timers(communicator_.clock());
    const double start = communicator_.now();
    exchange_.run({.step = step, .density = case_.density, .aligned = case_.aligned}, gradient_.view(), timers);
    RankValues values{};
    set(values, Quantity::kSecondsTotal, communicator_.now() - start);
    set(values, Quantity::kSeconds, timers.seconds(Verb::kExchange) + timers.seconds(Verb::kDecode));
    set_traffic(communicator_.traffic(), before, values);
    const trainer::ExchangeCounts& counts = exchange_.counts();
    const bool is_sparse = counts.numel > 0;
    const auto me = static_cast<std::size_t>(communicator_.rank());
    const auto numel = static_cast<double>(case_.numel);
    set(values, Quantity::kSelected, is_sparse ? static_cast<double>(counts.selected[me]) : numel);
    set(values, Quantity::kGlobal, is_sparse ? static_cast<double>(counts.global) : numel);
    std::ranges::copy(timers.all(), values.begin() + static_cast<std::ptrdiff_t>(Quantity::kFirstVerb));
    const ClockPause pause(communicator_.clock());
    return over_ranks(communicator_, step, values);
  }

  void dump() {
    write_dump(communicator_, case_.files.dump,
               {gradient_.host(), exchange_.reduction(0), exchange_.memory(0).residual()});
  }

 private:
  void draw(std::uint64_t step) {
    const ClockPause pause(communicator_.clock());
    source_.draw(step, gradient_.host());
  }

  /// All ranks at the same time: on a virtual cluster to the bit.
  void start_together() {
    const ClockPause pause(communicator_.clock());
    double latest = communicator_.now();
    communicator_.barrier();
    communicator_.allreduce_max(std::span<double>(&latest, 1));
    communicator_.clock().advance_to(latest);
  }

  comm::Communicator& communicator_;
  const ExchangeCase& case_;
  ParameterArena arena_;
  trainer::GradientExchange exchange_;
  WorkerGradient source_;
  Buffer<float> gradient_;
};

}  // namespace

std::size_t ExchangeCase::period() const {
  const Settings& settings = rules.collective.settings;
  return settings.contains("global_period") ? static_cast<std::size_t>(settings.integer("global_period")) : 1;
}

comm::Prediction ExchangeCase::predict(const std::string& backend, int ranks, const ExchangeRecord& record) const {
  const bool is_dense = !rules.buckets.compress;
  const trainer::Component& component = is_dense ? rules.dense : rules.collective;
  if (is_dense && backend == "mpi" && component.settings.text("algorithm") == "native") {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    return {.bytes_sent = kUnknown, .payload = {kUnknown, kUnknown}};
  }
  const comm::ExchangeSizes sizes{
      .numel = numel,
      .k = compress::target_count(density, numel),
      .ranks = ranks,
      .selected = record[Quantity::kSelected].mean,
      .largest = record[Quantity::kSelected].max,
      .global = record[Quantity::kGlobal].max,
      .selection = is_dense ? comm::SelectionTraits{} : trainer::selection_traits(rules.sparsifier),
      .computes_threshold = computes_threshold(record.step)};
  return Registry<comm::SparseCollectiveEntry>::instance().at(component.name).predict(component.settings, sizes);
}

std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case) {
  ExchangeRun run(communicator, exchange_case);
  std::vector<ExchangeRecord> records;
  for (std::uint64_t step = 0; step < exchange_case.warm_up + exchange_case.steps; ++step) {
    const ExchangeRecord record = run.step(step);
    if (step >= exchange_case.warm_up) records.push_back(record);
  }
  if (!exchange_case.files.dump.empty()) run.dump();
  return records;
}

}  // namespace dragonn::bench
