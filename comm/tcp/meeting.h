// SPDX-License-Identifier: MIT
/// How ranks that share nothing but a rendezvous come to a connection between every two.
#pragma once

#include <vector>

#include "comm/tcp/tcp.h"
#include "core/descriptor.h"

namespace dragonn::comm {

/// Collective. Rank 0 listens at the rendezvous; the others come with a hello and the address of a listener of their
/// own, on any port. When all have come rank 0 tells everybody's address, each rank connects to those below it and
/// waits for those above, and rank 0 hears and tells how that went: all have met, or all have the same error. Returns
/// the connections by rank; a rank's own place is empty.
/// @throws CommError on every rank that came, naming who did not come or does not fit: another size of the world, two
/// ranks with one number, another version of the program. By `comm.timeout_s` and a few seconds.
std::vector<Descriptor> meet(const TcpOptions& options);

}  // namespace dragonn::comm
