// SPDX-License-Identifier: MIT
/// Golden losses: those of 20 steps of every model family against those of an earlier version, in golden/FAMILY.txt.
/// DRAGONN_WRITE_GOLDEN=1 writes these files anew.
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "kernels/nn/onednn.h"
#include "layers/network.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

using Losses = std::vector<double>;

/// The tolerance. Sums in another order, on another processor, change a loss by about 1e-7 at first, and steps enlarge
/// that.
constexpr double kTolerance = 1e-3;
constexpr std::size_t kSteps = 20;

const std::string kImages = image_data(8, 80, 8), kLargeImages = image_data(32, 80, 8),
                  kLargestImages = image_data(64, 80, 8);

/// A model's name without its depth, settings of a small one, and data for it, in TOML. The learning rate is so low
/// that steps do not enlarge what rounding differs by: batch norm over few values and CTC do at higher ones.
struct Family {
  std::string name;
  std::string model_and_data;
  double learning_rate = 2e-3;
  bool needs_avx512 = false;  ///< the curve was written there, and is another one with other instructions
};

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"mlp", "[model]\nname = \"mlp\"\nhidden = [16, 12]" + kImages},
      {"resnet", "[model]\nname = \"resnet20\"" + kImages},
      {"vgg", "[model]\nname = \"vgg11\"" + kLargeImages, 1e-5},
      {"alexnet", "[model]\nname = \"alexnet\"\nwidth = 0.05" + kLargestImages, 1e-4},
      {"googlenet", "[model]\nname = \"googlenet\"\nwidth = 0.1" + kImages, 2e-3, true},
      {"inception_v", "[model]\nname = \"inception_v4\"\nwidth = 0.05" + kLargeImages, 1e-5, true},
      {"senet", "[model]\nname = \"senet18\"\nwidth = 0.1" + kImages},
      {"vit", "[model]\nname = \"vit\"\npatch = 2\nlayers = 2\nhidden = 8\nheads = 2" + kImages},
      {"mlp_mixer", "[model]\nname = \"mlp_mixer\"\npatch = 2\nlayers = 2\nhidden = 8" + kImages},
      {"lstm_lm",
       "[model]\nname = \"lstm_lm\"\nlayers = 2\nhidden = 8\n"
       "[data]\nname = \"text\"\nlevel = \"character\"\nwindow = 6\n"},
      {"bert",
       "[model]\nname = \"bert\"\nlayers = 2\nhidden = 8\nheads = 2\n"
       "[data]\nname = \"masked_text\"\nlevel = \"character\"\nwindow = 8\n"},
      {"gpt",
       "[model]\nname = \"gpt2\"\nlayers = 2\nhidden = 8\nheads = 2\npositions = 8\n"
       "[data]\nname = \"text\"\nlevel = \"character\"\nwindow = 8\n"},
      {"lstm_speech",
       "[model]\nname = \"lstm_speech\"\nlayers = 1\nhidden = 6\nchannels = 2\nlookahead = 2\n"
       "[data]\nname = \"speech\"\nalphabet = \"AB\"\nframe_multiple = 8\n",
       2e-5},
      {"xml_linear",
       "[model]\nname = \"xml_linear\"\n[data]\nname = \"synthetic_xc\"\ninputs = 16\nlabels = 20\n"
       "labels_per_point = 3\ntrain_samples = 80\ntest_samples = 8\n"}};
  return all;
}

/// Texts and sounds, the same ones everywhere.
void write_data(const std::filesystem::path& folder) {
  for (const char* name : {"train.txt", "valid.txt"}) {
    std::ofstream file(folder / name);
    for (int i = 0; i < 900; ++i) file << "abcab "[i * i % 7 % 6];
  }
  write_utterances(folder, 12);
}

Losses losses_of(const Family& family) {
  const TemporaryFolder data, run;
  write_data(data.path());
  const std::string toml =
      fmt::format("seed = 11\ndevice = \"cpu\"\n{}path = \"{}\"\n", family.model_and_data, data.path().string()) +
      fmt::format("[train]\nepochs = 100\nbatch_size = 4\neval_batch_size = 4\nmax_steps = {}\n", kSteps) + R"(
eval_every_epochs = 0
[optimizer]
name = "sgd"
momentum = 0.9
[compression]
method = "dense"
[checkpoint]
every_epochs = 0
[logging]
every_steps = 1
level = "error"
)";
  const std::vector<std::string> rate{fmt::format("optimizer.learning_rate={}", family.learning_rate)};
  REQUIRE(quick_run(parse_config(toml, family.name + ".toml", rate), 1, run.path()).exit_code == 0);
  Losses losses;
  std::ifstream lines(run.path() / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.at("kind") == "step") losses.push_back(json.at("loss"));
  }
  return losses;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kRunsTwice = false;  // sanitizers see nothing new the second time
#else
constexpr bool kRunsTwice = true;
#endif

std::filesystem::path golden_file(const Family& family) {
  return std::filesystem::path(DRAGONN_SOURCE_DIR) / "tests/trainer/golden" / (family.name + ".txt");
}

void write_golden(const Family& family, const Losses& losses) {
  std::ofstream file(golden_file(family));
  for (const double loss : losses) file << fmt::format("{:.9g}\n", loss);
}

Losses read_golden(const Family& family) {
  Losses losses;
  std::ifstream file(golden_file(family));
  for (double loss = 0; file >> loss;) losses.push_back(loss);
  return losses;
}

std::string without_depth(std::string model) {
  model.erase(model.find_last_not_of("0123456789") + 1);
  return model;
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("golden: the losses of every model family are those of earlier versions, and have the same bits twice") {
    for (const Family& family : families()) {
      CAPTURE(family.name);
      const Losses losses = losses_of(family);
      if (kRunsTwice) CHECK(losses_of(family) == losses);
      if (std::getenv("DRAGONN_WRITE_GOLDEN")) write_golden(family, losses);
      const Losses golden = read_golden(family);
      REQUIRE(golden.size() == kSteps);
      REQUIRE(losses.size() == kSteps);
      // Batch norm over few channels enlarges what other instructions round otherwise, from the second step on.
      const bool leaves = family.needs_avx512 && !kernels::onednn::uses_avx512();
      const std::size_t compared = leaves ? 1 : kSteps;
      for (std::size_t step = 0; step < compared; ++step) {
        CAPTURE(step + 1);
        CHECK(losses[step] == doctest::Approx(golden[step]).epsilon(kTolerance));
      }
    }
  }

  TEST_CASE("golden: every registered model belongs to a family with a curve") {
    std::set<std::string> known;
    for (const Family& family : families()) known.insert(family.name);
    for (const std::string& model : Registry<layers::ModelEntry>::instance().names()) {
      CAPTURE(model);
      CHECK(known.contains(without_depth(model)));
    }
  }
}

}  // namespace dragonn::trainer::testing
