// SPDX-License-Identifier: MIT
/// The local backend: ranks are threads of this process, and their messages go through memory.
#pragma once

#include <functional>
#include <optional>

#include "comm/communicator.h"
#include "comm/network_model.h"
#include "comm/virtual/shared_network.h"
#include "comm/virtual/virtual_worker.h"

namespace dragonn::comm {

struct LocalOptions {
  double timeout_s = 120;  ///< longest wait for one message, in seconds of wall time
  /// Makes the group a virtual cluster on this network (comm/virtual/virtual_worker.h): clock() is virtual, and
  /// messages cost virtual time. They carry the same bytes and travel as fast as they can.
  std::optional<NetworkModel> network = {};
  NodeLinks nodes = {};                  ///< which ranks share a link; used with a network only
  Compute compute = Compute::kMeasured;  ///< cost of the ranks' own work; used with a network only
};

/// Runs `fn` once per rank, each in a thread of its own, and returns when all have ended.
///
/// If a rank throws, the others' pending and later operations throw a CommError that names it, its label and its
/// reason; waiting for a rank whose `fn` has returned is an error at once. All threads are joined, then the error of
/// the rank that failed first is rethrown.
/// @throws ConfigError if world_size is less than 1 or the network is impossible (VirtualWorker, SharedNetwork),
/// SystemError if a thread cannot be started.
void run_local(int world_size, const LocalOptions& options, const std::function<void(Communicator&)>& fn);

}  // namespace dragonn::comm
