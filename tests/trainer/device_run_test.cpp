// SPDX-License-Identifier: MIT
/// Tests of whole runs on a device: they end where the CPU's end, to rounding; overlapped or resumed, with the same
/// bits.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/file.h"
#include "tests/support/devices.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/config.h"

namespace dragonn::trainer::testing {
namespace {

using Overrides = std::vector<std::string>;

/// Returns ||a - b|| / ||b||.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

/// The relative difference that sums in another order make: some 1e-7 of a gradient, which adds up over a few steps.
constexpr double kRounding = 1e-5;
/// The share of a gradient by which it changes if rounding moves a unit next to a kink of ReLU to its other side
/// (measured, tests/layers/models_test.cpp). Algorithms of convolutions round differently, by up to some 1e-6.
constexpr double kKinks = 3e-2;
/// The difference that an entry next to the threshold makes if one device sends it a step before the other: about 1e-4.
constexpr double kOtherSelection = 1e-3;

/// Returns the final parameters of a run of any config, in a folder of its own.
std::vector<float> parameters_of(const RunSpec& config, int world_size) {
  const TemporaryFolder folder;
  return quick_run(config, world_size, folder.path()).parameters;
}

/// Parameters after six steps. @return their distance from those of the CPU.
double distance_from_cpu(const Device& device, const Overrides& overrides, int world_size) {
  return relative_difference(parameters_of(quick_config(on_device(device, overrides)), world_size),
                             parameters_of(quick_config(on_device({}, overrides)), world_size));
}

/// Small networks of every family, with data of their kind.
RunSpec task(const std::string& model_and_data, const std::filesystem::path& data, const Overrides& overrides) {
  const std::string common = R"(
[train]
epochs = 9
batch_size = 3
max_steps = 4
eval_every_epochs = 0
[optimizer]
name = "sgd"
learning_rate = 0.02
momentum = 0.5
[compression]
method = "topk"
density = 0.1
[checkpoint]
every_epochs = 0
[logging]
level = "error"
)";
  return parse_config(fmt::format("seed = 5\n{}path = \"{}\"\n", model_and_data, data.string()) + common, "task.toml",
                      overrides);
}

const std::string kImages = image_data(6, 60, 12);
const std::string kConvolutions = R"(
[model]
name = "resnet20")" + kImages;
const std::string kAttention = R"(
[model]
name = "vit"
patch = 2
layers = 1
hidden = 8
heads = 2)" + kImages;
void write_text(const std::filesystem::path& folder) {
  for (const char* name : {"train.txt", "valid.txt"}) {
    std::ofstream file(folder / name);
    for (int i = 0; i < 300; ++i) file << "abcab "[i * i % 6];
  }
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

DRAGONN_DEVICE_TEST("a run of every method ends where the CPU's ends") {
  int world_size = 2;
  for (const std::string& method : method_names()) {
    CAPTURE(method);
    const double distance = distance_from_cpu(device, {"compression.method=" + method}, world_size);
    CHECK(distance < (method == "dense" ? kRounding : kOtherSelection));
    world_size = 5 - world_size;  // 2 or 3
  }
}

DRAGONN_DEVICE_TEST(
    "a run of every optimizer ends where the CPU's ends, with vectors sparsified and the gradient clipped") {
  for (const std::string& optimizer : Registry<optim::OptimizerEntry>::instance().names()) {
    for (const std::string clip : {"local", "global"}) {
      CAPTURE(optimizer);
      CAPTURE(clip);
      CHECK(distance_from_cpu(device,
                              {"optimizer.name=" + optimizer, "compression.method=topk",
                               "compression.include_vectors=yes", "train.clip=" + clip, "train.clip_norm=0.5"},
                              2) < kOtherSelection);
    }
  }
}

DRAGONN_DEVICE_TEST("what a run is told means the same on every device") {
  const std::vector<Overrides> cases{
      {"model.dropout=0.4", "train.gradient_accumulation=2", "compression.method=topk"},
      {"train.label_smoothing=0.1", "optimizer.weight_decay=0.01"},
      {"compression.method=topk", "compression.acc_form=folded", "optimizer.momentum=0.0", "schedule.name=constant"},
      {"compression.method=dgc", "optimizer.nesterov=true", "compression.momentum_correction.masking=false"},
      {"compression.method=topk", "train.clip=local_sqrt_workers", "train.clip_norm=0.1", "compression.memory=none"},
      {"compression.method=topk", "compression.bucket=model", "compression.allgather.decode=dense"},
      {"compression.method=topk", "update.scheme=local", "update.inner_steps=2"},
      {"compression.method=gtopk", "compression.gtopk.put_back=naive"}};
  for (const Overrides& overrides : cases) {
    CAPTURE(overrides.front());
    CAPTURE(overrides.back());
    CHECK(distance_from_cpu(device, overrides, 3) < kOtherSelection);
  }
}

DRAGONN_DEVICE_TEST("convolutions with batch norm, attention and recurrent layers train where the CPU trains") {
  const TemporaryFolder data;
  write_text(data.path());
  for (const std::string& model : {kConvolutions, kAttention, std::string(kQuickText)}) {
    CAPTURE(model);
    for (const std::string method : {"dense", "topk"}) {
      const Overrides overrides{"compression.method=" + method};
      const std::vector<float> expected = parameters_of(task(model, data.path(), on_device({}, overrides)), 2);
      double allowed = method == "dense" ? kRounding : kOtherSelection;
      if (model == kConvolutions) {
        const std::vector<float> begin =
            parameters_of(task(model, data.path(), on_device({}, {"optimizer.learning_rate=1e-9"})), 2);
        allowed = std::max(allowed, kKinks * relative_difference(begin, expected));
      }
      CHECK(relative_difference(parameters_of(task(model, data.path(), on_device(device, overrides)), 2), expected) <
            allowed);
    }
  }
}

DRAGONN_DEVICE_TEST("a step in bf16 goes where the CPU's goes, and recorded steps have the bits of others") {
  if (device.is_cpu()) return;
  const auto run = [&](const Device& where, Overrides overrides) {
    overrides.push_back("compression.method=dense");
    return parameters_of(task(kConvolutions, {}, on_device(where, overrides)), 2);
  };
  const std::vector<float> expected = run({}, {"train.max_steps=1"});
  const std::vector<float> begin = run({}, {"train.max_steps=1", "optimizer.learning_rate=1e-9"});
  const std::vector<float> found = run(device, {"train.max_steps=1", "device_math=bf16"});
  const double distance = relative_difference(found, expected);
  CHECK(distance > kRounding);
  // Factors of 8 bits turn the signs of activations next to 0, a few of a thousand in each of twenty layers: the
  // gradient is off by a fifth.
  CHECK(distance < relative_difference(begin, expected) / 2);
  CHECK(run(device, {"device_math=bf16"}) == run(device, {"device_math=bf16", "device_graphs=false"}));
}

DRAGONN_DEVICE_TEST("overlap changes no bit of a run, with micro-batches or without") {
  for (const std::string method : {"dense", "topk", "oktopk", "signsgd"}) {
    for (const int micro_batches : {1, 2}) {
      CAPTURE(method);
      CAPTURE(micro_batches);
      Overrides overrides = on_device(device, {"compression.method=" + method, "compression.bucket=tensor",
                                               fmt::format("train.gradient_accumulation={}", micro_batches)});
      const std::vector<float> expected = parameters_of(quick_config(overrides), 3);
      overrides.push_back("compression.overlap=true");
      CHECK(parameters_of(quick_config(overrides), 3) == expected);
    }
  }
}

DRAGONN_DEVICE_TEST("a run goes on from a checkpoint with the bits of the whole one, with every method") {
  for (const std::string& method : method_names()) {
    CAPTURE(method);
    const Overrides overrides = on_device(device, {"compression.method=" + method, "optimizer.name=sgd"});
    Overrides half = overrides;
    half.push_back("train.max_steps=3");
    const TemporaryFolder folder;
    quick_run(quick_config(half), 2, folder.path());
    CHECK(quick_run(quick_config(overrides), 2, folder.path(), "auto").parameters ==
          parameters_of(quick_config(overrides), 2));
  }
}

DRAGONN_DEVICE_TEST("evaluations change nothing") {
  const Overrides plain = on_device(device, {"compression.method=topk"});
  Overrides evaluated = plain;
  evaluated.insert(evaluated.end(), {"train.eval_every_epochs=1", "data.train_samples=12"});
  Overrides unseen = plain;
  unseen.push_back("data.train_samples=12");
  CHECK(parameters_of(quick_config(evaluated), 2) == parameters_of(quick_config(unseen), 2));
}

DRAGONN_DEVICE_TEST("a gradient that is not finite ends the run on all ranks, or the step where the run says so") {
  const Overrides diverging = on_device(device, {"compression.method=topk", "optimizer.learning_rate=1e30"});
  for (const bool overlap : {false, true}) {
    Overrides overrides = diverging;
    overrides.push_back(fmt::format("compression.overlap={}", overlap));
    CHECK_THROWS_WITH(parameters_of(quick_config(overrides), 3), doctest::Contains("a worker's gradient of "));
  }
  Overrides skipping = diverging;
  skipping.push_back("train.non_finite=skip");
  const TemporaryFolder folder;
  CHECK(quick_run(quick_config(skipping), 3, folder.path()).exit_code == 0);
}

DRAGONN_DEVICE_TEST("costs measured on a device decide for all ranks alike which tensors are sparsified") {
  const TemporaryFolder folder;
  const RunSpec config =
      quick_config(on_device(device, {"compression.method=topk", "compression.select_tensors=cost_model"}));
  CHECK(quick_run(config, 3, folder.path()).exit_code == 0);  // replicas are compared at its end
  CHECK(std::filesystem::exists(folder.path() / "profile.json"));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
