// SPDX-License-Identifier: MIT
#include "kernels/gradient/quantize.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/targets.h>
#include <omp.h>

#include "core/rng.h"
#include "kernels/uniform_draws.h"
#include "tests/support/devices.h"
#include "tests/support/extreme_values.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::kernels;
using dragonn::test::on_device;
using dragonn::test::poisoned;
using dragonn::test::to_host;

namespace {

using Vector = std::vector<float>;
using Bytes = std::vector<std::byte>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint64_t kKey = 0x0123456789abcdefull;

View<const float> in(const Vector& values) {
  return std::span<const float>(values);
}
View<float> out(Vector& values) {
  return std::span<float>(values);
}
View<const std::byte> in(const Bytes& code) {
  return std::span<const std::byte>(code);
}
View<std::byte> out(Bytes& code) {
  return std::span<std::byte>(code);
}

Vector normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "quantize test");
  Vector values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

Bytes sign_code(const Vector& values, float scale, const Device& device = {}) {
  Buffer<std::byte> code = on_device(Bytes(sign_code_bytes(values.size()), std::byte{0xff}), device);
  const Buffer<float> input = on_device(values, device);
  encode_signs(input.view(), scale, code.view());
  return to_host(code.view());
}

Bytes level_code(const Vector& values, const LevelFormat& format, std::uint64_t key = kKey, const Device& device = {}) {
  Buffer<std::byte> code = on_device(Bytes(level_code_bytes(values.size(), format), std::byte{0xff}), device);
  const Buffer<float> input = on_device(values, device);
  encode_levels(input.view(), format, key, code.view());
  return to_host(code.view());
}

Vector decoded_levels(const Bytes& codes, const LevelFormat& format, std::size_t numel, const Device& device = {}) {
  const Buffer<std::byte> input = on_device(codes, device);
  Buffer<float> sum = poisoned(numel, device);
  decode_levels(input.view(), format, {}, sum.view());
  return to_host(sum.view());
}

bool all_finite(const Vector& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

Vector decoded_signs(const Bytes& codes, const DecodeRule& rule, const Vector& before, const Device& device) {
  const Buffer<std::byte> input = on_device(codes, device);
  Buffer<float> sum = on_device(before, device);
  decode_signs(input.view(), rule, sum.view());
  return to_host(sum.view());
}

Bytes joined(const std::vector<Bytes>& codes) {
  Bytes all;
  for (const Bytes& code : codes) all.insert(all.end(), code.begin(), code.end());
  return all;
}

/// Runs `body` on every instruction set of this machine, on every number of threads.
void for_each_way(const std::function<void()>& body) {
  const int threads_before = omp_get_max_threads();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const int threads : dragonn::test::kThreadCounts) {
      omp_set_num_threads(threads);
      CAPTURE(hwy::TargetName(target));
      CAPTURE(threads);
      body();
    }
  }
  omp_set_num_threads(threads_before);
  hwy::SetSupportedTargetsForTest(0);
}

// Around the lengths of words, vectors and groups, and one of several pieces for threads.
const std::vector<std::size_t> kSizes{0, 1, 2, 31, 32, 33, 64, 127, 128, 129, 1000, 150001};

