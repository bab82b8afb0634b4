// SPDX-License-Identifier: MIT
/// Claims about every backend: the local tests and the MPI program run the same bodies.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>

#include "comm/communicator.h"

namespace dragonn::comm::test {

/// Claims run in groups of so many ranks, and those that cost little in kManyWorlds.
#ifdef __SANITIZE_THREAD__
inline constexpr std::array kWorlds{3};  // in which threads race, or in none
inline constexpr std::array kManyWorlds = kWorlds;
#elif defined(__SANITIZE_ADDRESS__)
// Faults that sanitizers find show with these numbers or not at all: one rank, a power of two, another number.
inline constexpr std::array kWorlds{1, 2, 5};
inline constexpr std::array kManyWorlds = kWorlds;
#else
inline constexpr std::array kWorlds{1, 2, 3, 4, 5, 7, 8};
inline constexpr std::array kManyWorlds{1, 2, 3, 4, 5, 7, 8, 16};
#endif

/// All ranks run `body`, which throws if the claim is false. It must hold for any number of ranks.
struct Case {
  const char* claim;
  void (*body)(Communicator&);
};

std::span<const Case> message_cases();
std::span<const Case> notification_cases();
std::span<const Case> allreduce_cases();
std::span<const Case> collective_cases();
std::span<const Case> sparse_cases();
std::span<const Case> conservation_cases();
std::span<const Case> agreed_cases();
std::span<const Case> region_cases();
std::span<const Case> gtopk_cases();
std::span<const Case> oktopk_cases();

/// A hash over the results of the own collectives on random floats: equal on all ranks and backends.
std::uint64_t digest(Communicator& communicator);

/// A hash over the results of the sparse collectives in all their modes, over steps with error feedback.
std::uint64_t sparse_digest(Communicator& communicator);

/// Checks a claim outside of the main thread, where doctest's assertions are not usable. @throws Error with the place.
void expect(bool condition, std::string_view claim, std::source_location where = std::source_location::current());

}  // namespace dragonn::comm::test
