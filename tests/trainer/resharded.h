// SPDX-License-Identifier: MIT
/// Ranks that have taken over what another number of workers saved, before they train.
#pragma once

#include <filesystem>
#include <functional>

#include "tests/trainer/quick_run.h"
#include "trainer/run/generation.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer::testing {

/// Runs body(rank, generation) on `ranks` local ranks of this config, in threads, each behind reshard_from() of a
/// checkpoint.
inline void on_resharded(const RunSpec& config, int ranks, const std::filesystem::path& checkpoint,
                         const std::function<void(std::size_t, Generation&)>& body) {
  const Job job{config, load_data(config), {checkpoint.parent_path().parent_path()}, ""};
  comm::run_local(ranks, local_options(config, ranks), [&](comm::Communicator& communicator) {
    layers::Network network = make_network(config, *job.data.train);
    const RunPlan plan = plan_run(config, network, communicator.size());
    TrainingState state(config, std::move(network));
    Generation generation(job, plan, state, communicator);
    CheckpointSource source(checkpoint);
    generation.reshard_from(source);
    body(static_cast<std::size_t>(communicator.rank()), generation);
  });
}

}  // namespace dragonn::trainer::testing
