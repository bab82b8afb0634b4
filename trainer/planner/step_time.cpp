// SPDX-License-Identifier: MIT
#include "trainer/planner/step_time.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <omp.h>

#include "comm/local/local.h"
#include "core/clock.h"
#include "core/timer.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/generation.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kAhead = 1, kSteps = 10;
constexpr double kSeconds = 10;

}  // namespace

StepTime measure_step(const RunSpec& config, const data::DatasetSplits& data) {
  Job job{config, data, {}, ""};
  // One worker for itself, by the wall clock.
  job.config.comm.workers = 1;
  job.config.network = {};
  job.config.compression.overlap = false;
  std::vector<double> times;
  comm::run_local(1, {}, [&](comm::Communicator& communicator) {
    omp_set_num_threads(static_cast<int>(job.config.comm.threads_per_worker));
    TrainingState state(job.config, make_network(job.config, *data.train));
    RunPlan plan;
    plan.rules = rules_on(job.config, comm::Nodes(1));
    Generation generation(job, plan, state, communicator);
    StepSample& sample = generation.sample;
    for (double sum = 0; times.size() < kAhead + kSteps && (times.size() < 2 || sum < kSeconds);) {
      sample.timers.reset();
      generation.compute_gradient();
      ++state.progress.step;
      times.push_back(sample.timers.seconds(StepPart::kForward) + sample.timers.seconds(StepPart::kBackward));
      sum += times.back();
    }
  });
  times.erase(times.begin());  // it makes plans
  std::ranges::sort(times);
  return {.seconds = times[times.size() / 2],
          .low = times.front(),
          .high = times.back(),
          .source = fmt::format("measured on this machine, {} threads a worker", config.comm.threads_per_worker)};
}

}  // namespace dragonn::trainer
