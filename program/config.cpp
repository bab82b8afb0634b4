// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "program/call.h"
#include "program/subcommand.h"

namespace dragonn::program {
namespace {

class Config final : public Subcommand {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("CONFIG", options_.config, "The config; without it the defaults are printed");
    command.add_flag("--all", all_, "Also print the settings of components that the config does not name");
    options_.declare(command);
  }
  int run() override { options_.call({all_ ? "--print-config=all" : "--print-config"}); }

 private:
  bool all_ = false;
  TrainOptions options_;
};

const Registration<SubcommandEntry> registration{{{"config", "Print every key of a config with meaning and value"},
                                                  [] { return std::make_unique<Config>(); },
                                                  {"config", "config run.toml --set train.epochs=3"}}};

}  // namespace
}  // namespace dragonn::program
