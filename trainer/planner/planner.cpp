// SPDX-License-Identifier: MIT
#include "trainer/planner/planner.h"

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "trainer/config/exchange_config.h"
#include "trainer/planner/screen.h"
#include "trainer/planner/stand_in.h"
#include "trainer/run/byte_budget.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer {
namespace {

void check(const RunSpec& config) {
  require(config.network.modelled().has_value(),
          "network.model = \"none\": a plan is for a network: expected network.model = \"alpha-beta\" with its rates, "
          "--network FILE or --measure");
  require(config.comm.workers > 1, "comm.workers = 1: a plan is for workers that exchange: expected 2 or more");
  require(config.comm.backend != Backend::kNccl,
          "comm.backend = \"nccl\": a plan is for messages between processes: expected local, mpi or tcp");
  require(!config.update.traits().skips_steps,
          "update.inner_seconds and update.inner_steps_from let workers leave out steps, whose time is what they say: "
          "expected neither");
}

StepTime step_time(const RunSpec& own, const PlanRequest& request) {
  const auto exactly = [](double seconds, const char* source) {
    return StepTime{.seconds = seconds, .low = seconds, .high = seconds, .source = source};
  };
  if (request.step_seconds) return exactly(*request.step_seconds, "given by --step-seconds");
  if (own.network.step_ms > 0) return exactly(own.network.step_ms / 1e3, "network.step_ms");
  if (own.network.compute == comm::Compute::kZero) return exactly(0, "network.compute = \"zero\"");
  return measure_step(own, load_data(own));
}

RunSpec at(double density, RunSpec config) {
  config.compression.density = density;
  return config;
}

/// The schedules of learning rates go by epochs: an epoch of so many steps gives each density its share of the run.
constexpr std::uint64_t kStepsPerEpoch = 1000;

class Planner {
 public:
  Planner(const ConfigVariants& variants, std::span<const Evidence> table, const PlanRequest& request)
      : variants_(variants),
        request_(request),
        own_(variants.with({})),
        network_((check(own_), make_network(own_))),
        table_(table) {}

  Plan make() {
    Plan plan{.network = own_.network.describe(),
              .workers = static_cast<int>(own_.comm.workers),
              .step = step_time(own_, request_),
              .most_worse_percent = request_.candidates.most_worse_percent,
              .unmeasured = request_.candidates.unmeasured};
    step_ms_ = 1e3 * plan.step.seconds;
    plan.candidates = list_candidates(variants_, network_.arena(), table_, request_.candidates);
    plan.has_evidence = std::ranges::any_of(
        plan.candidates, [](const Candidate& candidate) { return candidate.convergence == Convergence::kMeasured; });
    Screen screen(network_);
    const std::size_t refused = std::erase_if(plan.candidates, [&](Candidate& candidate) {
      try {
        candidate.predicted_seconds = 0;
        for (const DensityShare& part : parts_of(candidate.config))
          candidate.predicted_seconds += part.share * screen.seconds(at(part.density, timed(candidate.config)));
        return false;
      } catch (const ConfigError&) {
        if (candidate.is_own) throw;
        return true;  // its parts do not fit this model
      }
    });
    const TryCandidate try_candidate = [&](const Candidate& candidate, const TrialLength& length) {
      return try_config(candidate.config, length);
    };
    plan.search = search(plan.candidates, try_candidate, request_.search);
    plan.search.listed += refused;
    plan.search.refused += refused;
    choose(plan);
    const Proposal& first = plan.proposals.empty() ? plan.own : plan.proposals.front();
    plan.bounds = find_bounds(timed(first.candidate.config),
                              [&](const RunSpec& config) { return run_parts(config, short_trial(config)).seconds(); });
    return plan;
  }

 private:
  TrialModel model() const {
    return {[this](int rank) { return stand_in_network(network_, rank); },
            stand_in_data(own_.train.gradient_accumulation)};
  }
  /// Returns a config with the step's time.
  RunSpec timed(RunSpec config) const {
    config.network.step_ms = step_ms_;
    return config;
  }
  comm::Nodes nodes_of(const RunSpec& config) const { return given_nodes(config, static_cast<int>(own_.comm.workers)); }
  /// Returns a config with the first density that its budget of bytes allows.
  RunSpec spent(RunSpec config) const {
    if (const auto budget = byte_budget(config, network_, kStepsPerEpoch, nodes_of(config))) {
      trainer::check(*budget, config);
      apply(*budget, config);
    }
    return config;
  }
  std::vector<DensityShare> parts_of(const RunSpec& config) const {
    return density_shares(spent(config), kStepsPerEpoch);
  }
  TrialResult try_config(const RunSpec& config, const TrialLength& length) const {
    return run_parts(timed(config), length);
  }
  /// Tries each density of a run. Returns the mean over its steps.
  TrialResult run_parts(const RunSpec& config, const TrialLength& length) const {
    std::vector<TrialResult> results;
    std::vector<double> shares;
    for (const DensityShare& part : parts_of(config)) {
      results.push_back(run_trial(at(part.density, config), model(), length));
      shares.push_back(part.share);
    }
    return mean(results, shares);
  }

  /// Fills in the config as it is, and the fastest of each family that may be proposed.
  void choose(Plan& plan) const {
    std::vector<std::string> families;
    for (const Candidate& candidate : plan.candidates) {
      if (candidate.is_own) plan.own = proposal(candidate, plan.step);
      const bool is_known = candidate.convergence != Convergence::kUnknown || request_.candidates.unmeasured;
      const bool is_good =
          candidate.evidence == nullptr || candidate.evidence->worse_percent <= request_.candidates.most_worse_percent;
      if (!candidate.trial || !is_known || !is_good || std::ranges::count(families, candidate.family) ||
          plan.proposals.size() == request_.proposals)
        continue;
      Proposal made = proposal(candidate, plan.step);
      if (request_.memory_bytes && static_cast<double>(made.memory_bytes) > *request_.memory_bytes) continue;
      families.push_back(candidate.family);
      plan.proposals.push_back(std::move(made));
    }
  }

  Proposal proposal(const Candidate& candidate, const StepTime& step) const {
    Proposal made{.candidate = candidate,
                  .settings = variants_.needed(candidate.settings),
                  .can_override = variants_.can_override(candidate.settings),
                  .seconds = candidate.seconds()};
    made.low = made.high = made.seconds;
    if (candidate.trial) {
      made.low = std::ranges::min(candidate.trial->step_seconds);
      made.high = std::ranges::max(candidate.trial->step_seconds);
    }
    made.low -= step.seconds - step.low;
    made.high += step.high - step.seconds;
    const RunSpec config = spent(candidate.config);
    made.memory_bytes = plan_run(config, network_, nodes_of(config)).memory_total();
    return made;
  }

  const ConfigVariants& variants_;
  const PlanRequest& request_;
  RunSpec own_;
  layers::Network network_;
  std::span<const Evidence> table_;
  double step_ms_ = 0;
};

}  // namespace

Plan make_plan(const ConfigVariants& variants, std::span<const Evidence> table, const PlanRequest& request) {
  return Planner(variants, table, request).make();
}

}  // namespace dragonn::trainer
