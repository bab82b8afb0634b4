// SPDX-License-Identifier: MIT
/// Tests of the state that ranks of an elastic run give to those that join.
#include "trainer/run/left_state.h"

#include <memory>
#include <string>
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
  state->own.put("optimizer/step", std::uint64_t{7});
  state->own.put("residual", 1.0);
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
    for (int pass = 0; pass < 2; ++pass)
      share_state(communicator, mine, [](const std::string& field) { return field == "residual"; });
    REQUIRE(mine != nullptr);
    if (rank < 2) {
      CHECK(mine.get() == before);
      return;
    }
    const std::unique_ptr<LeftState> donor = state_of(rank % 2);
    CHECK(mine->is_copy());
    CHECK(mine->workers() == 2);
    CHECK(mine->shared.fields() == donor->shared.fields());
    auto given = donor->own.fields();
    given.erase("residual");
    CHECK(mine->own.fields() == given);
    const std::vector<exchange::RankToTake> taken = mine->ranks_to_take(rank, communicator.size());
    REQUIRE(taken.size() == 1);
    CHECK(taken.front().rank == rank % 2);
    CHECK_FALSE(taken.front().what.memories);
    CHECK(taken.front().what.methods);
  });
}

TEST_CASE("left state: of what a stream has brought only what is not equal follows, and the donor's optimizer stays") {
  comm::run_local(2, {}, [](comm::Communicator& communicator) {
    std::unique_ptr<LeftState> mine = state_of(0);
    mine->shared.put("progress", std::uint64_t{2});
    if (communicator.rank() == 1) {
      LeftState earlier(0, 2);
      const std::unique_ptr<LeftState> whole = state_of(0);
      earlier.shared.put_field("parameters", whole->shared.fields().at("parameters"));
      earlier.shared.put("progress", std::uint64_t{1});
      earlier.own.put("optimizer/step", std::uint64_t{5});
      mine = LeftState::copy_of(earlier.to_bytes(), "member 0", LeftState::Origin{0, 3});
    }
    const std::size_t bytes =
        share_state(communicator, mine, [](const std::string& field) { return field == "residual"; });
    CHECK((bytes == 0) == (communicator.rank() == 0));
    if (communicator.rank() == 0) return;
    CHECK(bytes < 4096);
    CHECK(mine->shared.bytes("parameters").size() == std::size_t{20} << 20);
    CHECK(mine->shared.get<std::uint64_t>("progress") == 2);
    CHECK(mine->own.get<std::uint64_t>("optimizer/step") == 5);
    CHECK(mine->own.get<std::uint64_t>("rank") == 0);
    CHECK_FALSE(mine->own.contains("residual"));
    REQUIRE(mine->origin());
    CHECK(mine->origin()->place == 3);
  });
}

TEST_CASE("left state: ranks that neither give nor take do other work meanwhile") {
  comm::run_local(4, {}, [](comm::Communicator& communicator) {
    const int rank = communicator.rank();
    std::unique_ptr<LeftState> mine = rank < 3 ? state_of(rank) : nullptr;
    int calls = 0;
    const auto none_stays = [](const std::string& /*field*/) { return false; };
    share_state(communicator, mine, none_stays, [&calls] { ++calls; });
    CHECK(calls == (rank == 1 || rank == 2 ? 1 : 0));
    REQUIRE(mine != nullptr);
    CHECK(mine->shared.fields() == state_of(rank % 3)->shared.fields());
    share_state(communicator, mine, none_stays, [&calls] { ++calls; });  // all but the copy have the state
    CHECK(calls == (rank == 1 || rank == 2 ? 2 : 0));
  });
}

TEST_CASE("left state: without a rank that has the state there is none to share") {
  comm::run_local(2, {}, [](comm::Communicator& communicator) {
    std::unique_ptr<LeftState> none;
    CHECK_THROWS_AS(share_state(communicator, none, {}), CommError);
  });
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
