// SPDX-License-Identifier: MIT
// Contract tests: the promises of every quantizer, with every memory that it may have, and the vectors of the two.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "core/rng.h"
#include "tests/compress/support.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/extreme_values.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Vector = std::vector<float>;
using Bytes = std::vector<std::byte>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<codec::ValueCodec> make_quantizer(const std::string& name, const Overrides& overrides = {}) {
  return Registry<codec::QuantizerEntry>::instance().at(name).make(settings_of<codec::QuantizerEntry>(name, overrides));
}

Vector normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "quantizer test");
  Vector values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

/// Runs compensate and encode.
void encode_step(const codec::ValueCodec& quantizer, Memory& memory, codec::EncodeContext context,
                 const Vector& gradient, Bytes& code) {
  context.pass = &memory.compensate(quantizer.plan(), view(gradient), 1.0f);
  quantizer.encode(memory.accumulated(), context, std::span<std::byte>(code));
}

Bytes encode(const codec::ValueCodec& quantizer, const codec::EncodeContext& context, const Vector& acc) {
  Bytes code(quantizer.code_bytes(acc.size()));
  const auto memory = make_memory("none", acc.size());
  encode_step(quantizer, *memory, context, acc, code);
  return code;
}

Vector decode(const codec::ValueCodec& quantizer, const Bytes& codes, std::size_t numel) {
  Vector sum(numel, kNan);
  quantizer.sum(std::span<const std::byte>(codes), {}, std::span<float>(sum));
  return sum;
}

