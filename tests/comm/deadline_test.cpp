// SPDX-License-Identifier: MIT
#include "comm/deadline.h"

#include <chrono>

#include <doctest/doctest.h>

namespace dragonn::comm::test {

using namespace std::chrono_literals;

TEST_SUITE("comm") {
  TEST_CASE("a deadline in running time moves back by the time of a suspension, and by nothing else") {
    const Deadline start{};
    RunningDeadline deadline(start + 10s);
    Deadline now = start;
    for (int look = 0; look < 50; ++look) {
      const Deadline next = deadline.next_look(now);
      CHECK(next - now == 100ms);
      now = next + 50ms;  // a busy machine wakes a thread late
      CHECK_FALSE(deadline.is_over(now));
    }
    now = deadline.next_look(now) + 1h;
    CHECK_FALSE(deadline.is_over(now));
    const Deadline end = start + 10s + 1h;
    CHECK(deadline.next_look(end - 20ms) == end);
    CHECK_FALSE(deadline.is_over(end - 1ms));
    CHECK(deadline.is_over(end));
  }
}

}  // namespace dragonn::comm::test
