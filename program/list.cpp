// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "program/call.h"
#include "program/subcommand.h"

namespace dragonn::program {
namespace {

class List final : public Subcommand {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("KIND", kind_, "Models, methods, ... or a table of a config (data, compression, ...)");
    command.add_option("NAME", name_, "The one whose settings, paper and traffic to print");
    command.add_option("--config", options_.config, "Also list the plug-ins of this config")->type_name("CONFIG");
    options_.declare(command);
  }
  int run() override {
    std::vector<std::string> arguments{"--list"};
    for (const std::string& word : {kind_, name_}) {
      if (!word.empty()) arguments.push_back(word);
    }
    options_.call(std::move(arguments));
  }

 private:
  std::string kind_, name_;
  TrainOptions options_;
};

const Registration<SubcommandEntry> registration{{{"list", "List models, data sets, methods and their settings"},
                                                  [] { return std::make_unique<List>(); },
                                                  {"list", "list methods", "list dgc"}}};

}  // namespace
}  // namespace dragonn::program
