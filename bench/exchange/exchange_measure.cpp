// SPDX-License-Identifier: MIT
#include "bench/exchange/exchange_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "comm/blocks.h"
#include "comm/sparse/sized_lists.h"
#include "comm/sparse/sparse_collective.h"
#include "core/parameter.h"
#include "core/rng.h"
#include "exchange/step_agreement.h"

namespace dragonn::bench {
namespace {

/// Returns an arena of one tensor.
ParameterArena one_tensor(std::size_t numel) {
  ParameterArena arena;
  arena.declare("gradient", Shape{1, static_cast<std::int64_t>(numel)}, ParameterRole::kWeight);
  arena.lay_out();
  return arena;
}

/// One rank's part in the steps of a case.
class GradientRun {
 public:
  GradientRun(comm::Communicator& communicator, const ExchangeCase& exchange_case)
      : communicator_(communicator),
        case_(exchange_case),
        meter_(communicator),
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
    meter_.start();
    StepTimers timers(communicator_.clock());
    exchange_.run({.step = step, .density = case_.density, .aligned = case_.aligned}, gradient_.view(), timers);
    exchange_.commit(timers);
    RankValues values;
    meter_.stop(values);
    check_finite(step);
    values[Quantity::kSeconds] = timers.seconds(StepPart::kExchange) + timers.seconds(StepPart::kDecode);
    const exchange::ExchangeCounts& counts = exchange_.counts();
    const bool is_sparse = counts.numel > 0;
    const auto me = static_cast<std::size_t>(communicator_.rank());
    const auto numel = static_cast<double>(case_.numel);
    values[Quantity::kSelected] = is_sparse ? static_cast<double>(counts.selected[me]) : numel;
    values[Quantity::kGlobal] = is_sparse ? static_cast<double>(counts.global) : numel;
    std::ranges::copy(timers.all(), values.values.begin() + static_cast<std::ptrdiff_t>(Quantity::kFirstVerb));
    return meter_.record(step, values);
  }

  void dump() {
    write_dump(communicator_, case_.files.dump,
               {gradient_.host(), exchange_.reduction(0), exchange_.memory(0).residual()});
  }

 private:
  /// Checks the gradient: a file may hold anything.
  void check_finite(std::uint64_t step) {
    const ClockPause pause(communicator_.clock());
    const exchange::StepWord word =
        exchange::reduce_step_word(communicator_, {.non_finite_bucket = exchange_.non_finite_bucket()});
    exchange::check_finite(word, step + 1, exchange_.buckets());
  }

  void draw(std::uint64_t step) {
    const ClockPause pause(communicator_.clock());
    source_.draw(step, gradient_.host());
  }

  comm::Communicator& communicator_;
  const ExchangeCase& case_;
  StepMeter meter_;
  ParameterArena arena_;
  exchange::GradientExchange exchange_;
  WorkerGradient source_;
  Buffer<float> gradient_;
};

struct PayloadRules {
  std::uint64_t seed = 1;
  std::size_t numel = 0;
  std::size_t k = 0;  ///< entries of a rank, at most numel; of all ranks together where they share the bucket
  SelectionTraits traits = {};
};

/// Draws selections like the k largest of independent values. Places are uniform, one in each of k equal parts of the
/// bucket; magnitudes are 1 plus an exponential draw; signs are even. If a selection is partitioned, each rank draws in
/// its part of the bucket; if it is the leader's, the other ranks have none; shared indices are the same on all ranks.
class PayloadLists {
 public:
  explicit PayloadLists(const PayloadRules& rules) : rules_(rules) {}

  /// Draws a selection in O(k). It is the same for the same seed, step and rank.
  void draw(std::uint64_t step, int rank, int world_size, SparseVector& selected) const;

 private:
  PayloadRules rules_;
};

/// Draws one index in each of `count` parts of the range.
void draw_indices(Rng rng, const comm::Block& range, std::size_t count, std::uint32_t* indices) {
  for (std::size_t i = 0; i < count; ++i) {
    const comm::Block part = comm::block(range.size(), count, i);
    indices[i] = static_cast<std::uint32_t>(range.begin + part.begin + rng.below(part.size()));
  }
}

void draw_values(Rng rng, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
    values[i] = sign * (1.0f - std::log(1.0f - rng.uniform()));
  }
}

void PayloadLists::draw(std::uint64_t step, int rank, int world_size, SparseVector& selected) const {
  const auto ranks = static_cast<std::size_t>(world_size);
  const auto me = static_cast<std::size_t>(rank);
  const bool is_apart = rules_.traits.partitioned;
  const bool is_idle = rules_.traits.leader_only && step % ranks != me;
  const comm::Block range = is_apart ? comm::block(rules_.numel, ranks, me) : comm::Block{0, rules_.numel};
  const std::size_t wanted = is_apart ? comm::block(rules_.k, ranks, me).size() : rules_.k;
  const std::size_t count = is_idle ? 0 : std::min(wanted, range.size());
  selected.resize_discard(count);
  const std::uint64_t place = rules_.traits.shared_indices ? 0 : me;
  draw_indices(Rng(rules_.seed, "payload places", {step, place}), range, count, selected.indices.data());
  draw_values(Rng(rules_.seed, "payload values", {step, me}), count, selected.values.data());
}