/// Section 3.1 of QSGD, one element at a time.
Vector expected_levels(const Vector& values, const LevelFormat& format, std::uint64_t key) {
  Rng rng(key);
  Vector result(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += format.group) {
    const std::size_t end = std::min(values.size(), begin + format.group);
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i) squares += static_cast<double>(values[i]) * values[i];
    const auto norm = static_cast<float>(std::sqrt(squares));
    const auto levels = static_cast<float>(format.levels);
    for (std::size_t i = begin; i < end; ++i) {
      const float y = norm == 0 ? 0 : std::min(levels, std::fabs(values[i]) / norm * levels);
      const float level = std::floor(y) + (rng.uniform() < y - std::floor(y) ? 1.0f : 0.0f);
      result[i] = norm / levels * std::copysign(level, values[i]);
    }
  }
  return result;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("uniform_draws gives a stream's numbers, from any place in it") {
    for_each_way([] {
      for (const std::uint64_t block : {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 32) - 3}) {
        for (std::size_t skipped = 0; skipped < 4; ++skipped) {
          for (const std::size_t count : {0, 1, 5, 64, 203}) {
            Rng rng(kKey, block);
            for (std::size_t i = 0; i < skipped; ++i) rng();
            Vector draws(count + 1, -1.0f);
            uniform_draws(kKey, 4 * block + skipped, std::span(draws).first(count));
            for (std::size_t i = 0; i < count; ++i) REQUIRE(draws[i] == rng.uniform());
            REQUIRE(draws.back() == -1.0f);
          }
        }
      }
    });
  }

  DRAGONN_DEVICE_TEST("a sign code is the scale and a bit per element, and takes zeros of both signs for positive") {
    CHECK(sign_code_bytes(0) == 4);
    CHECK(sign_code_bytes(32) == 8);
    CHECK(sign_code_bytes(33) == 12);
    Vector values(33, -1.0f);
    for (const std::size_t positive : {0, 4, 31, 32}) values[positive] = 2;
    values[8] = 0.0f;
    values[9] = -0.0f;
    const Bytes code = sign_code(values, 1.5f, device);
    std::uint32_t words[3];
    std::memcpy(words, code.data(), sizeof words);
    CHECK(std::bit_cast<float>(words[0]) == 1.5f);
    CHECK(words[1] == (1u | 1u << 4 | 1u << 8 | 1u << 9 | 1u << 31));
    CHECK(words[2] == 1u);  // nothing behind the last element
  }

  TEST_CASE("decoded signs are added in the codes' order, on every instruction set") {
    for (const std::size_t size : kSizes) {
      for (const std::size_t ranks : {1, 2, 5}) {
        std::vector<Bytes> codes;
        Vector expected(size, 0.0f);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const Vector values = normals(size, rank);
          const float scale = 0.1f + 0.3f * static_cast<float>(rank);
          codes.push_back(sign_code(values, scale));
          for (std::size_t i = 0; i < size; ++i) expected[i] += values[i] >= 0 ? scale : -scale;
        }
        const Bytes all = joined(codes);
        for_each_way([&] {
          CHECK(sign_code(normals(size, 0), 0.1f) == codes[0]);
          Vector sum(size, kNan);
          decode_signs(in(all), {}, out(sum));
          CHECK(sum == expected);
        });
      }
    }
  }

  TEST_CASE("a code can be taken from what was encoded") {
    const Vector values = normals(1000, 5);
    const LevelFormat format{.group = 96, .levels = 31};
    const Bytes signs = sign_code(values, 0.75f);
    const Bytes levels = level_code(values, format);
    const Vector decoded = decoded_levels(levels, format, values.size());
    for_each_way([&] {
      Vector rest = values;
      decode_signs(in(signs), {.keep = true, .factor = -1}, out(rest));
      for (std::size_t i = 0; i < rest.size(); ++i) REQUIRE(rest[i] == values[i] - std::copysign(0.75f, values[i]));
      rest = values;
      decode_levels(in(levels), format, {.keep = true, .factor = -1}, out(rest));
      for (std::size_t i = 0; i < rest.size(); ++i) REQUIRE(rest[i] == values[i] - decoded[i]);
    });
  }

  TEST_CASE("a level code has the bytes of its norms and levels") {
    CHECK(level_code_bytes(0, {}) == 0);
    CHECK(level_code_bytes(128, {}) == 128 + 4);
    CHECK(level_code_bytes(1000, {}) == 1000 + 4 * 8);
    CHECK(level_code_bytes(10, {.group = 3, .levels = 1}) == 10 + 4 * 4);
    CHECK_THROWS_AS(level_code_bytes(10, {.group = 0}), Error);
    CHECK_THROWS_AS(level_code_bytes(10, {.levels = 128}), Error);
  }

  TEST_CASE("levels of [3, 4] with q = 4: 2.4 and 3.2, rounded by the draws") {
    // Draws of 0.5 give [2.5, 3.75], draws of 0.1 give [3.75, 5].
    const LevelFormat format{.group = 128, .levels = 4};
    bool seen_low = false, seen_high = false;
    for (std::uint64_t key = 0; key < 100; ++key) {
      Vector draws(2);
      uniform_draws(key, 0, draws);
      const Vector decoded = decoded_levels(level_code({3, 4}, format, key), format, 2);
      CHECK(decoded[0] == (draws[0] < 0.4f ? 3.75f : 2.5f));
      CHECK(decoded[1] == (draws[1] < 0.2f ? 5.0f : 3.75f));
      seen_low = seen_low || decoded == Vector{2.5f, 3.75f};
      seen_high = seen_high || decoded == Vector{3.75f, 5.0f};
    }
    CHECK(seen_low);
    CHECK(seen_high);
  }

  TEST_CASE("levels are those of the definition, element by element, on every instruction set") {
    for (const std::size_t size : kSizes) {
      for (const LevelFormat format :
           {LevelFormat{}, LevelFormat{.group = 7, .levels = 1}, LevelFormat{.group = 5000}}) {
        Vector values = normals(size, 3);
        for (std::size_t i = 0; i < size / 4; ++i) values[i] = 0;  // groups of zeros, and one with zeros
        const Vector expected = expected_levels(values, format, kKey);
        const Bytes code = level_code(values, format);
        for_each_way([&] {
          CHECK(level_code(values, format) == code);
          CHECK(decoded_levels(code, format, size) == expected);
        });
      }
    }
  }

  DRAGONN_DEVICE_TEST("decoded levels are added in the codes' order") {
    const LevelFormat format{.group = 100, .levels = 127};
    const std::size_t size = 4321;
    std::vector<Bytes> codes;
    Vector expected(size, 0.0f);
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      codes.push_back(level_code(normals(size, rank), format, rank, device));
      const Vector one = decoded_levels(codes.back(), format, size, device);
      for (std::size_t i = 0; i < size; ++i) expected[i] += one[i];
    }
    CHECK(decoded_levels(joined(codes), format, size, device) == expected);
  }

  DRAGONN_DEVICE_TEST(
      "levels and signs are those of the definition on every device, and can be taken from what was encoded") {
    for (const std::size_t size : kSizes) {
      Vector values = normals(size, 3);
      for (std::size_t i = 0; i < size / 4; ++i) values[i] = 0;
      for (const LevelFormat format : {LevelFormat{}, LevelFormat{.group = 7, .levels = 1}}) {
        const Bytes code = level_code(values, format, kKey, device);
        const Vector expected = expected_levels(values, format, kKey);
        CHECK(decoded_levels(code, format, size, device) == expected);
        const Buffer<std::byte> input = on_device(code, device);
        Buffer<float> rest = on_device(values, device);
        decode_levels(input.view(), format, {.keep = true, .factor = -1}, rest.view());
        Vector left = values;
        for (std::size_t i = 0; i < size; ++i) left[i] += -expected[i];
        CHECK(to_host(rest.view()) == left);
      }
      const Vector others = normals(size, 4);
      const Bytes signs = joined({sign_code(values, 0.75f, device), sign_code(others, 0.5f, device)});
      Vector sum(size, 0.0f);
      for (std::size_t i = 0; i < size; ++i)
        sum[i] = (values[i] >= 0 ? 0.75f : -0.75f) + (others[i] >= 0 ? 0.5f : -0.5f);
      CHECK(decoded_signs(signs, {}, Vector(size, kNan), device) == sum);
    }
  }

  TEST_CASE("levels are unbiased") {
    const Vector values{0.3f, -1.0f, 0.001f, 2.0f, -0.7f};
    const LevelFormat format{.levels = 3};
    constexpr int kRounds = 20000;
    std::vector<double> mean(values.size(), 0.0);
    for (std::uint64_t key = 0; key < kRounds; ++key) {
      const Vector decoded = decoded_levels(level_code(values, format, key), format, values.size());
      for (std::size_t i = 0; i < values.size(); ++i) mean[i] += decoded[i] / kRounds;
    }
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    // A level is a norm / 3 and a draw between two of them deviates by half of that at most: five standard errors.
    const double tolerance = 5 * std::sqrt(squares) / 3 / 2 / std::sqrt(kRounds);
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(mean[i] - values[i]) < tolerance);
  }

  TEST_CASE(
      "magnitudes from the smallest to the largest float keep their norm, and what is not finite decodes to no finite "
      "number") {
    const LevelFormat format;
    const float smallest = std::numeric_limits<float>::denorm_min();
    const float largest = std::numeric_limits<float>::max();
    for (const float value : {smallest, 1e-30f, 1e30f, largest}) {
      const Bytes code = level_code({value, 0, 0}, format);
      float norm = 0;
      std::memcpy(&norm, code.data(), sizeof norm);
      CHECK(std::isfinite(norm));
      std::int8_t levels[3];
      std::memcpy(levels, code.data() + 4, sizeof levels);
      CHECK(levels[0] == 127);
      CHECK(levels[1] == 0);
    }
    for (const Vector& bad : {Vector{1, kNan}, Vector{kInfinity, 1}}) {
      for_each_way([&] { CHECK_FALSE(all_finite(decoded_levels(level_code(bad, format), format, 2))); });
    }
  }

  DRAGONN_DEVICE_TEST("levels of finite values are finite, and can be taken from them") {
    for (const LevelFormat format : {LevelFormat{}, LevelFormat{.group = 3, .levels = 1}, LevelFormat{.levels = 7}}) {
      for (const Vector& values : dragonn::test::extreme_lists()) {
        const Bytes code = level_code(values, format, kKey, device);
        REQUIRE(dragonn::test::leaves_finite(values, decoded_levels(code, format, values.size(), device)));
        for_each_way([&] { REQUIRE(level_code(values, format) == code); });
      }
    }
  }

  TEST_CASE("codes of other lengths are refused") {
    Vector values(40, 1.0f);
    Bytes code(11);
    CHECK_THROWS_AS(encode_signs(in(values), 1, out(code)), ShapeError);
    CHECK_THROWS_AS(decode_signs(in(code), {}, out(values)), ShapeError);
    CHECK_THROWS_AS(encode_levels(in(values), {}, kKey, out(code)), ShapeError);
    CHECK_THROWS_AS(decode_levels(in(code), {}, {}, out(values)), ShapeError);
  }
}
