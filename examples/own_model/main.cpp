// SPDX-License-Identifier: MIT
/// Example: trains a model of one's own on two workers, a perceptron whose blocks have shortcuts.
/// Usage: `own_model RUN_FOLDER`.
#include <cstdio>
#include <exception>
#include <string>

#include "comm/local/local.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "trainer/config/assemble.h"
#include "trainer/run.h"

namespace {

using namespace dragonn;

/// Blocks of x + relu(W x + b), all of one width, between two linear layers.
std::unique_ptr<layers::LayerGraph> make_shortcuts(const Settings& settings, const layers::ModelContext& context) {
  const std::int64_t width = settings.integer("width");
  auto graph = std::make_unique<layers::LayerGraph>(context.sample_shape);
  layers::NodeId last = graph->add("flatten", layers::flatten(), {layers::LayerGraph::input()});
  last = graph->add("input", layers::linear({.outputs = width}), {last});
  for (std::int64_t i = 0; i < settings.integer("blocks"); ++i) {
    const std::string name = "block" + std::to_string(i);
    layers::NodeId inner = graph->add(name, layers::linear({.outputs = width}), {last});
    inner = graph->add(name + ".relu", layers::activation(kernels::Activation::kRelu), {inner});
    last = graph->add(name + ".add", layers::residual_add(false), {last, inner});
  }
  graph->add("output", layers::linear({.outputs = context.classes}), {last});
  return graph;
}

const Registration<layers::ModelEntry> registration{
    {{"shortcuts",
      "perceptron whose blocks have shortcuts",
      "",
      {{.name = "width", .default_value = std::int64_t{32}, .help = "units of a block", .minimum = 1},
       {.name = "blocks", .default_value = std::int64_t{2}, .help = "blocks", .minimum = 0}}},
     make_shortcuts}};

constexpr const char* kConfig = R"(
[model]
name = "shortcuts"
blocks = 3
[data]
name = "synthetic_images"
train_samples = 512
test_samples = 128
height = 8
width = 8
classes = 4
[train]
epochs = 3
batch_size = 16
[optimizer]
learning_rate = 0.05
[compression]
method = "topk"
density = 0.05
)";

int train(const std::string& folder) {
  trainer::Job job;
  job.config = trainer::parse_config(kConfig, "own_model");
  job.data = trainer::load_data(job.config);
  job.folder = {folder};
  int exit_code = 0;
  comm::run_local(2, trainer::local_options(job.config), [&](comm::Communicator& communicator) {
    const int code = trainer::run_training(job, communicator);
    if (communicator.rank() == 0) exit_code = code;
  });
  return exit_code;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: own_model RUN_FOLDER\n", stderr);
    return 2;
  }
  try {
    return train(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_model: %s\n", error.what());
    return 1;
  }
}
