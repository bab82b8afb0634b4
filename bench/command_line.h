// SPDX-License-Identifier: MIT
/// The help of dragonn-bench for its command line, and how it shortens one to be tried.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dragonn::bench {

/// Returns one line, without an end: the program or its subcommand, the problem, and the nearest valid name.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error);

/// Returns the foot of a help text: command lines that a user may type.
std::string examples_text(const std::vector<std::string>& examples);

/// Returns the arguments of dragonn-bench, the subcommand first, with small sizes and few rounds if DRAGONN_QUICK is
/// set; otherwise unchanged. Reports that on the standard error. @throws ConfigError for a value of DRAGONN_QUICK that
/// is no number.
std::vector<std::string> shortened(std::vector<std::string> arguments, const CLI::App& program);

}  // namespace dragonn::bench
