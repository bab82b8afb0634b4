// SPDX-License-Identifier: MIT
#include "bench/exchange/exchange_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "comm/blocks.h"
#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/sized_lists.h"
#include "comm/sparse/sparse_collective.h"
#include "core/npy.h"
#include "core/parameter.h"
#include "core/rng.h"
#include "exchange/step_agreement.h"

namespace dragonn::bench {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

using RankValues = std::array<double, kQuantities>;

constexpr std::string_view kRankMark = "{rank}";

Shape list_of(std::size_t numel) {
  return {static_cast<std::int64_t>(numel)};
}

/// Returns the path of one rank.
std::filesystem::path input_path(const std::string& pattern, int rank) {
  const std::size_t mark = pattern.find(kRankMark);
  if (mark == std::string::npos) {
    throw ConfigError(
        fmt::format("--input {}: expected a path with {} in it, one file for each rank", pattern, kRankMark));
  }
  return std::string(pattern).replace(mark, kRankMark.size(), std::to_string(rank));
}

/// Collective. Returns this rank's array. @throws CollectiveError on all ranks if a file is missing, is no array of
/// `numel` float32 in one dimension, or holds NaN or infinity.
std::vector<float> read_input(comm::Communicator& communicator, const std::string& pattern, std::size_t numel) {
  std::vector<float> values;
  comm::all_ranks_or_none(communicator, [&] {
    const std::filesystem::path path = input_path(pattern, communicator.rank());
    values = read_gradient(path, /*dimensions=*/1);
    if (values.size() == numel) return;
    throw DataError(fmt::format("{}: {} elements, and {} has {}; the gradients of one model are of one size",
                                path.string(), values.size(), input_path(pattern, 0).string(), numel));
  });
  return values;
}

/// Collective. Writes acc_{rank}.npy and residual_{rank}.npy of every rank, and sum.npy, the exchanged sum over ranks.
/// @param residual after settle; empty: nothing stays behind.
/// @throws CollectiveError on all ranks if a file cannot be written.
void write_dump(comm::Communicator& communicator, const std::string& folder, std::span<const float> accumulated,
                const comm::SparseReduction& reduction, View<const float> residual) {
  comm::all_ranks_or_none(communicator, [&] {
    const std::filesystem::path path(folder);
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure) throw SystemError(fmt::format("cannot make the folder {}: {}", folder, failure.message()));
    const std::size_t numel = accumulated.size();
    const int rank = communicator.rank();
    write_npy<float>(path / fmt::format("acc_{}.npy", rank), list_of(numel), accumulated);
    std::vector<float> dense(numel);
    std::ranges::copy(residual.host(), dense.begin());
    write_npy<float>(path / fmt::format("residual_{}.npy", rank), list_of(numel), dense);
    if (rank != 0) return;
    if (reduction.is_dense) {
      return write_npy<float>(path / "sum.npy", list_of(numel), reduction.dense_sum.host());
    }
    std::ranges::fill(dense, 0.0f);
    comm::add_to_dense(reduction.sum, dense);
    write_npy<float>(path / "sum.npy", list_of(numel), dense);
  });
}

/// One rank's part in the steps of a case.
class RankRun {
 public:
  RankRun(comm::Communicator& communicator, const ExchangeCase& exchange_case)
      : communicator_(communicator), case_(exchange_case) {}
  virtual ~RankRun() = default;

  /// Collective. Measures a step, from the same time on all ranks; on a virtual cluster exactly so.
  ExchangeRecord step(std::uint64_t step) {
    RankValues values{};
    {
      const ClockPause pause(communicator_.clock());
      prepare(step);
    }
    comm::align(communicator_);
    const comm::TrafficCounters before = communicator_.traffic();
    const double start = communicator_.now();
    exchange(step, values);
    values[kSecondsTotal] = communicator_.now() - start;
    const comm::TrafficCounters& now = communicator_.traffic();
    const comm::Traffic payload = now[comm::Phase::kExchange] - before[comm::Phase::kExchange];
    const comm::Traffic header = now[comm::Phase::kHeader] - before[comm::Phase::kHeader];
    values[kBytesSent] = static_cast<double>(payload.bytes_sent);
    values[kBytesReceived] = static_cast<double>(payload.bytes_received);
    values[kMessagesSent] = static_cast<double>(payload.messages_sent);
    values[kMessagesReceived] = static_cast<double>(payload.messages_received);
    values[kHeaderBytesSent] = static_cast<double>(header.bytes_sent);
    values[kHeaderMessagesSent] = static_cast<double>(header.messages_sent);
    const ClockPause pause(communicator_.clock());
    finish(step, values);
    return reduce(step, values);
  }
  /// Collective. Writes the outcome of the last step to the case's folder.
  virtual void dump() {}

