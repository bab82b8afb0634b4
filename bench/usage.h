// SPDX-License-Identifier: MIT
/// What dragonn-bench says of itself and of a command line that it cannot take.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dragonn::bench {

/// One line, without an end: the program or its subcommand, what is wrong, and the nearest valid name.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error);

/// The foot of a help text: command lines that a user may type.
std::string examples_text(const std::vector<std::string>& examples);

}  // namespace dragonn::bench
