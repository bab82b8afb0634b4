// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace dragonn {
namespace {

struct WidgetEntry : RegistryEntry {
  static constexpr const char* kKind = "widget";
  int (*make)() = nullptr;
};

struct GadgetEntry : RegistryEntry {
  static constexpr const char* kKind = "gadget";
};
const Registration<GadgetEntry> old_gadget{GadgetEntry{{.name = "old", .summary = "a gadget"}}};

WidgetEntry widget(const std::string& name, int (*make)()) {
  WidgetEntry entry;
  entry.name = name;
  entry.summary = "a widget";
  entry.make = make;
  return entry;
}

const Registration<WidgetEntry> second_registration{widget("round", [] { return 2; })};
const Registration<WidgetEntry> first_registration{widget("flat", [] { return 1; })};

/// The output of a child process on its standard error while it runs `body`, and its end.
struct ChildResult {
  std::string error_output;
  int signal = 0;
};
ChildResult run_in_child(void (*body)()) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not doctest's handler, which would report the abort as a failure
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  ChildResult result;
  char buffer[256];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.error_output.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

TEST_SUITE("core") {
  TEST_CASE("a registered entry is found by name, and names are sorted") {
    const auto& registry = Registry<WidgetEntry>::instance();
    CHECK(registry.names() == std::vector<std::string>{"flat", "round"});
    CHECK(registry.at("flat").make() == 1);
    CHECK(registry.at("round").make() == 2);
    CHECK(registry.contains("flat"));
    CHECK_FALSE(registry.contains("square"));
  }

  TEST_CASE("the registry knows the file of every entry") {
    const std::string& file = Registry<WidgetEntry>::instance().file_of("flat");
    CHECK(file.ends_with("tests/core/registry_test.cpp"));
  }

  TEST_CASE("an unknown name is a config error that lists the valid ones") {
    CHECK_THROWS_WITH_AS(Registry<WidgetEntry>::instance().at("flatt"),
                         "unknown widget 'flatt'; did you mean 'flat'? valid: flat, round", ConfigError);
  }

  TEST_CASE("a name registered twice aborts the program and prints both files") {
    const ChildResult result = run_in_child([] { const Registration<WidgetEntry> again{widget("flat", nullptr)}; });
    CHECK(result.signal == SIGABRT);
    const std::string file = "tests/core/registry_test.cpp";
    const auto first = result.error_output.find(file);
    REQUIRE(first != std::string::npos);
    CHECK(result.error_output.find(file, first + 1) != std::string::npos);
    CHECK(result.error_output.starts_with("widget 'flat' is registered by "));
  }

  TEST_CASE("registrations while a plug-in is loaded are the plug-in's, and a name registered twice is its error") {
    const PluginRegistrations plugin("mine.so");
    const auto gadget = [](const char* name) { return GadgetEntry{{.name = name, .summary = "a gadget"}}; };
    const Registration<GadgetEntry> first{gadget("new")};
    const auto& registry = Registry<GadgetEntry>::instance();
    CHECK(registry.contains("new"));
    CHECK(registry.plugin_of("new") == "mine.so");
    CHECK(registry.plugin_of("old") == "");
    CHECK(plugin.components() == std::vector<std::string>{"gadget new"});
    CHECK(plugin.error() == "");
    const Registration<GadgetEntry> again{gadget("old")}, once_more{gadget("new")};
    CHECK(plugin.components().size() == 1);
    CHECK(plugin.error().starts_with("gadget 'old' is registered by "));
  }
}

}  // namespace
}  // namespace dragonn
