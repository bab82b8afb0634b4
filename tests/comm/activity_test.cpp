// SPDX-License-Identifier: MIT
#include "comm/activity.h"

#include <stdexcept>

#include <doctest/doctest.h>

namespace dragonn::comm::test {

TEST_SUITE("comm") {
  TEST_CASE("an activity is a label, the outermost operation and the one in it") {
    Activity activity;
    CHECK(activity.describe().empty());
    activity.set_label("step 12, bucket 3");
    CHECK(activity.describe() == "'step 12, bucket 3'");
    {
      const ScopedOperation outer(activity, "oktopk");
      CHECK(activity.describe() == "'step 12, bucket 3', in oktopk");
      {
        const ScopedOperation inner(activity, "allgather");
        const ScopedOperation innermost(activity, "broadcast");
        CHECK(activity.describe() == "'step 12, bucket 3', in oktopk (allgather)");
      }
      CHECK(activity.describe() == "'step 12, bucket 3', in oktopk");
    }
    CHECK(activity.describe() == "'step 12, bucket 3'");
    activity.set_label("");
    const ScopedOperation alone(activity, "barrier");
    CHECK(activity.describe() == "in barrier");
  }

  TEST_CASE("an operation that ends with an exception stays known until the next one") {
    Activity activity;
    try {
      const ScopedOperation outer(activity, "oktopk");
      const ScopedOperation inner(activity, "allgather");
      throw std::runtime_error("gone");
    } catch (const std::runtime_error&) {
      CHECK(activity.describe() == "in oktopk (allgather)");
    }
    { const ScopedOperation next(activity, "barrier"); }
    CHECK(activity.describe().empty());
  }

  TEST_CASE("a label is cut, not grown") {
    Activity activity;
    activity.set_label(std::string(2 * Activity::kLongestLabel, 'x'));
    CHECK(activity.label() == std::string(Activity::kLongestLabel, 'x'));
  }
}

}  // namespace dragonn::comm::test
