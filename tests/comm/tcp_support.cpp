// SPDX-License-Identifier: MIT
#include "tests/comm/tcp_support.h"

#include "tests/comm/timing.h"

namespace dragonn::comm::test {

std::vector<std::exception_ptr> run_each(const std::vector<TcpOptions>& ranks,
                                         const std::function<void(const TcpOptions&)>& fn) {
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        fn(ranks[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  threads.clear();  // joins
  return errors;
}

std::string text_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

std::vector<TcpOptions> tcp_world(int size, double timeout_s, const std::filesystem::path& folder) {
  std::vector<TcpOptions> ranks;
  for (int rank = 0; rank < size; ++rank) {
    TcpOptions options;
    options.rank = rank;
    options.size = size;
    options.rendezvous.file = folder / "rendezvous";
    options.timeout_s = timeout_s;
    ranks.push_back(options);
  }
  return ranks;
}

void run_tcp_threads(int size, double timeout_s, const std::function<void(Communicator&)>& fn) {
  const TemporaryFolder folder;
  const auto errors =
      run_each(tcp_world(size, timeout_s, folder.path()), [&](const TcpOptions& options) { run_tcp(options, fn); });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

double short_deadline(int size) {
  return deadline_beside(0.3, [&] { run_tcp_threads(size, 60, [](Communicator& c) { c.barrier(); }); });
}

std::vector<std::string> tcp_errors(int size, double timeout_s, const std::function<void(Communicator&)>& fn) {
  const TemporaryFolder folder;
  std::vector<std::string> texts;
  for (const auto& error :
       run_each(tcp_world(size, timeout_s, folder.path()), [&](const TcpOptions& options) { run_tcp(options, fn); })) {
    texts.push_back(text_of(error));
  }
  return texts;
}

}  // namespace dragonn::comm::test
