// SPDX-License-Identifier: MIT
/// Log sink: where lines go instead of the terminal, for a library in the process of another program.
#pragma once

#include <functional>
#include <string>

#include "core/log.h"

namespace dragonn::log {

/// Receives one line without its end. Called by one thread at a time; it must not log.
using Sink = std::function<void(Level, const std::string&)>;

/// Hands every line from now on to `sink` instead of the terminal. An empty sink drops them. Thread safe.
void set_sink(Sink sink);

}  // namespace dragonn::log
