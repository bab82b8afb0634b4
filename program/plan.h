// SPDX-License-Identifier: MIT
/// `dragonn plan`: says what to set for a config on a network.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace dragonn::program {

/// Declares the options of `plan`, and returns its work, which returns the exit code.
std::function<int()> declare_plan(CLI::App& command);

}  // namespace dragonn::program
