// SPDX-License-Identifier: MIT
/// Two ranks of the library in one process: calls of two threads, and the state of another number of ranks.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "library/dragonn.h"
#include "tests/core/temporary_folder.h"

namespace dragonn::test {
namespace {

constexpr std::array<std::uint64_t, 2> kShape{20, 30};
constexpr dragonn_tensor kTensor{"weight", kShape.data(), 2};
constexpr const char* kTopk = "[compression]\nmethod = \"topk\"\ndensity = 0.05\n[comm]\n";
using Gradient = std::array<float, 600>;

/// Creates both ranks of a group that meets in a file.
std::array<dragonn_exchange_handle*, 2> create_two(const std::filesystem::path& rendezvous) {
  const std::string config = fmt::format("{}backend = \"tcp\"\n", kTopk),
                    place = fmt::format("file:{}", rendezvous.string());
  std::array<dragonn_exchange_handle*, 2> handles{};
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("RANK", "0", 1);
  std::thread first([&] { dragonn_create_at(place.c_str(), config.c_str(), &kTensor, 1, 0, &handles[0]); });
  // Rank 0 has read the environment when it has written its address.
  while (!std::filesystem::exists(rendezvous)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::setenv("RANK", "1", 1);
  const dragonn_status second = dragonn_create_at(place.c_str(), config.c_str(), &kTensor, 1, 0, &handles[1]);
  first.join();
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("RANK");
  REQUIRE(second == DRAGONN_OK);
  REQUIRE(handles[0] != nullptr);
  return handles;
}

void destroy_two(const std::array<dragonn_exchange_handle*, 2>& handles) {
  std::thread first([&] { dragonn_destroy(handles[0]); });
  CHECK(dragonn_destroy(handles[1]) == DRAGONN_OK);
  first.join();
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

  TEST_CASE("the state of another number of ranks, or of another rank, is refused") {
    const TemporaryFolder folder;
    const auto handles = create_two(folder.path() / "rendezvous");
    dragonn_exchange_handle* alone = nullptr;
    REQUIRE(dragonn_create(fmt::format("{}backend = \"local\"\n", kTopk).c_str(), &kTensor, 1, 0, &alone) ==
            DRAGONN_OK);
    const auto refuses = [](dragonn_exchange_handle* to, dragonn_exchange_handle* from, const std::string& text) {
      std::uint64_t size = 0;
      REQUIRE(dragonn_state_size(from, &size) == DRAGONN_OK);
      std::vector<std::byte> state(size);
      REQUIRE(dragonn_state_save(from, state.data(), size) == DRAGONN_OK);
      CHECK(dragonn_state_load(to, state.data(), size) == DRAGONN_ERROR_STATE);
      CHECK(std::string(dragonn_last_error()) == "the saved state is refused: it is of " + text);
    };
    refuses(handles[0], alone, "rank 0 of 1: expected rank 0 of 2");
    refuses(handles[0], handles[1], "rank 1 of 2: expected rank 0 of 2");
    CHECK(dragonn_destroy(alone) == DRAGONN_OK);
    destroy_two(handles);
  }

  TEST_CASE("a rendezvous that is none is an error before anything is sent") {
    dragonn_exchange_handle* handle = nullptr;
    CHECK(dragonn_create_at("nowhere", "", &kTensor, 1, 0, &handle) == DRAGONN_ERROR_CONFIG);
    CHECK(std::string(dragonn_last_error()).find("nowhere") != std::string::npos);
    CHECK(handle == nullptr);
  }
}

}  // namespace
}  // namespace dragonn::test
