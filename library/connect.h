// SPDX-License-Identifier: MIT
/// Connect: how the processes of a library's callers come together, from the config and the launcher.
#pragma once

#include <string>

#include "library/rank_thread.h"
#include "trainer/config/config.h"

namespace dragonn::library {

/// A way to connect this process with the others.
struct Connection {
  RankThread::Connect connect;
  /// The longest wait in seconds until the function that `connect` gets is called. Unlimited where connecting has its
  /// own deadline.
  double seconds;
};

/// Chooses the backend, as dragonn.h says, and reads rank and rendezvous from the environment. @param rendezvous
/// for TCP if the config has none; empty: that of the environment. @throws ConfigError saying what to set.
Connection choose_connection(const trainer::CommConfig& config, const std::string& rendezvous);

}  // namespace dragonn::library
