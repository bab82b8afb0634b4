// SPDX-License-Identifier: MIT
/// Example: trains a perceptron on two workers with the method of every_nth.cpp.
/// Usage: `own_sparsifier RUN_FOLDER`.
#include <cstdio>
#include <exception>
#include <string>

#include "comm/local/local.h"
#include "trainer/config/assemble.h"
#include "trainer/run.h"

namespace {

using namespace dragonn;

constexpr const char* kConfig = R"(
[model]
name = "mlp"
hidden = [32]
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
method = "every_nth"
density = 0.1
)";

int train(const std::string& folder) {
  trainer::Job job;
  job.config = trainer::parse_config(kConfig, "own_sparsifier");
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
    std::fputs("usage: own_sparsifier RUN_FOLDER\n", stderr);
    return 2;
  }
  try {
    return train(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_sparsifier: %s\n", error.what());
    return 1;
  }
}
