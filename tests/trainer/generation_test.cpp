// SPDX-License-Identifier: MIT
/// Generations: groups of workers that follow one another within a process.
#include "trainer/run/generation.h"

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "comm/local/local.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/training.h"

namespace dragonn::trainer::testing {
namespace {

/// The state that a group left, in memory.
class MemorySource final : public StateSource {
 public:
  explicit MemorySource(int workers) : ranks(static_cast<std::size_t>(workers)) {}
  const Archive& model() override { return shared; }
  const Archive& rank(int rank) override { return ranks.at(static_cast<std::size_t>(rank)); }
  std::string name() const override { return "memory"; }
  int workers() override { return static_cast<int>(ranks.size()); }

  Archive shared;
  std::vector<Archive> ranks;
};

/// A group of a run: its size, and the step at which it ends.
struct Group {
  int workers = 0;
  std::uint64_t last_step = 0;
};
using Groups = std::vector<Group>;

/// The states of the ranks, by rank: they outlive the groups of which they were members.
using States = std::vector<std::unique_ptr<TrainingState>>;

/// Trains as one group, from where another ended, and returns what it leaves.
std::unique_ptr<MemorySource> train_group(const Job& job, const Group& group, States& states, MemorySource* before) {
  auto left = std::make_unique<MemorySource>(group.workers);
  states.resize(static_cast<std::size_t>(group.workers));  // who leaves takes its state along
  comm::run_local(group.workers, local_options(job.config, group.workers), [&](comm::Communicator& communicator) {
    omp_set_num_threads(1);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    layers::Network untrained = make_network(job.config, *job.data.train);
    const RunPlan plan = plan_run(job.config, untrained, group.workers);
    if (!states[rank]) states[rank] = std::make_unique<TrainingState>(job.config, std::move(untrained));
    TrainingState& state = *states[rank];
    Training training(job, plan, state, communicator);
    if (before != nullptr) training.resume(*before);
    state.total_steps = group.last_step;
    training.train();
    const Buffer<float> mean = mean_statistics(communicator, state.network);
    training.generation().save(rank == 0 ? &left->shared : nullptr, left->ranks[rank], mean.host());
  });
  return left;
}

/// Checks that groups that follow one another in memory compute what runs compute that resume from checkpoints.
void check_generations(const std::function<RunSpec(const std::string& max_steps)>& config_of, const Groups& groups) {
  log::set_level(log::Level::kError);
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<TemporaryFolder>> folders;
  const RunSpec config = config_of("train.max_steps=0");
  const Job job{config, load_data(config), {folder.path()}, ""};
  States states;
  std::unique_ptr<MemorySource> left;
  std::filesystem::path checkpoint;
  for (const Group& group : groups) {
    CAPTURE(group.workers);
    left = train_group(job, group, states, left.get());
    folders.push_back(std::make_unique<TemporaryFolder>());
    quick_run(config_of(fmt::format("train.max_steps={}", group.last_step)), group.workers, folders.back()->path(),
              checkpoint.string());
    checkpoint = CheckpointStore(folders.back()->path() / "checkpoints").newest();
    CHECK(checkpoint.filename() == CheckpointStore::folder_name(group.last_step));
    CHECK(results(left->shared) == results(CheckpointStore::read_model(checkpoint)));
    for (int rank = 0; rank < group.workers; ++rank)
      CHECK(results(left->rank(rank)) == results(CheckpointStore::read_rank(checkpoint, rank)));
  }
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("generations: 4, 3 and 5 workers in one process have the bits of resumes from checkpoints") {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"compression.method=dense"},
           {"compression.method=topk", "schedule.name=cosine"},
           {"compression.method=dgc", "compression.overlap=true"},
           {"compression.method=oktopk"},
           {"compression.method=exdyna", "train.gradient_accumulation=2"},
           {"compression.method=topk", "update.scheme=local", "update.inner_steps=2", "optimizer.name=adamw"}}) {
    CAPTURE(overrides.front());
    check_generations(
        [&](const std::string& max_steps) {
          std::vector<std::string> all = overrides;
          all.insert(all.end(), {"data.train_samples=192", "train.eval_every_epochs=1", max_steps});
          return quick_config(all);
        },
        {{4, 3}, {3, 7}, {5, 12}});
  }
}

TEST_CASE("generations: statistics and the state along a text have the bits of resumes, for as many workers too") {
  const TemporaryFolder data;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcab "[i % 6];
  for (const char* file : {"train.txt", "valid.txt"}) std::ofstream(data.path() / file) << text;
  for (const std::string& model_and_data :
       {std::string("[model]\nname = \"senet18\"\nwidth = 0.1\n[data]\nname = \"synthetic_images\"\ntrain_samples = "
                    "64\ntest_samples = 8\nheight = 8\nwidth = 8\n"),
        fmt::format("[model]\nname = \"lstm_lm\"\nlayers = 1\nhidden = 6\n[data]\nname = \"text\"\nlevel = "
                    "\"character\"\nwindow = 5\npath = \"{}\"\n",
                    data.path().string())}) {
    CAPTURE(model_and_data);
    check_generations(
        [&](const std::string& max_steps) {
          const std::string rest =
              "[train]\nepochs = 9\nbatch_size = 2\neval_every_epochs = 0\n[compression]\nmethod = \"topk\"\ndensity = "
              "0.2\n[checkpoint]\nevery_epochs = 0\n[logging]\nlevel = \"error\"\n";
          return parse_config("device = \"cpu\"\n" + model_and_data + rest, "generations.toml",
                              std::vector<std::string>{max_steps});
        },
        {{2, 2}, {2, 4}, {1, 6}, {3, 8}});
  }
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
