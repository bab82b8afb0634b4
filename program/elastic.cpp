// SPDX-License-Identifier: MIT
#include "program/elastic.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "comm/launcher.h"
#include "core/error.h"
#include "core/log.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/elastic.h"
#include "trainer/run/signals.h"

namespace dragonn::program {
namespace {

/// The options of both subcommands.
struct Words {
  std::string config, output, journal;
  std::vector<std::string> overrides = {};
  std::optional<int> workers, member;
  trainer::ReplayRequest replay;
};

int coordinate(const Words& words) {
  const trainer::CommConfig config = trainer::load_comm_config(words.config, words.overrides);
  trainer::require(config.elastic, "{}: a coordinator is for runs with comm.elastic = true", words.config);
  comm::CoordinatorOptions options =
      trainer::coordinator_options(config, words.workers.value_or(static_cast<int>(config.workers)));
  options.journal = words.journal;
  options.is_signaled = [] { return trainer::StopSignals::received() != 0; };
  trainer::StopSignals::install();
  trainer::StopSignals::training_begins();
  comm::RunCoordinator coordinator(options);
  log::info(0, "the coordinator listens; comm.coordinator = \"separate\" makes the workers look for it");
  return coordinator.serve() ? 0 : 1;
}

}  // namespace

std::function<int()> declare_coordinator(CLI::App& command) {
  const auto words = std::make_shared<Words>();
  command.add_option("CONFIG", words->config, "The config of the run: its table [comm] counts")->required();
  command
      .add_option("--workers", words->workers, "Number of workers with which the run begins, instead of comm.workers")
      ->type_name("P");
  command
      .add_option("--journal", words->journal,
                  "File in which it notes the run, to take it up when it is started again; removed at the run's end")
      ->type_name("FILE");
  command.add_option("--set", words->overrides, "Set a key, as comm.min_workers=2 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  return [words] { return coordinate(*words); };
}

std::function<int()> declare_replay(CLI::App& command) {
  const auto words = std::make_shared<Words>();
  command.add_option("RUN_DIR", words->config, "Folder of an elastic run")->required();
  command.add_option("--output", words->output, "Folder of the replay; without it RUN_DIR/replay")->type_name("DIR");
  command.add_option("--until", words->replay.until, "End after this many steps")->type_name("STEP");
  command.add_option("--member", words->replay.member, "Then write the state of this member, gone or not")
      ->type_name("ID");
  return [words] {
    words->replay.run = words->config;
    words->replay.output = words->output.empty() ? words->replay.run / "replay" : std::filesystem::path(words->output);
    return trainer::replay(words->replay);
  };
}

}  // namespace dragonn::program
