// SPDX-License-Identifier: MIT
/// Ranks of the TCP backend as threads of the test program, over the loopback interface.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/tcp/tcp.h"
#include "tests/comm/support.h"
#include "tests/core/temporary_folder.h"

namespace dragonn::comm::test {

using dragonn::test::TemporaryFolder;

/// Runs `fn` with the options of each rank, each in a thread of its own. Returns the exceptions, by rank.
std::vector<std::exception_ptr> run_each(const std::vector<TcpOptions>& ranks,
                                         const std::function<void(const TcpOptions&)>& fn);

/// The text of an exception; "" if there is none.
std::string text_of(const std::exception_ptr& error);

/// The options of all ranks of a world whose rendezvous is a file in `folder`.
std::vector<TcpOptions> tcp_world(int size, double timeout_s, const std::filesystem::path& folder);

/// Runs `fn` on all ranks, as run_local does, and rethrows the error of the first rank that has one.
void run_tcp_threads(int size, double timeout_s, const std::function<void(Communicator&)>& fn);
/// A deadline in seconds for tests of late ranks: short, but much longer than the handshake of `size` ranks (timing.h).
double short_deadline(int size);
/// The errors of all ranks, by rank.
std::vector<std::string> tcp_errors(int size, double timeout_s, const std::function<void(Communicator&)>& fn);

}  // namespace dragonn::comm::test