/// One rank's part in the steps of a case without gradients.
class PayloadRun {
 public:
  PayloadRun(comm::Communicator& communicator, const ExchangeCase& exchange_case)
      : communicator_(communicator),
        case_(exchange_case),
        meter_(communicator),
        collective_(comm::make_collective(exchange_case.component().name, exchange_case.component().settings,
                                          exchange_case.numel)),
        lists_({.seed = exchange_case.gradients.seed,
                .numel = exchange_case.numel,
                .k = compress::target_count(exchange_case.density, exchange_case.numel),
                .traits = exchange_case.traits()}),
        reduce_(comm::make_sized_lists(communicator)),
        untouched_(exchange_case.numel) {
    collective_->set_operations(comm::make_sized_operations(communicator, exchange_case.numel));
  }

  ExchangeRecord step(std::uint64_t step) {
    {
      const ClockPause pause(communicator_.clock());
      lists_.draw(step, communicator_.rank(), communicator_.size(), selected_);
    }
    const bool is_sparse = case_.rules.buckets.compress;
    const comm::ReduceContext context{.step = step,
                                      .k = compress::target_count(case_.density, case_.numel),
                                      .density = case_.density,
                                      .selection = case_.traits()};
    meter_.start();
    reduce_.run({collective_.get(), &context, untouched_.view(), &selected_, &reduction_});
    RankValues values;
    meter_.stop(values);
    values[Quantity::kSeconds] = values[Quantity::kSecondsTotal];
    const auto numel = static_cast<double>(case_.numel);
    const auto& owned = reduction_.statistics.owned_counts;
    const auto entries = static_cast<double>(
        reduction_.is_dense ? std::accumulate(owned.begin(), owned.end(), std::uint64_t{0}) : reduction_.sum.size());
    values[Quantity::kSelected] = is_sparse ? static_cast<double>(selected_.size()) : numel;
    values[Quantity::kGlobal] = !is_sparse ? numel : entries > 0 ? entries : std::numeric_limits<double>::quiet_NaN();
    return meter_.record(step, values);
  }

 private:
  comm::Communicator& communicator_;
  const ExchangeCase& case_;
  StepMeter meter_;
  std::unique_ptr<comm::SparseCollective> collective_;
  PayloadLists lists_;
  comm::GroupReduce reduce_;
  Buffer<float> untouched_;  // stands for acc
  SparseVector selected_;
  comm::SparseReduction reduction_;
};

template <class Run>
std::vector<ExchangeRecord> run_steps(Run& run, const ExchangeCase& exchange_case, Clock& clock,
                                      const std::function<void()>& on_step) {
  std::vector<ExchangeRecord> records;
  for (std::uint64_t step = 0; step < exchange_case.warm_up + exchange_case.steps; ++step) {
    const ExchangeRecord record = run.step(step);
    if (step >= exchange_case.warm_up) records.push_back(record);
    const ClockPause pause(clock);
    if (on_step) on_step();
  }
  return records;
}

}  // namespace

std::size_t ExchangeCase::period() const {
  const Settings& settings = rules.collective.settings;
  return settings.contains("global_period") ? static_cast<std::size_t>(settings.integer("global_period")) : 1;
}

SelectionTraits ExchangeCase::traits() const {
  return rules.buckets.compress ? exchange::exchanged_selection(rules) : SelectionTraits{};
}

comm::Prediction ExchangeCase::predict(const std::string& backend, int ranks, const ExchangeRecord& record) const {
  const Settings& settings = component().settings;
  if (backend == "mpi" && settings.contains("algorithm") && settings.text("algorithm") == "native") {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    return {.bytes_sent = kUnknown, .payload = {kUnknown, kUnknown}};
  }
  const comm::ExchangeSizes sizes{.numel = numel,
                                  .k = compress::target_count(density, numel),
                                  .ranks = ranks,
                                  .selected = record[Quantity::kSelected].mean,
                                  .largest = record[Quantity::kSelected].max,
                                  .global = record[Quantity::kGlobal].max,
                                  .selection = traits(),
                                  .computes_threshold = computes_threshold(record.step),
                                  .coding = codec::ListEstimate(rules.coding)};
  return Registry<comm::SparseCollectiveEntry>::instance().at(component().name).predict(settings, sizes);
}

std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             const std::function<void()>& on_step) {
  if (exchange_case.payload_only) {
    PayloadRun run(communicator, exchange_case);
    return run_steps(run, exchange_case, communicator.clock(), on_step);
  }
  GradientRun run(communicator, exchange_case);
  std::vector<ExchangeRecord> records = run_steps(run, exchange_case, communicator.clock(), on_step);
  if (!exchange_case.files.dump.empty()) run.dump();
  return records;
}

}  // namespace dragonn::bench
