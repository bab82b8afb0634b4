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

/// Runs `fn` with the options of each rank, in a thread for each. Returns what each threw.
std::vector<std::exception_ptr> run_each(const std::vector<TcpOptions>& ranks,
                                         const std::function<void(const TcpOptions&)>& fn);

/// The text of an exception; "" if there is none.
std::string text_of(const std::exception_ptr& error);

/// The options of all ranks of a world that meets by a file in `folder`.
std::vector<TcpOptions> tcp_world(int size, double timeout_s, const std::filesystem::path& folder);

/// As run_local: all ranks run `fn`, and the error of the first that has one is thrown again.
void run_tcp_threads(int size, double timeout_s, const std::function<void(Communicator&)>& fn);
/// A deadline for tests of what is late, in s: short, and long beside what it takes `size` ranks to meet (timing.h).
double short_deadline(int size);
/// The errors of all ranks, by rank.
std::vector<std::string> tcp_errors(int size, double timeout_s, const std::function<void(Communicator&)>& fn);

}  // namespace dragonn::comm::test
