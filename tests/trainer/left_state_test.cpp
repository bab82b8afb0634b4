// SPDX-License-Identifier: MIT
/// Tests of the state that ranks of an elastic run give to those that join.
#include "trainer/run/left_state.h"

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/error.h"

namespace dragonn::trainer::testing {
namespace {

/// Returns a state that tells its rank, of more than one part.
std::unique_ptr<LeftState> state_of(int rank) {
  auto state = std::make_unique<LeftState>(rank, 2);
  const std::vector<float> parameters(std::size_t{5} << 20, static_cast<float>(rank) + 0.5f);
  state->shared.put_array<float>("parameters", parameters);
  state->own.put("rank", static_cast<std::uint64_t>(rank));
  return state;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("left state: ranks that join get copies from those that have trained, who take turns") {
  comm::run_local(5, {}, [](comm::Communicator& communicator) {
    const int rank = communicator.rank();
    std::unique_ptr<LeftState> mine = rank < 2 ? state_of(rank) : nullptr;
    const LeftState* const before = mine.get();
    // Who holds a copy from a generation that did not begin takes another one.
    for (int pass = 0; pass < 2; ++pass) share_state(communicator, mine);
    REQUIRE(mine != nullptr);
    if (rank < 2) {
      CHECK(mine.get() == before);
      return;
    }
    const std::unique_ptr<LeftState> donor = state_of(rank % 2);
    CHECK(mine->is_copy());
    CHECK(mine->workers() == 2);
    CHECK(mine->shared.fields() == donor->shared.fields());
    CHECK(mine->own.fields() == donor->own.fields());
    const std::vector<exchange::RankToTake> taken = mine->ranks_to_take(rank, communicator.size());
    REQUIRE(taken.size() == 1);
    CHECK(taken.front().rank == rank % 2);
    CHECK_FALSE(taken.front().what.memories);
    CHECK(taken.front().what.methods);
  });
}

TEST_CASE("left state: without a rank that has the state there is none to share") {
  comm::run_local(2, {}, [](comm::Communicator& communicator) {
    std::unique_ptr<LeftState> none;
    CHECK_THROWS_AS(share_state(communicator, none), CommError);
  });
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
