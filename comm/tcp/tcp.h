// SPDX-License-Identifier: MIT
/// The TCP backend: runs the ranks of a group without MPI, with a connection between every two.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/secret.h"
#include "core/file.h"

namespace dragonn::comm {

struct TcpOptions {
  int rank = 0;
  int size = 1;
  Rendezvous rendezvous = {};  ///< unused if there is only one rank
  double timeout_s = 120;      ///< longest wait for one message, and for all ranks to come, in seconds
  /// Known to all ranks and to no outsider; without it whoever reaches a port of the run can join or end it.
  std::shared_ptr<const Secret> secret = nullptr;

  // The next fields serve groups that follow one another in a process (comm/elastic/member.h).
  double connect_timeout_s = 0;  ///< longest wait for all ranks to come; 0: timeout_s
  double farewell_s = 3;         ///< a rank that failed waits so long until the others have closed their connections
  /// A socket that listens already, for rank 0 in the place of the rendezvous; shared because options are copied.
  std::shared_ptr<const Descriptor> door = nullptr;
  /// Asked while ranks are waited for: true ends the wait with an error. Empty: never.
  std::function<bool()> is_given_up = {};

  double connecting_s() const { return connect_timeout_s > 0 ? connect_timeout_s : timeout_s; }
};

/// Reads this process's options from the environment: rank and size by detect_process(), the rendezvous by
/// find_rendezvous(). @param secret_file of Secret::load; empty: no secret. @throws ConfigError saying what to set.
TcpOptions tcp_options(const std::string& rendezvous, double timeout_s, const std::string& secret_file = "");

/// Collective. Connects every two ranks. Returns the connections by rank; a rank's own place is empty.
///
/// comm/README.md lists the steps. In the end rank 0 sends all ranks one verdict: every rank is connected, or all throw
/// the same error.
/// @throws CommError on every rank that came, naming the rank that is missing or does not fit: another world size, two
/// ranks with one number, another version of the program, a secret that not both have. It comes at most a few seconds
/// after `comm.timeout_s`. ConfigError at once if something else than a file is at the rendezvous file's path.
std::vector<Descriptor> connect_ranks(const TcpOptions& options);

/// Connects to the other ranks, runs `fn` as this rank, and shuts the connections down.
///
/// A rank moves messages, its own and those of others, whenever it starts or waits for one. While it waits it takes
/// from each other rank up to two messages that no receive has asked for. Waits sleep in the kernel, so there may be
/// more ranks than cores.
///
/// An error ends every rank. If `fn` throws on one rank, the ranks that wait for that rank fail; a CommError on one
/// rank makes all ranks fail at once, with the reason of the first. At the deadline the late rank is found by asking
/// each rank which one it waits for. The rank's own error is rethrown here.
///
/// @throws CommError as connect_ranks() does, if the world size or the rank is impossible, or if a rank failed after
/// this rank's `fn` had returned.
void run_tcp(const TcpOptions& options, const std::function<void(Communicator&)>& fn);

}  // namespace dragonn::comm