std::vector<std::string> names() {
  return Registry<codec::QuantizerEntry>::instance().names();
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("signsgd sends signs and the mean magnitude: [1,-2,3,0] leaves [-.5,-.5,1.5,-1.5]") {
    const auto quantizer = make_quantizer("signsgd");
    const auto memory = make_memory("residual", 4);
    Bytes code(quantizer->code_bytes(4));
    encode_step(*quantizer, *memory, {}, {1, -2, 3, 0}, code);
    CHECK(decode(*quantizer, code, 4) == Vector{1.5f, -1.5f, 1.5f, 1.5f});
    memory->settle({.codec = quantizer.get(), .code = std::span<const std::byte>(code)});
    CHECK(values(memory->residual()) == Vector{-.5f, -.5f, 1.5f, -1.5f});
    memory->compensate({}, view({0, 0, 0, 1}), 1.0f);
    CHECK(values(memory->accumulated()) == Vector{-.5f, -.5f, 1.5f, -.5f});
  }

  TEST_CASE("codes have the bytes of their formulas") {
    for (const std::size_t n : {1, 31, 32, 33, 128, 1000, 4096}) {
      CHECK(make_quantizer("signsgd")->code_bytes(n) == 4 * ((n + 31) / 32 + 1));
      CHECK(make_quantizer("qsgd")->code_bytes(n) == n + 4 * ((n + 127) / 128));
      CHECK(make_quantizer("qsgd", {{"group", std::int64_t{32}}})->code_bytes(n) == n + 4 * ((n + 31) / 32));
    }
  }

  TEST_CASE("qsgd draws anew for every seed, step, bucket and rank, and never else") {
    const Vector acc = normals(1000, 1);
    const auto quantizer = make_quantizer("qsgd");
    const Bytes code = encode(*quantizer, {}, acc);
    CHECK(encode(*quantizer, {}, acc) == code);
    for (const codec::EncodeContext& other : {codec::EncodeContext{.seed = 2}, codec::EncodeContext{.step = 1},
                                              codec::EncodeContext{.rank = 1}, codec::EncodeContext{.bucket = 1}}) {
      CHECK(encode(*quantizer, other, acc) != code);
    }
  }

  TEST_CASE("qsgd is within one level of every entry, at any number of levels") {
    for (const std::int64_t levels : {1, 4, 127}) {
      const Vector acc = normals(300, 2);
      const auto quantizer = make_quantizer("qsgd", {{"levels", levels}, {"group", std::int64_t{300}}});
      double squares = 0;
      for (const float value : acc) squares += static_cast<double>(value) * value;
      // A level, and float32 roundings of the quotient and the product.
      const double step = std::sqrt(squares) / static_cast<double>(levels) * (1 + 1e-5);
      const Vector decoded = decode(*quantizer, encode(*quantizer, {}, acc), acc.size());
      for (std::size_t i = 0; i < acc.size(); ++i) REQUIRE(std::abs(decoded[i] - acc[i]) <= step);
    }
  }

  TEST_CASE("every quantizer passes through vectors of no, one and few elements, zeros and ties") {
    for (const std::string& name : names()) {
      CAPTURE(name);
      for (const std::size_t size : {0, 1, 2, 17, 3000}) {
        const auto quantizer = make_quantizer(name);
        for (const float value : {0.0f, 1.0f, -1.0f}) {
          const Bytes code = encode(*quantizer, {}, Vector(size, value));
          const Vector decoded = decode(*quantizer, code, size);
          for (const float seen : decoded) REQUIRE(std::isfinite(seen));
          if (value == 0) CHECK(decoded == Vector(size, 0.0f));
          if (size == 1) CHECK(decoded[0] == doctest::Approx(value).epsilon(1e-6));  // one entry is its own norm
        }
      }
    }
  }

  TEST_CASE("a NaN or an infinity in acc decodes to no finite number") {
    for (const std::string& name : names()) {
      CAPTURE(name);
      for (const float bad : {kNan, -kNan, std::numeric_limits<float>::infinity()}) {
        for (const std::size_t place : {0, 500, 999}) {
          Vector acc = normals(1000, 3);
          acc[place] = bad;
          const auto quantizer = make_quantizer(name);
          const Vector decoded = decode(*quantizer, encode(*quantizer, {}, acc), acc.size());
          CHECK_FALSE(std::isfinite(decoded[place]));
        }
      }
    }
  }

  TEST_CASE("finite values of any size decode to finite ones, and leave finite ones, with every quantizer") {
    std::vector<std::pair<std::string, Overrides>> quantizers{
        {"qsgd", {{"levels", std::int64_t{1}}, {"group", std::int64_t{1000}}}}};
    for (const std::string& name : names()) quantizers.emplace_back(name, Overrides{});
    for (const auto& [name, overrides] : quantizers) {
      CAPTURE(name);
      std::size_t bad = 0;
      for (const Vector& acc : dragonn::test::extreme_lists()) {
        const auto quantizer = make_quantizer(name, overrides);
        const Bytes code = encode(*quantizer, {}, acc);
        Vector left = acc;
        quantizer->sum(std::span<const std::byte>(code), {.keep = true, .factor = -1}, std::span<float>(left));
        bad += dragonn::test::leaves_finite(acc, decode(*quantizer, code, acc.size())) ? 0 : 1;
        bad += std::ranges::all_of(left, [](float value) { return std::isfinite(value); }) ? 0 : 1;
      }
      CHECK(bad == 0);
    }
  }

  TEST_CASE("every quantizer decodes a list of codes to their sum, in order") {
    for (const std::string& name : names()) {
      CAPTURE(name);
      const std::size_t size = 777;
      const auto quantizer = make_quantizer(name);
      Bytes all;
      Vector expected(size, 0.0f);
      for (int rank = 0; rank < 3; ++rank) {
        const Bytes code = encode(*quantizer, {.rank = rank}, normals(size, static_cast<std::uint64_t>(rank)));
        const Vector one = decode(*quantizer, code, size);
        for (std::size_t i = 0; i < size; ++i) expected[i] += one[i];
        all.insert(all.end(), code.begin(), code.end());
      }
      CHECK(decode(*quantizer, all, size) == expected);
    }
  }

  TEST_CASE("what every memory keeps is acc less what the code decodes to") {
    for (const std::string& name : names()) {
      for (const std::string& memory_name : Registry<MemoryEntry>::instance().names()) {
        CAPTURE(name);
        CAPTURE(memory_name);
        const std::size_t size = 500;
        const auto quantizer = make_quantizer(name);
        const auto memory = make_memory(memory_name, size);
        Bytes code(quantizer->code_bytes(size));
        for (std::uint64_t step = 0; step < 4; ++step) {
          const Vector gradient = normals(size, step);  // the memory `none` looks at it, and keeps no copy
          encode_step(*quantizer, *memory, {.step = step}, gradient, code);
          Vector expected = values(memory->accumulated());
          const Vector decoded = decode(*quantizer, code, size);
          for (std::size_t i = 0; i < size; ++i) expected[i] -= decoded[i];
          memory->settle({.codec = quantizer.get(), .code = std::span<const std::byte>(code)});
          if (!memory->residual().empty()) CHECK(values(memory->residual()) == expected);
        }
      }
    }
  }

  TEST_CASE("momentum correction masks nothing where a quantizer sends") {
    const auto quantizer = make_quantizer("signsgd");
    const auto memory = make_memory("momentum_correction", 2, {}, 0.5f);
    Bytes code(quantizer->code_bytes(2));
    encode_step(*quantizer, *memory, {}, {1, -3}, code);  // decodes to [2, -2]
    memory->settle({.codec = quantizer.get(), .code = std::span<const std::byte>(code)});
    CHECK(values(memory->residual()) == Vector{-1, -1});
    memory->compensate({}, view({0, 0}), 1.0f);
    CHECK(values(memory->accumulated()) == Vector{-0.5f, -2.5f});  // the whole momentum went on
  }

  TEST_CASE("no quantizer allocates after its first step") {
    const std::size_t size = 20000;
    const std::vector<Vector> gradients{normals(size, 0), normals(size, 1), Vector(size, 0.0f), normals(size, 2)};
    const testing::AllocationCounter counter;
    for (const std::string& name : names()) {
      CAPTURE(name);
      const auto quantizer = make_quantizer(name);
      const auto memory = make_memory("residual", size);
      Bytes code(quantizer->code_bytes(size));
      Vector sum(size);
      std::size_t before = 0;
      for (std::size_t step = 0; step < gradients.size(); ++step) {
        if (step == 1) before = counter.count();
        encode_step(*quantizer, *memory, {.step = step}, gradients[step], code);
        quantizer->sum(std::span<const std::byte>(code), {}, std::span<float>(sum));
        memory->settle({.codec = quantizer.get(), .code = std::span<const std::byte>(code)});
      }
      const std::size_t after = counter.count();
      CHECK(after == before);
    }
  }
}
