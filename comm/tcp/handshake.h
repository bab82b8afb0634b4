// SPDX-License-Identifier: MIT
/// The handshake: connects every two ranks of a run that share nothing but a rendezvous.
#pragma once

#include <vector>

#include "comm/tcp/tcp.h"
#include "core/file.h"

namespace dragonn::comm {

/// Collective. Connects every two ranks. Returns the connections by rank; a rank's own place is empty.
///
/// comm/README.md lists the steps. In the end rank 0 sends all ranks one verdict: every rank is connected, or all throw
/// the same error.
/// @throws CommError on every rank that came, naming the rank that is missing or does not fit: another world size, two
/// ranks with one number, another version of the program, a secret that not both have. It comes at most a few seconds
/// after `comm.timeout_s`. ConfigError at once if something else than a file is at the rendezvous file's path.
std::vector<Descriptor> connect_ranks(const TcpOptions& options);

}  // namespace dragonn::comm
