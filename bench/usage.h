// SPDX-License-Identifier: MIT
/// Usage: dragonn-bench's errors for bad command lines, and the examples in its help.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dragonn::bench {

/// Returns one line, without an end: the program or its subcommand, the problem, and the nearest valid name.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error);

/// Returns the foot of a help text: command lines that a user may type.
std::string examples_text(const std::vector<std::string>& examples);

}  // namespace dragonn::bench
