// SPDX-License-Identifier: MIT
/// An exchange whose gradients begin one by one has the bits of one call, and can be given up.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/rng.h"
#include "core/short_floats.h"
#include "library/dragonn.h"
#include "tests/core/temporary_folder.h"
#include "tests/library/create.h"
#include "tests/library/two_ranks.h"
#include "trainer/config/config.h"

namespace dragonn::test {
namespace {

using Handles = std::array<dragonn_exchange_handle*, 2>;
constexpr std::size_t kTensors = 5;
constexpr std::array<std::array<std::uint64_t, 2>, kTensors> kShapes{{{20, 30}, {20, 1}, {10, 20}, {10, 1}, {6, 10}}};
using Step = std::array<std::vector<float>, kTensors>;

std::size_t elements_of(std::size_t tensor) {
  return kShapes[tensor][0] * kShapes[tensor][1];
}

dragonn_exchange_handle* create(const std::string& config, const std::string& place) {
  std::array<dragonn_tensor, kTensors> tensors;
  const std::array names{"first", "first_bias", "second", "second_bias", "third"};
  for (std::size_t i = 0; i < kTensors; ++i) tensors[i] = {names[i], kShapes[i].data(), kShapes[i][1] == 1 ? 1u : 2u};
  return create_handle(tensors, config, place);
}

std::string config_of(const std::string& method, const std::string& backend) {
  return fmt::format(
      "comm.backend = \"{}\"\noptimizer.momentum = 0.5\n[compression]\nmethod = \"{}\"\ndensity = 0.05\nfusion_mib = "
      "0\n",
      backend, method);
}

Step gradients_of(std::size_t rank, std::uint64_t step) {
  Step gradients;
  Rng stream(17, 100 * rank + step);
  for (std::size_t i = 0; i < kTensors; ++i) {
    gradients[i].resize(elements_of(i));
    for (float& value : gradients[i]) value = stream.uniform() - 0.5f;
  }
  return gradients;
}

dragonn_status begin(dragonn_exchange_handle* handle, Step& gradients, std::size_t tensor) {
  const dragonn_array gradient{tensor, gradients[tensor].data(), DRAGONN_FLOAT32};
  return dragonn_begin(handle, &gradient, 1, sizeof gradient);
}

dragonn_status at_once(dragonn_exchange_handle* handle, Step& gradients) {
  std::array<float*, kTensors> places{};
  for (std::size_t i = 0; i < kTensors; ++i) places[i] = gradients[i].data();
  return dragonn_exchange_tensors(handle, places.data(), kTensors);
}

/// Begins the tensors from the last one to the first.
dragonn_status one_by_one(dragonn_exchange_handle* handle, Step& gradients) {
  for (std::size_t i = kTensors; i-- > 0;) {
    if (begin(handle, gradients, i) != DRAGONN_OK) return DRAGONN_ERROR_SYSTEM;
  }
  return dragonn_wait(handle);
}

/// Runs a function for both ranks, each in a thread.
template <class Function>
void on_both(const Function& function) {
  std::thread first([&] { function(std::size_t{0}); });
  function(std::size_t{1});
  first.join();
}

/// Makes a step of both ranks. Returns whether all means are those of the other handles.
bool same_means(const Handles& whole, const Handles& parts, std::uint64_t step) {
  std::array<bool, 2> same{};
  on_both([&](std::size_t rank) {
    Step expected = gradients_of(rank, step), means = expected;
    same[rank] = at_once(whole[rank], expected) == DRAGONN_OK && one_by_one(parts[rank], means) == DRAGONN_OK &&
                 means == expected;
  });
  return same[0] && same[1];
}

TEST_SUITE("library") {
  TEST_CASE("gradients that begin one by one have the bits of one call, also around steps that all ranks give up") {
    for (const std::string& method : trainer::method_names()) {
      INFO(method);
      const TemporaryFolder folder;
      const auto two = [&](const char* name) {
        return both_created(folder.path() / name,
                            [&](const std::string& place) { return create(config_of(method, "tcp"), place); });
      };
      const Handles whole = two("whole"), parts = two("parts");
      CHECK(same_means(whole, parts, 0));
      // Parts in another order than the arena's, and a bucket that waits for two of them.
      constexpr std::array<std::uint64_t, kTensors> kParts{2, 0, 1, 1, 0};
      for (dragonn_exchange_handle* const handle : parts)
        REQUIRE(dragonn_set_parts(handle, kParts.data(), kTensors) == DRAGONN_OK);
      CHECK(same_means(whole, parts, 1));
      // Rank 1's last gradient holds NaN: the others are on their way already.
      on_both([&](std::size_t rank) {
        Step gradients = gradients_of(rank, 7);
        if (rank == 1) gradients[0][3] = std::numeric_limits<float>::quiet_NaN();
        const Step before = gradients_of(rank, 7);
        CHECK(one_by_one(parts[rank], gradients) == DRAGONN_ERROR_NON_FINITE);
        CHECK(std::string(dragonn_last_error()).find(rank == 1 ? "of first on rank 1" : "of another rank") !=
              std::string::npos);
        CHECK(gradients[1] == before[1]);
      });
      CHECK(same_means(whole, parts, 2));
      // Rank 0 gives up in the middle.
      on_both([&](std::size_t rank) {
        Step gradients = gradients_of(rank, 8);
        if (rank == 1) {
          CHECK(one_by_one(parts[rank], gradients) == DRAGONN_ERROR_CANCELLED);
          CHECK(std::string(dragonn_last_error()).find("another rank gave up the step") != std::string::npos);
          return;
        }
        CHECK(begin(parts[rank], gradients, 4) == DRAGONN_OK);
        CHECK(dragonn_cancel(parts[rank]) == DRAGONN_OK);
      });
      CHECK(same_means(whole, parts, 3));
      destroy_two(whole);
      destroy_two(parts);
    }
  }

  TEST_CASE("while an exchange has begun, other calls are refused") {
    dragonn_exchange_handle* const handle = create(config_of("topk", "local"), "");
    REQUIRE(handle != nullptr);
    const auto refuses = [](dragonn_status status, const char* text) {
      CHECK(status == DRAGONN_ERROR_USAGE);
      CHECK(std::string(dragonn_last_error()).find(text) != std::string::npos);
    };
    Step gradients = gradients_of(0, 0);
    std::int32_t is_done = 0;
    refuses(dragonn_wait(handle), "no exchange has begun");
    refuses(dragonn_test(handle, &is_done), "no exchange has begun");
    CHECK(dragonn_cancel(handle) == DRAGONN_OK);
    CHECK(begin(handle, gradients, 4) == DRAGONN_OK);
    refuses(begin(handle, gradients, 4), "of third is given twice");
    refuses(dragonn_wait(handle), "some tensors have not begun");
    refuses(at_once(handle, gradients), "an exchange has begun");
    std::uint64_t size = 0;
    refuses(dragonn_state_size(handle, &size), "an exchange has begun");
    refuses(dragonn_destroy(handle), "an exchange has begun");
    for (std::size_t i = 0; i < 4; ++i) CHECK(begin(handle, gradients, i) == DRAGONN_OK);
    refuses(dragonn_cancel(handle), "all tensors have begun");
    while (is_done == 0) REQUIRE(dragonn_test(handle, &is_done) == DRAGONN_OK);
    CHECK(dragonn_wait(handle) == DRAGONN_OK);
    dragonn_array wrong{5, gradients[0].data(), DRAGONN_FLOAT32};
    refuses(dragonn_begin(handle, &wrong, 1, sizeof wrong), "of tensor 5: expected 0 to 4");
    wrong = {0, nullptr, DRAGONN_FLOAT32};
    refuses(dragonn_begin(handle, &wrong, 1, sizeof wrong), "of first is a null pointer");
    wrong = {0, gradients[0].data(), 3};
    refuses(dragonn_begin(handle, &wrong, 1, sizeof wrong), "of first has the type 3");
    // A handle whose exchange has begun can be ended.
    CHECK(begin(handle, gradients, 0) == DRAGONN_OK);
    dragonn_abort(handle, "enough");
  }

  TEST_CASE("the learning rate that a handle is told ends momentum masking below masking_rate") {
    const auto sent = [](const char* masking_rate, double learning_rate) {
      dragonn_exchange_handle* const handle =
          create(config_of("topk", "local") + "memory = \"momentum_correction\"\n[compression.momentum_correction]\n" +
                     "masking_rate = " + masking_rate + "\n",
                 "");
      REQUIRE(handle != nullptr);
      REQUIRE(dragonn_set_learning_rate(handle, learning_rate) == DRAGONN_OK);
      Step gradients;
      for (std::uint64_t step = 0; step < 3; ++step) {
        gradients = gradients_of(0, step);
        REQUIRE(at_once(handle, gradients) == DRAGONN_OK);
      }
      CHECK(dragonn_destroy(handle) == DRAGONN_OK);
      return gradients;
    };
    CHECK(sent("0.5", 0.1) == sent("0.0", 0.1));
    CHECK(sent("0.5", 0.05) == sent("0.0", 0.05));
    CHECK(sent("0.5", 0.01) != sent("0.0", 0.01));
  }

  TEST_CASE("gradients of 16 bits are summed as float32, and keep their residuals as such") {
    for (const std::uint32_t dtype : {DRAGONN_BFLOAT16, DRAGONN_FLOAT16}) {
      dragonn_exchange_handle* const handle = create(config_of("topk", "local"), "");
      dragonn_exchange_handle* const wide = create(config_of("topk", "local"), "");
      const auto encode = dtype == DRAGONN_BFLOAT16 ? Bfloat16::encode : Float16::encode;
      const auto decode = dtype == DRAGONN_BFLOAT16 ? Bfloat16::decode : Float16::decode;
      for (std::uint64_t step = 0; step < 4; ++step) {
        Step expected = gradients_of(0, step);
        std::array<std::vector<std::uint16_t>, kTensors> narrow;
        std::vector<dragonn_array> gradients;
        for (std::size_t i = 0; i < kTensors; ++i) {
          for (float& value : expected[i]) {
            narrow[i].push_back(encode(value));
            value = decode(narrow[i].back());
          }
          gradients.push_back({i, narrow[i].data(), dtype});
        }
        REQUIRE(dragonn_exchange_gradients(handle, gradients.data(), kTensors, sizeof gradients[0]) == DRAGONN_OK);
        REQUIRE(at_once(wide, expected) == DRAGONN_OK);
        for (std::size_t i = 0; i < kTensors; ++i) {
          for (std::size_t j = 0; j < expected[i].size(); ++j) REQUIRE(narrow[i][j] == encode(expected[i][j]));
        }
      }
      CHECK(dragonn_destroy(handle) == DRAGONN_OK);
      CHECK(dragonn_destroy(wide) == DRAGONN_OK);
    }
    CHECK(Float16::encode(1e6f) == 0x7bff);
    CHECK(std::isinf(Float16::decode(0x7c00)));
    CHECK(std::isnan(Float16::decode(0x7e00)));
  }
}

}  // namespace
}  // namespace dragonn::test
