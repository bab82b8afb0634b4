// SPDX-License-Identifier: MIT
/// `dragonn sample`: a trained language model continues a text.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace dragonn::program {

/// Declares the options, and returns the work, which returns the exit code.
std::function<int()> declare_sample(CLI::App& command);

}  // namespace dragonn::program
