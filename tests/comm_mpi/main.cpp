// SPDX-License-Identifier: MIT
// The cases of tests/comm over MPI, at the world size that mpirun gives. A false claim ends all ranks with exit code 1.
// --only bits: just compares with local ranks. --only notifications: just the cases of these. --fail KIND: fails on
// purpose, for the tests of how that ends.
// --largest-count BYTES: lets MPI count no further than that.
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "comm/local/local.h"
#include "comm/mpi/mpi.h"
#include "tests/comm/cases.h"

namespace dragonn::comm::test {
namespace {

void run_cases(Communicator& communicator, std::span<const Case> cases) {
  for (const Case& claim : cases) {
    communicator.set_label(claim.claim);
    claim.body(communicator);
    if (communicator.rank() == 0) std::printf("ok: %s\n", claim.claim);
  }
}

/// Rank 0 computes the same in local ranks of its own.
void compare_with_local(Communicator& communicator) {
  communicator.set_label("local and mpi give the same bits");
  const auto digests = [](Communicator& group) { return std::array{digest(group), sparse_digest(group)}; };
  std::array<std::uint64_t, 2> expected{};
  if (communicator.rank() == 0) {
    run_local(communicator.size(), {}, [&](Communicator& local) {
      const auto bits = digests(local);
      if (local.rank() == 0) expected = bits;
    });
  }
  communicator.broadcast_value(0, expected);
  expect(digests(communicator) == expected, "local and mpi give the same bits");
  if (communicator.rank() == 0) std::puts("ok: local and mpi give the same bits");
}

void run_all(Communicator& communicator) {
  for (const auto& cases :
       {message_cases(), allreduce_cases(), collective_cases(), sparse_cases(), conservation_cases(), agreed_cases(),
        region_cases(), gtopk_cases(), oktopk_cases(), notification_cases()}) {
    run_cases(communicator, cases);
  }
  compare_with_local(communicator);
}

void fail(Communicator& communicator, std::string_view kind) {
  const bool last = communicator.rank() == communicator.size() - 1;
  communicator.barrier();
  if (kind == "silent") communicator.set_label("behind the barrier");
  if (kind == "all" || (kind == "one" && last)) throw ConfigError("failed on purpose");
  if (kind == "silent" && last) {
    std::byte byte{};
    communicator.recv(0, 1, std::span<std::byte>(&byte, 1));  // nobody sends it
  }
  if (kind == "unnotified") communicator.wait_for_notification(communicator.rank() == 0 ? 1 : 0);  // nobody sends it
  communicator.barrier();
}

}  // namespace
}  // namespace dragonn::comm::test

int main(int argc, char** argv) {
  namespace test = dragonn::comm::test;
  const auto option = [&](std::string_view name) -> std::string_view {
    return argc > 2 && argv[1] == name ? argv[2] : "";
  };
  const std::string_view kind = option("--fail");
  try {
    dragonn::comm::MpiOptions options{.timeout_s = kind == "silent" || kind == "unnotified" ? 3.0 : 60};
    if (const std::string_view count = option("--largest-count"); !count.empty()) {
      options.largest_count = std::stoul(std::string(count));
    }
    dragonn::comm::run_mpi(options, [&](dragonn::comm::Communicator& communicator) {
      if (!kind.empty()) return test::fail(communicator, kind);
      const std::string_view only = option("--only");
      if (only == "bits") return test::compare_with_local(communicator);
      if (only == "notifications") return test::run_cases(communicator, test::notification_cases());
      test::run_all(communicator);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return dragonn::exit_code(error);
  }
  return 0;
}
