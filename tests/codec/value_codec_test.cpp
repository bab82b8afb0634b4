// SPDX-License-Identifier: MIT
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include <doctest/doctest.h>

#include "tests/codec/support.h"
#include "tests/support/extreme_values.h"

namespace dragonn::codec::test {
namespace {

using Values = std::vector<float>;
using Overrides = std::map<std::string, SettingValue>;

std::unique_ptr<ValueCodec> value_codec(const std::string& name, const Overrides& overrides = {}) {
  const auto& entry = Registry<ValueCodecEntry>::instance().at(name);
  Settings settings(entry.settings);
  for (const auto& [key, value] : overrides) settings.set(key, value);
  return entry.make(settings);
}

Values coded(const ValueCodec& codec, const Values& values) {
  Bytes code(codec.code_bytes(values.size()), std::byte{0xA5});
  codec.encode(std::span(values), {}, std::span(code));
  Buffer<float> scratch;
  const auto found = codec.decode(code, values.size(), scratch);
  return {found.begin(), found.end()};
}

Values coded(const std::string& name, const Values& values) {
  return coded(*value_codec(name), values);
}

Values normal_values(std::size_t count, std::uint64_t seed = 1) {
  Rng rng(5, "values", {seed});
  Values values(count);
  for (float& value : values) value = rng.normal();
  return values;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_SUITE("codec") {
  TEST_CASE("every value codec takes the bits that it states, and comes near the values") {
    const std::map<std::string, std::pair<double, double>> expected{
        // bits a value, and largest relative error in norm
        {"float32", {32, 0}},   {"float16", {16, 4e-4}}, {"bfloat16", {16, 3e-3}},
        {"int8", {8.04, 0.02}}, {"int4", {4.04, 0.3}},   {"bins2", {2.03, 0.5}},
        {"sign", {1.01, 0.7}},  {"levels", {4.3, 2}},    {"mag2", {2.01, 0.36}}};
    for (const std::string& name : Registry<ValueCodecEntry>::instance().names()) {
      INFO(name);
      REQUIRE(expected.contains(name));
      const Values values = normal_values(10240), found = coded(name, values);
      CHECK(8.0 * static_cast<double>(value_codec(name)->code_bytes(10240)) / 10240 <= expected.at(name).first);
      double error = 0, size = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        error += std::pow(values[i] - found[i], 2);
        size += std::pow(values[i], 2);
      }
      CHECK(std::sqrt(error / size) <= expected.at(name).second);
      CHECK((error == 0) == !Registry<ValueCodecEntry>::instance().at(name).lossy);
    }
  }

  TEST_CASE("every value codec takes any number of values, zeros, and what is not finite") {
    for (const std::string& name : Registry<ValueCodecEntry>::instance().names()) {
      INFO(name);
      CHECK(value_codec(name)->code_bytes(0) == 0);
      for (const std::size_t count : {1u, 2u, 7u, 1023u, 1024u, 1025u, 70000u}) {
        const Values values = normal_values(count, count);
        CHECK(coded(name, values).size() == count);
        CHECK(coded(name, values) == coded(name, values));
        const Values zeros(count, 0.0f);
        CHECK(coded(name, zeros) == zeros);
      }
      for (const float bad : {kInfinity, -kInfinity, kNan, std::numeric_limits<float>::max(), 1e-45f}) {
        Values values = normal_values(40);
        values[7] = bad;
        CHECK(coded(name, values).size() == 40);
      }
    }
  }

  TEST_CASE("finite values of any size decode to finite ones, and leave finite ones") {
    std::vector<std::pair<std::string, Overrides>> codecs{
        {"levels", {{"levels", std::int64_t{1}}, {"group", std::int64_t{1}}}},
        {"levels", {{"levels", std::int64_t{32767}}, {"group", std::int64_t{1000}}}},
        {"sign", {{"group", std::int64_t{3}}}},
        {"int4", {{"group", std::int64_t{1}}}},
        {"int8", {{"group", std::int64_t{3000}}}}};
    for (const std::string& name : Registry<ValueCodecEntry>::instance().names())
      codecs.emplace_back(name, Overrides{});
    for (const auto& [name, overrides] : codecs) {
      INFO(name);
      const auto codec = value_codec(name, overrides);
      std::size_t bad = 0;
      for (const Values& values : dragonn::test::extreme_lists()) {
        const Values decoded = coded(*codec, values);
        bad += dragonn::test::leaves_finite(values, decoded) ? 0 : 1;
      }
      CHECK(bad == 0);
    }
  }

  TEST_CASE("scales of the largest floats saturate") {
    constexpr float kLargest = std::numeric_limits<float>::max();
    for (const std::string name : {"int8", "int4", "sign", "bins2", "mag2", "levels"}) {
      INFO(name);
      const Values found = coded(name, Values(1000, kLargest));
      double mean = 0;
      for (const float value : found) mean += double{value} / 1000;
      CHECK(mean == doctest::Approx(kLargest).epsilon(name == "levels" ? 0.2 : 1e-6));
    }
    Values quarter(1000, -kLargest);
    for (std::size_t i = 0; i < quarter.size(); i += 4) quarter[i] = kLargest;
    CHECK(coded("bins2", quarter) == quarter);
  }

  TEST_CASE("value codecs and quantizers code lists, and sum the codes of whole buckets") {
    std::map<std::string, std::unique_ptr<ValueCodec>> codecs;
    for (const std::string& name : Registry<ValueCodecEntry>::instance().names()) codecs[name] = value_codec(name);
    for (const std::string& name : Registry<QuantizerEntry>::instance().names()) {
      const auto& entry = Registry<QuantizerEntry>::instance().at(name);
      codecs[name] = entry.make(Settings(entry.settings));
    }
    for (const auto& [name, codec] : codecs) {
      INFO(name);
      const Values values = normal_values(1000), decoded = coded(*codec, values);
      Bytes codes(codec->code_bytes(values.size()));
      codec->encode(std::span(values), {}, std::span(codes));
      const Bytes one = codes;
      codes.insert(codes.end(), one.begin(), one.end());
      Values sum(values.size(), kNan), left = values;
      codec->sum(std::span(std::as_const(codes)), {}, std::span(sum));
      codec->sum(std::span(one), {.keep = true, .factor = -1}, std::span(left));
      for (std::size_t i = 0; i < values.size(); ++i) {
        REQUIRE(sum[i] == decoded[i] + decoded[i]);
        REQUIRE(left[i] == values[i] - decoded[i]);
      }
      CHECK_THROWS_AS(codec->sum(std::span(std::as_const(codes)).first(codes.size() - 1), {}, std::span(sum)), Error);
    }
  }

  TEST_CASE("any bytes are a code of values") {
    Rng rng(6, "bytes");
    for (const std::string& name : Registry<ValueCodecEntry>::instance().names()) {
      const auto codec = value_codec(name);
      Bytes code(codec->code_bytes(1500));
      for (int i = 0; i < 20; ++i) {
        for (std::byte& byte : code) byte = static_cast<std::byte>(rng());
        Buffer<float> scratch;
        CHECK(codec->decode(code, 1500, scratch).size() == 1500);
      }
    }
  }

  TEST_CASE("float16 rounds to nearest even and saturates") {
    const Values values{1.0f,     -2.0f,    65504.0f, 65519.0f, 1e30f,   -kInfinity, 0x1p-24f,
                        0x1p-25f, 0x3p-25f, 0x1p-14f, -0.0f,    2049.0f, 2051.0f,    0.1f};
    const Values expected{1.0f, -2.0f,    65504.0f, 65504.0f, 65504.0f, -65504.0f, 0x1p-24f,
                          0.0f, 0x1p-23f, 0x1p-14f, -0.0f,    2048.0f,  2052.0f,   0.0999755859375f};
    CHECK(coded("float16", values) == expected);
    CHECK(std::isnan(coded("float16", {kNan})[0]));
  }

  TEST_CASE("bfloat16 rounds to nearest even and saturates") {
    const float largest = std::bit_cast<float>(0x7f7f0000u);
    CHECK(coded("bfloat16", {1.0f, 257.0f, 259.0f, -3.0f, kInfinity, -std::numeric_limits<float>::max()}) ==
          Values{1.0f, 256.0f, 260.0f, -3.0f, largest, -largest});
    CHECK(std::isnan(coded("bfloat16", {kNan})[0]));
  }

  TEST_CASE("integers are multiples of the largest magnitude's share, nearest even") {
    CHECK(coded("int4", {7, -7, 2.5f, 3.5f, -0.4f, 0}) == Values{7, -7, 2, 4, 0, 0});
    CHECK(coded("int8", {127, -126.6f, 0.5f, 1.5f}) == Values{127, -127, 0, 2});
    const auto pairs = value_codec("int4", {{"group", std::int64_t{2}}});
    CHECK(coded(*pairs, {7, -7, 0.5f, 3.5f, -0.4f}) == Values{7, -7, 0.5f, 3.5f, -0.4f});
    CHECK(pairs->code_bytes(5) == 2 * 5 + 5);
    const auto whole = value_codec("int8", {{"group", std::int64_t{1} << 31}});
    CHECK(whole->code_bytes(10000) == 4 + 10000);
  }

  TEST_CASE("bins2 gives the specification's example") {
    const Values values{4, -4, 1, -1, .5f, -.5f, 3, -2};
    CHECK(value_codec("bins2")->code_bytes(8) == 20 + 2);
    CHECK(coded("bins2", values) == Values{3.5f, -3, 0, 0, 0, 0, 3.5f, -3});
  }

  TEST_CASE("mag2 gives the specification's example, and either magnitude to values that are all alike") {
    const float high = 11.0f / 3;
    CHECK(value_codec("mag2")->code_bytes(8) == 8 + 2);
    CHECK(coded("mag2", {4, -4, 1, -1, .5f, -.5f, 3, -2}) == Values{high, -high, 1, -1, 1, -1, high, -1});
    for (const float value : {3.0f, -0.1f, 1e-45f}) CHECK(coded("mag2", Values(1000, value)) == Values(1000, value));
  }

  TEST_CASE("mag2 halves the error of sign on the largest of many values") {
    const auto largest_of = [](const auto& draw) {
      Values values;
      for (std::uint64_t tile = 0; tile < 100; ++tile) {
        Values drawn = draw(normal_values(4096, tile));
        std::ranges::nth_element(drawn, drawn.begin() + 64, std::greater(), [](float x) { return std::abs(x); });
        values.insert(values.end(), drawn.begin(), drawn.begin() + 64);
      }
      return values;
    };
    const auto error_of = [](const std::string& codec, const Values& values) {
      double error = 0, size = 0;
      for (std::size_t begin = 0; begin < values.size(); begin += 64) {
        const Values part(values.begin() + static_cast<std::ptrdiff_t>(begin),
                          values.begin() + static_cast<std::ptrdiff_t>(begin + 64));
        const Values decoded = coded(codec, part);
        for (std::size_t i = 0; i < part.size(); ++i) {
          error += std::pow(part[i] - decoded[i], 2);
          size += std::pow(part[i], 2);
        }
      }
      return std::sqrt(error / size);
    };
    const Values normal = largest_of([](Values values) { return values; });
    const Values laplace = largest_of([](Values values) {
      for (float& value : values) value = std::copysign(-std::log(std::erfc(std::abs(value) * std::sqrt(0.5f))), value);
      return values;
    });
    const std::map<std::string, std::pair<double, double>> expected{
        {"mag2", {0.065, 0.115}}, {"bins2", {0.111, 0.190}}, {"sign", {0.111, 0.192}}};
    for (const auto& [name, error] : expected) {
      INFO(name);
      CHECK(error_of(name, normal) == doctest::Approx(error.first).epsilon(0.03));
      CHECK(error_of(name, laplace) == doctest::Approx(error.second).epsilon(0.03));
    }
  }

  TEST_CASE("sign is the sign times the mean magnitude, of all values or of groups") {
    CHECK(coded("sign", {1, -2, 3, -6}) == Values{3, -3, 3, -3});
    CHECK(coded(*value_codec("sign", {{"group", std::int64_t{2}}}), {1, -2, 3, -6}) ==
          Values{1.5f, -1.5f, 4.5f, -4.5f});
  }

  TEST_CASE("levels are right in the mean") {
    const auto codec = value_codec("levels", {{"levels", std::int64_t{4}}, {"group", std::int64_t{4}}});
    double sum = 0, total = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const Values values = normal_values(4, i);
      sum += coded(*codec, values)[0] - values[0];
      total += 1;
    }
    CHECK(std::abs(sum / total) < 0.03);  // four standard errors of a rounding by half a level of a norm of 2
    CHECK(coded(*codec, {3, 4}) == coded(*codec, {3, 4}));  // no state
  }

  TEST_CASE("levels of many equal values are right in the mean") {
    const Values values(std::size_t{1} << 16, 0.25f), found = coded("levels", values);
    double mean = 0;
    for (const float value : found) mean += double{value} / static_cast<double>(values.size());
    // A share of sqrt(1/128) of the norm, at 7 levels, deviates by 0.79 of the value: four standard errors.
    CHECK(std::abs(mean / 0.25 - 1) < 4 * 0.79 / 256);
    // So are those of values near 0.
    const Values tiny(values.size(), 1e-41f), drawn = coded("levels", tiny);
    mean = 0;
    for (const float value : drawn) mean += double{value} / double{1e-41f} / static_cast<double>(tiny.size());
    CHECK(mean == doctest::Approx(1).epsilon(0.2));  // some 110 of them are drawn
  }
}

}  // namespace
}  // namespace dragonn::codec::test
