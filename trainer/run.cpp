// SPDX-License-Identifier: MIT
#include "trainer/run.h"

#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include "core/file.h"
#include "core/log.h"
#include "core/version.h"
#include "trainer/agreement.h"
#include "trainer/assemble.h"
#include "trainer/plan.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

/// The checkpoint to resume from, empty for a fresh start.
fs::path find_checkpoint(const std::string& resume, const RunFolder& folder) {
  if (resume.empty()) return {};
  if (resume == "auto") {
    const auto all = CheckpointStore(folder.checkpoints()).list();
    return all.empty() ? fs::path() : all.back();
  }
  const RunFolder other{resume};
  if (!fs::is_directory(other.checkpoints())) {
    if (!fs::is_directory(resume)) throw ConfigError(fmt::format("--resume {}: no such folder", resume));
    return resume;
  }
  const auto all = CheckpointStore(other.checkpoints()).list();
  if (all.empty())
    throw ConfigError(fmt::format("--resume {}: no complete checkpoint in {}", resume, other.checkpoints().string()));
  return all.back();
}

/// Moves what an earlier run left in the folder to folder.old-N.
void move_aside(const fs::path& folder) {
  if (!fs::exists(folder) || fs::is_empty(folder)) return;
  fs::path target;
  for (int n = 1; target.empty() || fs::exists(target); ++n) target = fmt::format("{}.old-{}", folder.string(), n);
  fs::rename(folder, target);
  log::warning(0, "{} holds an earlier run: moved to {}", folder.string(), target.string());
}

/// Rank 0: makes the folder ready; returns the checkpoint to resume from.
fs::path prepare_folder(const Job& job) {
  try {
    if (fs::exists(job.folder.path) && !fs::is_directory(job.folder.path)) {
      throw ConfigError(fmt::format("--output {} is a file, not a folder", job.folder.path.string()));
    }
    const fs::path checkpoint = find_checkpoint(job.resume, job.folder);
    if (checkpoint.empty()) move_aside(job.folder.path);
    fs::create_directories(job.folder.path);
    write_file_atomically(job.folder.config(), to_toml(job.config));
    log::set_file(job.folder.log());
    return checkpoint;
  } catch (const fs::filesystem_error& error) {
    throw SystemError(fmt::format("cannot prepare {}: {}", job.folder.path.string(), error.code().message()));
  }
}

}  // namespace

int run_training(const Job& job, comm::Communicator& communicator) {
  const int rank = communicator.rank();
  RunPlan plan;
  std::string checkpoint;
  all_ranks_or_none(communicator, [&] {
    plan = plan_run(job.config, job.data.train->sample_shape(), job.data.train->classes(), communicator.size());
  });
  check_resources(communicator, plan, job.config, job.folder.path);
  std::unique_ptr<Worker> worker;
  all_ranks_or_none(communicator,
                    [&] { worker = std::make_unique<Worker>(job.config, communicator, job.data, job.folder); });
  all_ranks_or_none(communicator, [&] {
    if (rank == 0) checkpoint = prepare_folder(job).string();
  });
  communicator.broadcast_text(0, checkpoint);

  log::info(rank, "dragonn {}: {} ({} parameters) on {} ({} samples), {} workers ({}), {}", version(),
            job.config.model.name, plan.parameters, job.config.data.name, job.data.train->size(), communicator.size(),
            communicator.backend(),
            job.config.compression.is_dense()
                ? "dense"
                : fmt::format("{} at density {}", job.config.compression.method, job.config.compression.density));
  if (!checkpoint.empty()) worker->resume(checkpoint);
  return worker->train();
}

void run_evaluation(const Job& job, const fs::path& checkpoint, comm::Communicator& communicator) {
  layers::Network network = make_network(job.config, *job.data.test);
  all_ranks_or_none(communicator, [&] {
    network.initialize(static_cast<std::uint64_t>(job.config.seed));
    load_model(find_checkpoint(checkpoint.string(), job.folder), network);
  });
  data::EvaluationLoader loader(job.data.test, static_cast<std::size_t>(job.config.train.eval_batch_size),
                                communicator.rank(), communicator.size());
  const EvaluationResult result = evaluate(communicator, network, loader);
  if (communicator.rank() != 0) return;
  fmt::print("{{\"split\": \"test\", \"samples\": {}, \"loss\": {}, \"accuracy\": {}}}\n", result.samples, result.loss,
             result.accuracy);
  std::fflush(stdout);
}

}  // namespace dragonn::trainer
