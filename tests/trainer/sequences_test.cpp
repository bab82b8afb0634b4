// SPDX-License-Identifier: MIT
/// Whole runs on data that are not images: text, speech, points with sets of labels.
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "tests/support/devices.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer {
namespace {

using testing::on_device;
using testing::quick_run;
using testing::QuickResult;
using testing::TemporaryFolder;

/// A kind of data with a small model for it.
struct Task {
  std::string name;
  std::string model_and_data;  ///< TOML
  std::string quality;         ///< the metric that its evaluation reports first
};

const Task kText{"text", testing::kQuickText, "perplexity"};
const Task kSpeech{"speech", R"(
[model]
name = "lstm_speech"
layers = 1
hidden = 5
channels = 2
lookahead = 2
[data]
name = "speech"
alphabet = "AB"
frame_multiple = 8
)",
                   "character_error_rate"};
const Task kPoints{"points", R"(
[model]
name = "xml_linear"
[data]
name = "synthetic_xc"
inputs = 16
labels = 20
labels_per_point = 3
train_samples = 60
test_samples = 11
)",
                   "precision_at_1"};

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

/// Writes files for all tasks.
void write_data(const std::filesystem::path& folder) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abcab "[i % 6];
  write_text(folder / "train.txt", text + text + text);
  write_text(folder / "valid.txt", text);
  testing::write_utterances(folder, 24);
}

RunSpec config_of(const Task& task, const std::filesystem::path& folder, std::vector<std::string> overrides) {
  const std::string toml = "seed = 3\n" + task.model_and_data + fmt::format("path = \"{}\"\n", folder.string()) + R"(
[train]
epochs = 9
batch_size = 2
eval_batch_size = 3
max_steps = 7
eval_every_epochs = 0
[optimizer]
name = "sgd"
learning_rate = 0.1
[compression]
method = "topk"
density = 0.2
memory = "residual"
[checkpoint]
every_epochs = 0
[logging]
every_steps = 1
level = "error"
)";
  return parse_config(toml, task.name + ".toml", overrides);
}

TEST_SUITE("trainer") {
  DRAGONN_DEVICE_TEST("sequences: a run on any kind of data goes on from a checkpoint as if it had not been stopped") {
    const TemporaryFolder data;
    write_data(data.path());
    for (const Task& task : {kText, kSpeech, kPoints}) {
      for (const int world : {1, 3}) {
        CAPTURE(task.name);
        CAPTURE(world);
        const TemporaryFolder whole, parts;
        const QuickResult expected = quick_run(config_of(task, data.path(), on_device(device)), world, whole.path());
        quick_run(config_of(task, data.path(), on_device(device, {"train.max_steps=4"})), world, parts.path());
        const QuickResult resumed =
            quick_run(config_of(task, data.path(), on_device(device)), world, parts.path(), "auto");
        CHECK(resumed.parameters == expected.parameters);
        const std::string summary = read_text_file(whole.path() / "summary.json");
        CHECK(summary.find('"' + task.quality + '"') != std::string::npos);
      }
    }
  }

  DRAGONN_DEVICE_TEST("sequences: a run on any kind of data goes on with other workers, and resumes invisibly again") {
    const TemporaryFolder data;
    write_data(data.path());
    for (const Task& task : {kText, kSpeech, kPoints}) {
      for (const auto& [from, to] : {std::pair{1, 3}, std::pair{3, 2}}) {
        CAPTURE(task.name);
        CAPTURE(from);
        const TemporaryFolder whole, parts;
        const auto config = [&](const char* steps) {
          return config_of(task, data.path(), on_device(device, {steps, "compression.memory=momentum_correction"}));
        };
        for (const TemporaryFolder* folder : {&whole, &parts})
          quick_run(config("train.max_steps=3"), from, folder->path());
        const QuickResult expected = quick_run(config("train.max_steps=7"), to, whole.path(), "auto");
        quick_run(config("train.max_steps=5"), to, parts.path(), "auto");
        CHECK(quick_run(config("train.max_steps=7"), to, parts.path(), "auto").parameters == expected.parameters);
      }
    }
  }

  DRAGONN_DEVICE_TEST("sequences: overlap changes nothing") {
    const TemporaryFolder data;
    write_data(data.path());
    for (const Task& task : {kText, kSpeech, kPoints}) {
      CAPTURE(task.name);
      const TemporaryFolder plain, overlapped;
      const QuickResult expected = quick_run(config_of(task, data.path(), on_device(device)), 2, plain.path());
      const QuickResult got = quick_run(config_of(task, data.path(), on_device(device, {"compression.overlap=true"})),
                                        2, overlapped.path());
      CHECK(got.parameters == expected.parameters);
    }
  }

  DRAGONN_DEVICE_TEST("sequences: what backward computes again changes nothing, and overlap with it") {
    const TemporaryFolder data;
    write_data(data.path());
    const Task transformer{"transformer", R"(
[model]
name = "bert"
layers = 2
hidden = 8
heads = 2
dropout = 0.2
[data]
name = "text"
level = "character"
window = 5
)",
                           "perplexity"};
    const auto run = [&](const std::vector<std::string>& overrides) {
      const TemporaryFolder folder;
      return quick_run(config_of(transformer, data.path(), on_device(device, overrides)), 2, folder.path()).parameters;
    };
    const auto expected = run({});
    CHECK(run({"train.recompute=elementwise"}) == expected);
    CHECK(run({"train.recompute=block", "compression.overlap=true"}) == expected);
  }

  TEST_CASE("sequences: a model and data that do not fit are refused by name") {
    const TemporaryFolder data, run;
    write_data(data.path());
    const auto message = [&](const Task& task, std::vector<std::string> overrides) {
      return data::error_of<ConfigError>(
          [&] { quick_run(config_of(task, data.path(), std::move(overrides)), 1, run.path()); });
    };
    CHECK(data::contains(message(kText, {"train.gradient_accumulation=2"}), "train.gradient_accumulation = 2"));
    CHECK(data::contains(message(kText, {"train.recompute=block"}),
                         "train.recompute = \"block\": the network has no blocks; expected \"none\""));
    const Task images{"images", "[model]\nname = \"lstm_lm\"\n[data]\nname = \"synthetic_images\"\n", ""};
    CHECK(data::contains(message(images, {}), "lstm_lm"));
    const Task classes{"classes", "[model]\nname = \"mlp\"\n[data]\nname = \"synthetic_xc\"\ninputs = 8\n", ""};
    CHECK(data::contains(message(classes, {}), "model 'mlp' learns one class per sample, but data 'synthetic_xc'"));
  }
}

}  // namespace
}  // namespace dragonn::trainer
