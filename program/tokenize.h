// SPDX-License-Identifier: MIT
/// `dragonn tokenize`: text files to token shards.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace dragonn::program {

/// Declares the options, and returns the work, which returns the exit code.
std::function<int()> declare_tokenize(CLI::App& command);

}  // namespace dragonn::program
