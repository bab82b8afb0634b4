// SPDX-License-Identifier: MIT
#include "core/pieces.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_SUITE_BEGIN("core");

TEST_CASE("pieces: a message of several places is read from any byte on") {
  const std::string elsewhere = "in memory";
  Pieces message;
  {
    Pieces first, second;
    first.add("Some");
    first.refer_to({});
    first.refer_to(std::as_bytes(std::span(elsewhere)));
    second.add("");
    second.add("!");
    message.append(first);
    message.append(second);
  }
  const std::string whole = "Somein memory!";
  CHECK(message.size() == whole.size());
  CHECK(text_of(message.bytes()) == whole);
  for (std::size_t begin = 0; begin <= whole.size(); ++begin)
    for (std::size_t size = 0; begin + size <= whole.size(); ++size) {
      std::vector<std::byte> part(size);
      message.copy_to(begin, part);
      CHECK(text_of(part) == whole.substr(begin, size));
    }
  std::array<std::byte, 2> beyond{};
  CHECK_THROWS_AS(message.copy_to(whole.size() - 1, beyond), Error);
}

TEST_SUITE_END();

}  // namespace dragonn