 protected:
  /// Draws what is exchanged. Costs no virtual time.
  virtual void prepare(std::uint64_t step) = 0;
  virtual void exchange(std::uint64_t step, RankValues& values) = 0;
  /// Collective. Checks the step, and adds the other values. Costs no virtual time.
  virtual void finish(std::uint64_t step, RankValues& values) = 0;

  comm::Communicator& communicator_;
  const ExchangeCase& case_;

 private:
  ExchangeRecord reduce(std::uint64_t step, const RankValues& mine) {
    const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    std::vector<RankValues> all(ranks);
    communicator_.allgather_values(std::span<const RankValues>(&mine, 1), std::span(all));
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
};

/// Returns an arena of one tensor.
ParameterArena one_tensor(const Shape& shape) {
  ParameterArena arena;
  arena.declare("gradient", shape, ParameterRole::kWeight);
  arena.lay_out();
  return arena;
}

/// Exchanges gradients.
class GradientRun final : public RankRun {
 public:
  GradientRun(comm::Communicator& communicator, const ExchangeCase& exchange_case)
      : RankRun(communicator, exchange_case),
        arena_(one_tensor(exchange_case.shape())),
        exchange_(exchange_case.rules, arena_, communicator),
        gradient_(exchange_case.numel) {
    if (case_.files.input.empty()) return;
    const std::vector<float> input = read_input(communicator, case_.files.input, case_.numel);
    std::ranges::copy(input, gradient_.host().begin());
  }

  void dump() override {
    if (case_.files.dump.empty()) return;
    write_dump(communicator_, case_.files.dump, gradient_.host(), exchange_.reduction(0),
               exchange_.memory(0).residual());
  }

 protected:
  void prepare(std::uint64_t step) override {
    if (case_.files.input.empty()) draw_worker_gradient(case_.gradients, step, communicator_.rank(), gradient_.host());
  }

  void exchange(std::uint64_t step, RankValues& values) override {
    StepTimers timers(communicator_.clock());
    exchange_.run({.step = step, .density = case_.density, .aligned = case_.aligned}, gradient_.view(), timers);
    exchange_.commit(timers);
    values[kSeconds] = timers.seconds(StepPart::kExchange) + timers.seconds(StepPart::kDecode);
    std::ranges::copy(timers.all(), values.begin() + kFirstPart);
  }

  void finish(std::uint64_t step, RankValues& values) override {
    // A file may hold anything.
    const exchange::StepWord word =
        exchange::reduce_step_word(communicator_, {.non_finite_bucket = exchange_.non_finite_bucket()});
    exchange::check_finite(word, step + 1, exchange_.buckets());
    const exchange::ExchangeCounts& counts = exchange_.counts();
    const auto me = static_cast<std::size_t>(communicator_.rank());
    const bool has_counts = counts.numel > 0;
    values[kSelected] = static_cast<double>(has_counts ? counts.selected[me] : case_.numel);
    values[kGlobal] = static_cast<double>(has_counts ? counts.global : case_.numel);
  }

 private:
  ParameterArena arena_;
  exchange::GradientExchange exchange_;
  Buffer<float> gradient_;
};

/// Exchanges lists that look like the k largest of independent values, without a gradient. Places are uniform, one in
/// each of k equal parts of the bucket; magnitudes are 1 plus an exponential draw; signs are even. If a selection is
/// partitioned, each rank draws its share of the k entries in its part of the bucket; if it is the leader's, the other
/// ranks have none; shared indices are the same on all ranks.
class PayloadRun final : public RankRun {
 public:
  PayloadRun(comm::Communicator& communicator, const ExchangeCase& exchange_case)
      : RankRun(communicator, exchange_case),
        collective_(comm::make_collective(exchange_case.component().name, exchange_case.component().settings,
                                          exchange_case.numel)),
        k_(exchange_case.k()),
        reduce_(comm::make_sized_lists(communicator)),
        untouched_(exchange_case.numel) {
    collective_->set_operations(comm::make_sized_operations(communicator, exchange_case.numel));
  }

