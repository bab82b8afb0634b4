// SPDX-License-Identifier: MIT
/// `dragonn coordinator`: decides who trains together in an elastic run. `dragonn replay`: repeats one.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace dragonn::program {

/// Declares the options of a subcommand, and returns its work, which returns the exit code.
std::function<int()> declare_coordinator(CLI::App& command);
std::function<int()> declare_replay(CLI::App& command);

}  // namespace dragonn::program
