// SPDX-License-Identifier: MIT
/// Quick measurements: small sizes and few rounds, to try out a command.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dragonn::bench {

/// Returns the arguments of dragonn-bench, the subcommand first, with small sizes and few rounds if DRAGONN_QUICK is
/// set; otherwise unchanged. Reports that on the standard error. @throws ConfigError for a value of DRAGONN_QUICK that
/// is no number.
std::vector<std::string> shortened(std::vector<std::string> arguments, const CLI::App& program);

}  // namespace dragonn::bench
