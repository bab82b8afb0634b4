// SPDX-License-Identifier: MIT
#include "core/memory_ledger.h"

#include <array>
#include <string>
#include <thread>

#include <doctest/doctest.h>

namespace dragonn {
namespace {

TEST_SUITE("core") {
  TEST_CASE("a ledger tells bytes by label, largest first, of what is not released") {
    MemoryLedger ledger;
    const std::array<char, 4> places{};
    CHECK(ledger.describe() == "nothing");
    ledger.add(&places[0], 10);
    {
      const MemoryLabel activations("activations");
      ledger.add(&places[1], 100);
      const MemoryLabel selections("selections");
      ledger.add(&places[2], 30);
    }
    ledger.add(&places[3], 5);
    CHECK(ledger.describe() == "activations 100, selections 30, other things 15");
    ledger.remove(&places[1]);
    ledger.remove(&places[1]);
    CHECK(ledger.describe() == "selections 30, other things 15");
  }

  TEST_CASE("a memory label holds for its thread, until its scope ends") {
    const MemoryLabel outer("outer");
    std::string elsewhere;
    {
      const MemoryLabel inner("inner");
      std::thread([&] { elsewhere = MemoryLabel::current(); }).join();
      CHECK(std::string(MemoryLabel::current()) == "inner");
    }
    CHECK(std::string(MemoryLabel::current()) == "outer");
    CHECK(elsewhere == "other things");
  }
}

}  // namespace
}  // namespace dragonn
