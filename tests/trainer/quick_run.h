// SPDX-License-Identifier: MIT
/// Runs of a few steps of a tiny network on synthetic images, for tests of whole runs.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "comm/local/local.h"
#include "core/log.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/wav_file.h"
#include "trainer/config/config.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/run.h"

namespace dragonn::trainer::testing {

/// A folder in memory, if the system has one there: every run syncs its checkpoints, and there are thousands of runs.
class TemporaryFolder : public dragonn::test::TemporaryFolder {
 public:
  TemporaryFolder() : dragonn::test::TemporaryFolder(parent()) {}

 private:
  static std::filesystem::path parent() {
    const std::filesystem::path memory = "/dev/shm";
    return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }
};

/// A network of 1,000 parameters with every kind of parameter: matrices, biases. It runs on the CPU even if there is a
/// GPU, so that a case is the same everywhere; cases for a GPU say so (on_device).
inline constexpr const char* kQuickConfig = R"(
seed = 7
device = "cpu"
[model]
name = "mlp"
hidden = [12, 10]
[data]
name = "synthetic_images"
train_samples = 96
test_samples = 24
height = 6
width = 6
channels = 1
classes = 4
[train]
epochs = 2
batch_size = 3
max_steps = 6
eval_every_epochs = 0
[optimizer]
name = "sgd"
learning_rate = 0.05
momentum = 0.5
[compression]
method = "dense"
density = 0.1
[checkpoint]
every_epochs = 0
[logging]
every_steps = 1
level = "error"
)";

/// Returns these overrides, and the one that makes a run compute on the device.
inline std::vector<std::string> on_device(const Device& device, std::vector<std::string> overrides = {}) {
  overrides.push_back(device.is_cpu() ? "device=cpu" : "device=cuda");
  return overrides;
}

/// Returns some overrides, and more behind them.
inline std::vector<std::string> with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

inline RunSpec quick_config(const std::vector<std::string>& overrides = {}) {
  return parse_config(kQuickConfig, "quick.toml", overrides);
}

/// Returns the table of square images of four classes.
inline std::string image_data(int side, int train_samples, int test_samples) {
  return fmt::format(
      "\n[data]\nname = \"synthetic_images\"\ntrain_samples = {}\ntest_samples = {}\nheight = {}\nwidth = {}\n"
      "classes = 4\n",
      train_samples, test_samples, side, side);
}

/// A small language model, on characters of train.txt and valid.txt.
inline constexpr const char* kQuickText = R"(
[model]
name = "lstm_lm"
layers = 2
hidden = 6
[data]
name = "text"
level = "character"
window = 5
)";

/// Writes `count` utterances, and train.tsv and test.tsv that name all of them. Utterance i has 0.1 + 0.01 i seconds.
inline void write_utterances(const std::filesystem::path& folder, int count) {
  std::string manifest;
  for (int i = 0; i < count; ++i) {
    data::Samples samples(static_cast<std::size_t>(1600 + 160 * i));
    for (std::size_t s = 0; s < samples.size(); ++s) samples[s] = static_cast<std::int16_t>(s * s % (100 + 7 * i));
    const std::string name = fmt::format("u{}.wav", i);
    data::write_bytes(folder / name, data::wav_file(samples, 16000));
    manifest += name + (i % 2 == 0 ? "\tA\n" : "\tB\n");
  }
  for (const char* name : {"train.tsv", "test.tsv"}) std::ofstream(folder / name) << manifest;
}

/// The outcome of a run. Every run ends with a comparison of all replicas' bits (check_replicas).
struct QuickResult {
  int exit_code = 0;
  std::vector<float> parameters;
};

inline QuickResult quick_run(const RunSpec& config, int world_size, const std::filesystem::path& folder,
                             const std::string& resume = "") {
  log::set_level(log::Level::kError);
  Job job{config, load_data(config), {folder}, resume};
  QuickResult result;
  comm::run_local(world_size, local_options(config, world_size), [&](comm::Communicator& communicator) {
    const int code = run_training(job, communicator);
    if (communicator.rank() == 0) result.exit_code = code;
  });
  log::set_file({});  // the folder may go before the next run opens its own
  // The last checkpoint holds the final parameters; every run writes one at its end.
  const auto all = CheckpointStore(job.folder.checkpoints()).list();
  const Archive model = CheckpointStore::read_model(all.back());
  result.parameters = model.get_vector<float>("parameters");
  return result;
}

/// Returns the fields that hold no time and no config, nor the marks of a checkpoint.
inline std::map<std::string, Archive::Field> results(const Archive& archive) {
  auto fields = archive.fields();
  std::erase_if(fields, [](const auto& field) {
    const std::string& name = field.first;
    return name == "config" || name == "progress/world_size" || name.starts_with("checkpoint/") ||
           name.find("seconds") != std::string::npos || name.find("/time") != std::string::npos;
  });
  return fields;
}

}  // namespace dragonn::trainer::testing
