// SPDX-License-Identifier: MIT
#include "trainer/planner/virtual_trial.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include <omp.h>

#include "comm/local/local.h"
#include "exchange/run_part.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/generation.h"
#include "trainer/run/plan.h"
#include "trainer/run/run.h"
#include "trainer/run/stop_agreement.h"
#include "trainer/run/training_state.h"

namespace dragonn::trainer {
namespace {

/// No trial comes to the end of its run, where a scheme would exchange everything.
constexpr std::uint64_t kManySteps = std::uint64_t{1} << 40;

/// One rank's part of a trial.
struct RankTrial {
  std::vector<Moment> ends;  // of rounds, the first one being the beginning
  double busy = 0;           // seconds of computing in the rounds that count
  comm::Traffic sent = {};   // in the rounds that count
};

/// Trains a rank by rounds, and notes its times. The steps are those of Training, without what does not count there.
class RankSteps {
 public:
  RankSteps(const Job& job, const RunPlan& plan, layers::Network network, comm::Communicator& communicator)
      : communicator_(communicator),
        state_(job.config, std::move(network)),
        generation_(job, plan, state_, communicator),
        stop_(communicator, [] { return false; }),
        traits_(job.config.update.traits()) {
    state_.total_steps = kManySteps;
    generation_.scheme->begin(generation_, {});
  }

  RankTrial run(const TrialLength& length) {
    RankTrial trial;
    comm::PhaseTraffic before{};
    for (std::uint64_t round = 0; round < length.ahead + length.counted; ++round) {
      if (round == length.ahead) {
        before = communicator_.traffic().by_phase();
        trial.busy = 0;
        trial.ends.push_back(communicator_.clock().moment());
      }
      const std::uint64_t end = (state_.progress.step / period() + 1) * period();
      while (state_.progress.step < end) trial.busy += step();
      if (round >= length.ahead) trial.ends.push_back(communicator_.clock().moment());
    }
    trial.sent = exchange_traffic(communicator_.traffic().by_phase() - before);
    return trial;
  }

 private:
  std::uint64_t period() const { return generation_.steps_per_exchange; }

  /// Makes a step; returns the seconds in which it computed.
  double step() {
    Progress& progress = state_.progress;
    StepSample& sample = generation_.sample;
    sample.timers.reset();
    if (period() > 1 && !generation_.scheme->awaits_result()) {
      exchange::run_part({}, sample.timers, StepPart::kExchange,
                         [&] { stop_.may_begin(generation_.scheme->communicates(generation_, progress.step + 1)); });
    }
    const StepOutcome outcome =
        generation_.scheme->step(generation_, {.learning_rate = generation_.config.optimizer.learning_rate,
                                               .density = generation_.config.compression.density,
                                               .free_steps = std::max<std::uint64_t>(traits_.overlap_steps, 1) - 1});
    progress.step += 1 + outcome.skipped;
    return computing_seconds(sample.timers);
  }

  comm::Communicator& communicator_;
  TrainingState state_;
  Generation generation_;
  StopAgreement stop_;
  UpdateTraits traits_;
};

/// Returns the plan of a run as far as its steps need it.
RunPlan plan_steps(const RunSpec& config, const layers::Network& network, const comm::Nodes& nodes) {
  RunPlan plan;
  plan.nodes = nodes;
  plan.rules = rules_on(config, nodes);
  plan.overlap_obstacle = overlap_obstacle(config, network.arena(), plan.rules);
  return plan;
}

/// Returns the latest of the ranks' moments at the end of a round.
Moment latest(const std::vector<RankTrial>& ranks, std::size_t end) {
  Moment moment;
  for (const RankTrial& rank : ranks) {
    moment.seconds = std::max(moment.seconds, rank.ends[end].seconds);
    moment.ideal = std::max(moment.ideal, rank.ends[end].ideal);
  }
  return moment;
}

}  // namespace

double TrialResult::seconds() const {
  return std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0) / static_cast<double>(step_seconds.size());
}

TrialResult mean(std::span<const TrialResult> parts, std::span<const double> shares) {
  TrialResult result;
  result.step_seconds.assign(parts.front().step_seconds.size(), 0.0);
  double busy = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TrialResult& part = parts[i];
    for (std::size_t round = 0; round < result.step_seconds.size(); ++round)
      result.step_seconds[round] += shares[i] * part.step_seconds[round];
    result.ideal_seconds += shares[i] * part.ideal_seconds;
    result.bytes_sent += shares[i] * part.bytes_sent;
    result.most_bytes += shares[i] * part.most_bytes;
    busy += shares[i] * part.seconds() * part.utilization;
  }
  if (result.seconds() > 0) result.utilization = busy / result.seconds();
  return result;
}

TrialResult run_trial(const RunSpec& config, const TrialModel& model, const TrialLength& length) {
  Job job{config, model.data, {}, ""};
  job.config.comm.threads_per_worker = 1;
  const int workers = static_cast<int>(config.comm.workers);
  const comm::Nodes nodes = given_nodes(config, workers);
  std::vector<RankTrial> ranks(static_cast<std::size_t>(workers));
  comm::run_local(workers, local_options(job.config, workers), [&](comm::Communicator& communicator) {
    omp_set_num_threads(1);
    std::optional<ClockPause> setting_up(std::in_place, communicator.clock());
    layers::Network network = model.make(communicator.rank());
    const RunPlan plan = plan_steps(job.config, network, nodes);
    RankSteps steps(job, plan, std::move(network), communicator);
    setting_up.reset();
    ranks[static_cast<std::size_t>(communicator.rank())] = steps.run(length);
  });
  const auto period = static_cast<double>(config.update.steps_per_exchange());
  const auto counted = static_cast<double>(length.counted);
  TrialResult result;
  for (std::size_t round = 0; round < length.counted; ++round) {
    const double seconds = latest(ranks, round + 1).seconds - latest(ranks, round).seconds;
    result.step_seconds.push_back(seconds / period);
  }
  const Moment begin = latest(ranks, 0), end = latest(ranks, length.counted);
  result.ideal_seconds = (end.ideal - begin.ideal) / (counted * period);
  for (const RankTrial& rank : ranks) {
    const double bytes = static_cast<double>(rank.sent.bytes_sent) / (counted * period);
    result.bytes_sent += bytes / workers;
    result.most_bytes = std::max(result.most_bytes, bytes);
    if (end.seconds > begin.seconds) result.utilization += rank.busy / (end.seconds - begin.seconds) / workers;
  }
  return result;
}

}  // namespace dragonn::trainer
