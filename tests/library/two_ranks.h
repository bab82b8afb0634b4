// SPDX-License-Identifier: MIT
/// Two ranks of the library in one process.
#pragma once

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "library/dragonn.h"

namespace dragonn::test {

/// Creates both ranks of a group that meets in a file, or null where that fails. @param create makes a handle with this
/// rendezvous, for rank 0 and for rank 1.
template <class Create>
std::array<dragonn_exchange_handle*, 2> try_both(const std::filesystem::path& rendezvous, const Create& create) {
  const std::string place = fmt::format("file:{}", rendezvous.string());
  std::array<dragonn_exchange_handle*, 2> handles{};
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("RANK", "0", 1);
  std::thread first([&] { handles[0] = create(place); });
  // Rank 0 has read the environment when it has written its address.
  while (!std::filesystem::exists(rendezvous)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::setenv("RANK", "1", 1);
  handles[1] = create(place);
  first.join();
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("RANK");
  return handles;
}

/// The same, which succeeds.
template <class Create>
std::array<dragonn_exchange_handle*, 2> both_created(const std::filesystem::path& rendezvous, const Create& create) {
  const std::array<dragonn_exchange_handle*, 2> handles = try_both(rendezvous, create);
  REQUIRE(handles[0] != nullptr);
  REQUIRE(handles[1] != nullptr);
  return handles;
}

inline void destroy_two(const std::array<dragonn_exchange_handle*, 2>& handles) {
  std::thread first([&] { dragonn_destroy(handles[0]); });
  CHECK(dragonn_destroy(handles[1]) == DRAGONN_OK);
  first.join();
}

}  // namespace dragonn::test
