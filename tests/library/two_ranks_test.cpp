// SPDX-License-Identifier: MIT
/// Two ranks of the library in one process: calls of two threads, and the state of another number of ranks.
#include "tests/library/two_ranks.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "library/dragonn.h"
#include "tests/core/temporary_folder.h"
#include "tests/library/create.h"

namespace dragonn::test {
namespace {

constexpr std::array<std::uint64_t, 2> kShape{20, 30};
constexpr dragonn_tensor kTensor{"weight", kShape.data(), 2};
constexpr const char* kTopk = "[compression]\nmethod = \"topk\"\ndensity = 0.05\n[comm]\n";
using Gradient = std::array<float, 600>;

dragonn_exchange_handle* create(const std::string& config, const std::string& place) {
  return create_handle({&kTensor, 1}, config, place);
}

dragonn_exchange_handle* create_one() {
  return create(fmt::format("{}backend = \"local\"\n", kTopk), "");
}

/// Creates both ranks of a group that meets in a file.
std::array<dragonn_exchange_handle*, 2> create_two(const std::filesystem::path& rendezvous) {
  return both_created(
      rendezvous, [](const std::string& place) { return create(fmt::format("{}backend = \"tcp\"\n", kTopk), place); });
}

using State = std::vector<std::byte>;

State saved(dragonn_exchange_handle* handle) {
  std::uint64_t size = 0;
  REQUIRE(dragonn_state_size(handle, &size) == DRAGONN_OK);
  State state(size);
  REQUIRE(dragonn_state_save(handle, state.data(), size) == DRAGONN_OK);
  return state;
}

dragonn_status load_all(dragonn_exchange_handle* handle, const std::vector<State>& states) {
  std::vector<const void*> places;
  std::vector<std::uint64_t> sizes;
  for (const State& state : states) {
    places.push_back(state.data());
    sizes.push_back(state.size());
  }
  return dragonn_state_load_all(handle, places.data(), sizes.data(), states.size());
}

float value_of(int rank, std::size_t place) {
  return static_cast<float>((place * 7 + static_cast<std::size_t>(rank) * 3) % 16) - 8;
}

/// Returns the means that both ranks get of their gradients.
std::array<Gradient, 2> both_exchange(const std::array<dragonn_exchange_handle*, 2>& handles) {
  std::array<Gradient, 2> gradients;
  for (int rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      gradients[static_cast<std::size_t>(rank)][i] = value_of(rank, i);
  }
  const auto exchange = [&](std::size_t rank) {
    return dragonn_exchange(handles[rank], gradients[rank].data(), gradients[rank].size());
  };
  dragonn_status first_status = DRAGONN_ERROR_SYSTEM;
  std::thread first([&] { first_status = exchange(0); });
  CHECK(exchange(1) == DRAGONN_OK);
  first.join();
  CHECK(first_status == DRAGONN_OK);
  return gradients;
}

TEST_SUITE("library") {
  TEST_CASE("a second thread is refused while a call of the first one lasts") {
    const TemporaryFolder folder;
    const auto handles = create_two(folder.path() / "rendezvous");
    dragonn_status exchanged = DRAGONN_ERROR_USAGE;
    // Waits for rank 1.
    std::thread first([&] {
      while (exchanged == DRAGONN_ERROR_USAGE) {
        Gradient gradient{};
        exchanged = dragonn_exchange(handles[0], gradient.data(), gradient.size());
      }
    });
    dragonn_statistics statistics;
    while (dragonn_get_statistics(handles[0], &statistics, sizeof statistics) == DRAGONN_OK) std::this_thread::yield();
    CHECK(std::string(dragonn_last_error()) == "another thread uses the handle: expected one at a time");
    CHECK(dragonn_destroy(handles[0]) == DRAGONN_ERROR_USAGE);
    Gradient gradient{};
    CHECK(dragonn_exchange(handles[1], gradient.data(), gradient.size()) == DRAGONN_OK);
    first.join();
    CHECK(exchanged == DRAGONN_OK);
    destroy_two(handles);
  }

  TEST_CASE("a state goes to its own rank of as many ranks") {
    const TemporaryFolder folder;
    const auto handles = create_two(folder.path() / "rendezvous");
    dragonn_exchange_handle* const alone = create_one();
    REQUIRE(alone != nullptr);
    const auto refuses = [](dragonn_exchange_handle* to, dragonn_exchange_handle* from, const std::string& text) {
      const State state = saved(from);
      CHECK(dragonn_state_load(to, state.data(), state.size()) == DRAGONN_ERROR_STATE);
      CHECK(std::string(dragonn_last_error()) == "the saved state is refused: it is of " + text);
    };
    refuses(handles[0], alone, "rank 0 of 1: expected rank 0 of 2");
    refuses(handles[0], handles[1], "rank 1 of 2: expected rank 0 of 2");
    CHECK(dragonn_destroy(alone) == DRAGONN_OK);
    destroy_two(handles);
  }

  TEST_CASE("the states of all ranks go to another number of ranks, and no gradient is lost") {
    const TemporaryFolder folder;
    const auto handles = create_two(folder.path() / "rendezvous");
    std::array<Gradient, 2> gradients = both_exchange(handles);
    double left = 0;  // of the sum of both gradients, after what the means had
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      left += value_of(0, i) + value_of(1, i) - 2.0 * gradients[0][i];
    std::vector<State> states{saved(handles[0]), saved(handles[1])};

    dragonn_exchange_handle* const alone = create_one();
    REQUIRE(load_all(alone, states) == DRAGONN_OK);
    dragonn_statistics statistics;
    REQUIRE(dragonn_get_statistics(alone, &statistics, sizeof statistics) == DRAGONN_OK);
    CHECK(statistics.exchanges == 1);
    // Without new gradients the residuals come out, bit by bit: sums of small integers are exact.
    double sent = 0;
    for (int step = 0; step < 100; ++step) {
      Gradient gradient{};
      REQUIRE(dragonn_exchange(alone, gradient.data(), gradient.size()) == DRAGONN_OK);
      for (const float value : gradient) sent += value;
    }
    CHECK(sent == left);

    // Back to two: rank 0 has the residual, and rank 1 none.
    REQUIRE(load_all(alone, states) == DRAGONN_OK);
    const std::vector<State> one{saved(alone)};
    REQUIRE(load_all(handles[0], one) == DRAGONN_OK);
    REQUIRE(load_all(handles[1], one) == DRAGONN_OK);
    dragonn_statistics second;
    REQUIRE(dragonn_get_statistics(handles[0], &statistics, sizeof statistics) == DRAGONN_OK);
    REQUIRE(dragonn_get_statistics(handles[1], &second, sizeof second) == DRAGONN_OK);
    CHECK(statistics.residual_norm > 0);
    CHECK(second.residual_norm == 0);

    std::swap(states[0], states[1]);
    CHECK(load_all(alone, states) == DRAGONN_ERROR_STATE);
    CHECK(std::string(dragonn_last_error()) ==
          "the saved state is refused: it is of rank 1 of 2: expected rank 0 of 2");
    std::swap(states[0], states[1]);
    both_exchange(handles);
    states[1] = saved(handles[1]);
    CHECK(load_all(alone, states) == DRAGONN_ERROR_STATE);
    CHECK(std::string(dragonn_last_error()) ==
          "the saved state is refused: those of ranks 0 and 1 are from after different exchanges");
    CHECK(dragonn_destroy(alone) == DRAGONN_OK);
    destroy_two(handles);
  }

  TEST_CASE("a rendezvous that is none is an error before anything is sent") {
    CHECK(create("", "nowhere") == nullptr);
    CHECK(std::string(dragonn_last_error()).find("nowhere") != std::string::npos);
  }
}

}  // namespace
}  // namespace dragonn::test
