// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "program/call.h"
#include "program/subcommand.h"

namespace dragonn::program {
namespace {

class Export final : public Subcommand {
 public:
  void declare_options(CLI::App& command) override {
    declare_run(command, run_, options_);
    command.add_option("FILE", file_, "The safetensors file to write, in PyTorch's layouts")->required();
  }
  int run() override { options_.call({"--export", file_, "--from", run_}); }

 private:
  std::string run_, file_;
  TrainOptions options_;
};

const Registration<SubcommandEntry> registration{{{"export", "Write a run's weights to a safetensors file"},
                                                  [] { return std::make_unique<Export>(); },
                                                  {"export runs/a a.safetensors"}}};

}  // namespace
}  // namespace dragonn::program
