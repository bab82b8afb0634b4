// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "program/call.h"
#include "program/subcommand.h"

namespace dragonn::program {
namespace {

class Evaluate final : public Subcommand {
 public:
  void declare_options(CLI::App& command) override {
    declare_run(command, run_, options_);
    command.add_option("--workers", workers_, "Number of local workers, instead of comm.workers")->type_name("P");
  }
  int run() override {
    std::vector<std::string> arguments{"--evaluate", run_};
    if (!workers_.empty()) arguments.insert(arguments.end(), {"--workers", workers_});
    options_.call(std::move(arguments));
  }

 private:
  std::string run_, workers_;
  TrainOptions options_;
};

const Registration<SubcommandEntry> registration{{{"evaluate", "Evaluate a run on the test split and print JSON"},
                                                  [] { return std::make_unique<Evaluate>(); },
                                                  {"evaluate runs/a", "evaluate runs/a/checkpoints/step-00000100"}}};

}  // namespace
}  // namespace dragonn::program