 protected:
  /// Draws the selection in O(k).
  void prepare(std::uint64_t step) override {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    const auto me = static_cast<std::size_t>(communicator_.rank());
    const SelectionTraits traits = case_.traits();
    const bool is_idle = traits.leader_only && step % ranks != me;
    const comm::Block range = traits.partitioned ? comm::block(case_.numel, ranks, me) : comm::Block{0, case_.numel};
    const std::size_t wanted = traits.partitioned ? comm::block(k_, ranks, me).size() : k_;
    const std::size_t count = is_idle ? 0 : std::min(wanted, range.size());
    selected_.resize_discard(count);
    const std::uint64_t place = traits.shared_indices ? 0 : me;
    Rng places(case_.gradients.seed, "payload places", {step, place});
    Rng draws(case_.gradients.seed, "payload values", {step, me});
    for (std::size_t i = 0; i < count; ++i) {
      const comm::Block part = comm::block(range.size(), count, i);
      selected_.indices.host()[i] = static_cast<std::uint32_t>(range.begin + part.begin + places.below(part.size()));
      const float sign = draws() % 2 == 0 ? 1.0f : -1.0f;
      selected_.values.host()[i] = sign * (1.0f - std::log(1.0f - draws.uniform()));
    }
  }

  void exchange(std::uint64_t step, RankValues& /*values*/) override {
    const comm::ReduceContext context{.step = step, .k = k_, .density = case_.density, .selection = case_.traits()};
    reduce_.run({collective_.get(), &context, untouched_.view(), &selected_, &reduction_});
  }

  void finish(std::uint64_t /*step*/, RankValues& values) override {
    const auto& owned = reduction_.statistics.owned_counts;
    const auto entries = static_cast<double>(
        reduction_.is_dense ? std::accumulate(owned.begin(), owned.end(), std::uint64_t{0}) : reduction_.sum.size());
    values[kSeconds] = values[kSecondsTotal];
    const bool is_sparse = case_.rules.buckets.compress;
    values[kSelected] = static_cast<double>(is_sparse ? selected_.size() : case_.numel);
    values[kGlobal] = !is_sparse ? static_cast<double>(case_.numel) : entries > 0 ? entries : kUnknown;
  }

 private:
  std::unique_ptr<comm::SparseCollective> collective_;
  std::size_t k_;
  comm::GroupReduce reduce_;
  Buffer<float> untouched_;  // stands for acc
  SparseVector selected_;
  comm::SparseReduction reduction_;
};

}  // namespace

std::size_t input_numel(const std::string& pattern) {
  return read_gradient(input_path(pattern, 0), /*dimensions=*/1).size();
}

std::size_t ExchangeCase::period() const {
  const Settings& settings = rules.collective.settings;
  return settings.contains("global_period") ? static_cast<std::size_t>(settings.integer("global_period")) : 1;
}

std::size_t ExchangeCase::k() const {
  return exchange::target_of(rules, {.size = numel, .tensors = {shape()}}, density);
}

SelectionTraits ExchangeCase::traits() const {
  return rules.buckets.compress ? exchange::exchanged_selection(rules) : SelectionTraits{};
}

comm::Prediction ExchangeCase::predict(const std::string& backend, int ranks, const ExchangeRecord& record) const {
  const Settings& settings = component().settings;
  if (backend == "mpi" && settings.contains("algorithm") && settings.text("algorithm") == "native") {
    return {.bytes_sent = kUnknown, .payload = {kUnknown, kUnknown}};
  }
  const comm::ExchangeSizes sizes{.numel = numel,
                                  .k = k(),
                                  .ranks = ranks,
                                  .selected = record.values[kSelected].mean,
                                  .largest = record.values[kSelected].max,
                                  .global = record.values[kGlobal].max,
                                  .selection = traits(),
                                  .computes_threshold = computes_threshold(record.step),
                                  .coding = codec::ListEstimate(rules.coding)};
  return Registry<comm::SparseCollectiveEntry>::instance().at(component().name).predict(settings, sizes);
}

std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             const std::function<void()>& on_step) {
  std::unique_ptr<RankRun> run;
  if (exchange_case.payload_only) {
    run = std::make_unique<PayloadRun>(communicator, exchange_case);
  } else {
    run = std::make_unique<GradientRun>(communicator, exchange_case);
  }
  std::vector<ExchangeRecord> records;
  for (std::uint64_t step = 0; step < exchange_case.warm_up + exchange_case.steps; ++step) {
    const ExchangeRecord record = run->step(step);
    if (step >= exchange_case.warm_up) records.push_back(record);
    const ClockPause pause(communicator.clock());
    if (on_step) on_step();
  }
  run->dump();
  return records;
}

}  // namespace dragonn::bench
