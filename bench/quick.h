// SPDX-License-Identifier: MIT
/// Quick measurements, to try a command without its cost.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dragonn::bench {

/// The arguments of dragonn-bench, the subcommand first, with small sizes and few rounds if DRAGONN_QUICK is set; else
/// as they are. Says so on the standard error. @throws ConfigError for a value of DRAGONN_QUICK that is no number.
std::vector<std::string> shortened(std::vector<std::string> arguments, const CLI::App& program);

}  // namespace dragonn::bench
