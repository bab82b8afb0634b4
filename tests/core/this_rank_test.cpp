// SPDX-License-Identifier: MIT
#include <thread>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn {

TEST_SUITE("core") {
  TEST_CASE("a thread works for the rank of its innermost scope") {
    CHECK(this_rank() == kNoRank);
    CHECK(this_rank_prefix().empty());
    {
      const ScopedRank outer(3);
      CHECK(this_rank_prefix() == "rank 3, ");
      {
        const ScopedRank inner(0);
        CHECK(this_rank() == 0);
      }
      CHECK(this_rank() == 3);
      int of_another_thread = 0;
      std::thread([&] { of_another_thread = this_rank(); }).join();
      CHECK(of_another_thread == kNoRank);
    }
    CHECK(this_rank() == kNoRank);
  }
}

}  // namespace dragonn
