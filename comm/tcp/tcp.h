// SPDX-License-Identifier: MIT
/// The TCP backend: processes that meet without MPI, with a connection between every two.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.h"
#include "comm/tcp/rendezvous.h"

namespace dragonn::comm {

struct TcpOptions {
  int rank = 0;
  int size = 1;
  Rendezvous rendezvous = {};  ///< of no use to one rank alone
  double timeout_s = 120;      ///< longest wait for one message, and for all ranks to come, in seconds
};

/// What the environment says of this process: rank and size from detect_process(), the place from find_rendezvous().
/// @throws ConfigError saying what to set.
TcpOptions tcp_options(const std::string& rendezvous, double timeout_s);

/// Meets the other ranks, runs `fn` as this rank, parts from them.
///
/// One thread at a time uses the communicator (abort() excepted). A rank moves messages, its own and those that come,
/// while it starts and waits for one: whoever waits takes what others send, up to two messages that nobody receives yet
/// from each. Waits sleep in the kernel, so that there may be more ranks than cores.
///
/// Errors end every rank. `fn` that throws on one rank is an error of those that wait for that rank, and a CommError
/// of any rank is at once one of all, with the reason of the first. A connection that ends without a word names the
/// rank whose process has ended. Who is late at the deadline is found by asking whoever waits for whom, and a process
/// on this machine that is stopped is named. The rank's own error is thrown again here: a program prints it, and
/// returns its exit code.
///
/// @throws CommError as meet() does, if the world's size or the rank is impossible, or if a rank failed after this
/// one's `fn` had returned.
void run_tcp(const TcpOptions& options, const std::function<void(Communicator&)>& fn);

}  // namespace dragonn::comm
