// SPDX-License-Identifier: MIT
/// A state that the library refuses leaves the handle as it was, for every method and every kind of damage.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/archive.h"
#include "core/rng.h"
#include "library/dragonn.h"
#include "tests/library/create.h"
#include "trainer/config/config.h"

namespace dragonn::test {
namespace {

using State = std::vector<std::byte>;
using Fields = std::map<std::string, std::vector<std::byte>>;
using Gradient = std::vector<float>;

constexpr std::array<std::uint64_t, 2> kShape{40, 25};
constexpr std::uint64_t kBias = 40;
constexpr std::size_t kElements = 40 * 25 + 40;

dragonn_exchange_handle* create(const std::string& method) {
  const std::array<dragonn_tensor, 2> tensors{{{"weight", kShape.data(), 2}, {"bias", &kBias, 1}}};
  const std::string config = fmt::format(
      "comm.backend = \"local\"\noptimizer.momentum = 0.5\n[compression]\nmethod = \"{}\"\ndensity = 0.05\n", method);
  dragonn_exchange_handle* const handle = create_handle(tensors, config);
  INFO(method, ": ", dragonn_last_error());
  REQUIRE(handle != nullptr);
  return handle;
}

Gradient gradient_of(std::uint64_t step) {
  Gradient gradient(kElements);
  Rng stream(17, step);
  for (float& value : gradient) value = stream.uniform() - 0.5f;
  return gradient;
}

Gradient mean_of(dragonn_exchange_handle* handle, std::uint64_t step) {
  Gradient gradient = gradient_of(step);
  REQUIRE(dragonn_exchange(handle, gradient.data(), gradient.size()) == DRAGONN_OK);
  return gradient;
}

State saved(dragonn_exchange_handle* handle) {
  std::uint64_t size = 0;
  REQUIRE(dragonn_state_size(handle, &size) == DRAGONN_OK);
  State state(size);
  REQUIRE(dragonn_state_save(handle, state.data(), size) == DRAGONN_OK);
  return state;
}

Fields fields_of(const State& state) {
  const Archive archive = archive_from_bytes(state, "state");
  Fields fields;
  for (const auto& [name, field] : archive.fields()) fields[name] = field.bytes;
  return fields;
}

State state_of(const Fields& fields) {
  Archive archive;
  for (const auto& [name, bytes] : fields) archive.put_field(name, {"U8", {bytes.size()}, bytes});
  return to_bytes(archive);
}

/// Returns states without one of the fields, with one that is shorter, and with one that is longer.
std::vector<std::pair<std::string, State>> with_bad_fields(const State& state) {
  const Fields fields = fields_of(state);
  std::vector<std::pair<std::string, State>> damaged;
  for (const auto& [name, bytes] : fields) {
    Fields changed = fields;
    changed.erase(name);
    damaged.emplace_back(fmt::format("without {}", name), state_of(changed));
    changed[name] = bytes;
    changed[name].push_back(std::byte{0});
    damaged.emplace_back(fmt::format("longer {}", name), state_of(changed));
    if (bytes.empty() || name == "library/config") continue;  // a shorter text can be the same config
    changed[name].resize(bytes.size() - 1);
    damaged.emplace_back(fmt::format("shorter {}", name), state_of(changed));
  }
  return damaged;
}

/// Returns states with another value in a field that a method uses as a place in the bucket.
std::vector<std::pair<std::string, State>> with_bad_places(const State& state) {
  const Fields fields = fields_of(state);
  std::vector<std::pair<std::string, State>> damaged;
  for (const auto& [name, bytes] : fields) {
    const std::string last = name.substr(name.rfind('/') + 1);
    if (bytes.empty() || (last != "lengths" && last != "positions" && last != "ranks" && last != "regions")) continue;
    for (const std::byte value : {std::byte{0xff}, std::byte{0x01}}) {
      Fields changed = fields;
      std::ranges::fill(changed[name], value);
      damaged.emplace_back(fmt::format("{} filled with {:x}", name, std::to_integer<int>(value)), state_of(changed));
    }
  }
  REQUIRE(!damaged.empty());
  return damaged;
}

/// Returns states that are cut at many places, and with a bit that differs.
std::vector<std::pair<std::string, State>> with_bad_bytes(const State& state) {
  constexpr std::size_t kPlaces = 40, kHead = 30;
  std::vector<std::pair<std::string, State>> damaged;
  const auto damage = [&](std::size_t place) {
    damaged.emplace_back(fmt::format("cut at {}", place), State(state.begin(), state.begin() + place));
    State flipped = state;
    flipped[place] ^= std::byte{0x10};
    damaged.emplace_back(fmt::format("byte {} changed", place), std::move(flipped));
  };
  for (std::size_t place = 1; place < kHead; ++place) damage(place);
  for (std::size_t i = 0; i < kPlaces; ++i) damage(kHead + (state.size() - 1 - kHead) * i / (kPlaces - 1));
  return damaged;
}

using Damage = std::vector<std::pair<std::string, State>> (*)(const State&);

/// Loads states with such damage, and compares each next mean with that of a handle that never saw one.
void check_refused(const std::string& method, Damage damage) {
  dragonn_exchange_handle* const handle = create(method);
  dragonn_exchange_handle* const untouched = create(method);
  std::uint64_t step = 0;
  for (; step < 3; ++step) REQUIRE(mean_of(handle, step) == mean_of(untouched, step));
  const State state = saved(handle);
  for (const auto& [name, damaged] : damage(state)) {
    INFO(method, ", ", name);
    // One more, so that the state is not the handle's own.
    REQUIRE(mean_of(handle, step) == mean_of(untouched, step));
    ++step;
    CHECK(dragonn_state_load(handle, damaged.data(), damaged.size()) == DRAGONN_ERROR_STATE);
    CHECK(std::strncmp(dragonn_last_error(), "the saved state", 15) == 0);
    REQUIRE(mean_of(handle, step) == mean_of(untouched, step));
    ++step;
  }
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
  CHECK(dragonn_destroy(untouched) == DRAGONN_OK);
}

TEST_SUITE("library") {
  TEST_CASE("a state without a field, or with a field of another size, changes nothing") {
    for (const std::string& method : trainer::method_names()) check_refused(method, with_bad_fields);
  }

  TEST_CASE("a state with places outside of its buckets changes nothing") {
    for (const char* const method : {"exdyna", "oktopk"}) check_refused(method, with_bad_places);
  }

  TEST_CASE("a state that is cut or has another bit changes nothing") {
    for (const char* const method : {"dense", "dgc", "exdyna"}) check_refused(method, with_bad_bytes);
  }

  TEST_CASE("a state from after an overflow is refused, and one from before it ends the overflow") {
    dragonn_exchange_handle* const handle = create("topk");
    dragonn_exchange_handle* const untouched = create("topk");
    REQUIRE(mean_of(handle, 0) == mean_of(untouched, 0));
    const State before = saved(handle);
    Gradient large(kElements, 3e38f);
    for (int step = 0; step < 2; ++step) {
      std::ranges::fill(large, 3e38f);
      CHECK(dragonn_exchange(handle, large.data(), large.size()) == DRAGONN_OK);
    }
    const State after = saved(handle);
    CHECK(dragonn_exchange(handle, large.data(), large.size()) == DRAGONN_ERROR_NON_FINITE);
    CHECK(dragonn_state_load(handle, after.data(), after.size()) == DRAGONN_ERROR_STATE);
    CHECK(std::string(dragonn_last_error()).find("NaN or infinity") != std::string::npos);
    CHECK(dragonn_state_load(handle, before.data(), before.size()) == DRAGONN_OK);
    CHECK(mean_of(handle, 1) == mean_of(untouched, 1));
    CHECK(dragonn_destroy(handle) == DRAGONN_OK);
    CHECK(dragonn_destroy(untouched) == DRAGONN_OK);
  }
}

}  // namespace
}  // namespace dragonn::test
