// SPDX-License-Identifier: MIT
#include <cstring>

#include <doctest/doctest.h>

#include "tests/codec/support.h"
#include "tests/support/allocation_counter.h"

namespace dragonn::codec::test {
namespace {

std::vector<float> some_values(std::size_t count) {
  Rng rng(5, "values", {count});
  std::vector<float> values(count);
  for (float& value : values) value = rng.normal();
  return values;
}

std::vector<std::string> lossless_codecs() {
  std::vector<std::string> names = Registry<ValueCodecEntry>::instance().names();
  std::erase_if(names, [](const std::string& name) { return Registry<ValueCodecEntry>::instance().at(name).lossy; });
  return names;
}

TEST_SUITE("codec") {
  TEST_CASE("lists come back bit for bit, with values and without") {
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      for (const std::string& of_values : lossless_codecs()) {
        const auto codec = list_codec(name, of_values);
        for (const Indices& indices : lists_of_every_kind()) {
          const std::vector<float> values = some_values(indices.size());
          const ListView list{std::span(indices), std::span(values)};
          for (const bool has_values : {true, false}) {
            Bytes code(codec->max_bytes(list.size(), has_values));
            code.resize(codec->encode(list, has_values, code));
            SparseVector scratch;
            const ListView found = codec->decode(code, has_values, scratch);
            CHECK(std::ranges::equal(found.indices.host(), indices));
            CHECK(found.values.size() == (has_values ? values.size() : 0));
            if (has_values) CHECK(std::memcmp(found.values.data(), values.data(), 4 * values.size()) == 0);
          }
        }
      }
    }
  }

  TEST_CASE("the code of an empty list is empty") {
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      const auto codec = list_codec(name);
      SparseVector scratch;
      CHECK(codec->max_bytes(0, true) == 0);
      CHECK(codec->encode(ListView(), true, {}) == 0);
      CHECK(codec->decode({}, true, scratch).size() == 0);
    }
  }

  TEST_CASE("nothing allocates once lists have been as long") {
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      const auto codec = list_codec(name);
      SparseVector scratch;
      Bytes code(codec->max_bytes(7000, true));
      const auto pass = [&](const Indices& indices, const std::vector<float>& values) {
        const std::size_t bytes = codec->encode({std::span(indices), std::span(values)}, true, code);
        codec->decode(std::span(code).first(codec->is_fixed_size() ? code.size() : bytes), true, scratch);
      };
      const Indices first = random_indices(60000, 0.1, 1), second = random_indices(60000, 0.11, 2);
      const std::vector<float> values = some_values(7000);
      const std::vector<float> first_values(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(first.size()));
      const std::vector<float> second_values(values.begin(),
                                             values.begin() + static_cast<std::ptrdiff_t>(second.size()));
      pass(first, first_values);
      const testing::AllocationCounter counter;
      pass(second, second_values);
      CHECK(testing::AllocationCounter::count() == 0);
    }
  }

  TEST_CASE("the codec of papers is not a code: a list lies in its message") {
    const auto codec = list_codec(kRawIndices);
    CHECK(codec->is_fixed_size());
    const Indices indices{7, 9};
    const std::vector<float> values{1, -2};
    Bytes code(codec->max_bytes(3, true));
    CHECK(codec->encode({std::span(indices), std::span(values)}, true, code) == 24);
    SparseVector scratch;
    const ListView list = codec->decode(code, true, scratch);
    CHECK(static_cast<const void*>(list.indices.data()) == code.data());
    CHECK(std::ranges::equal(list.indices.host(), Indices{7, 9}));
    CHECK(std::ranges::equal(list.values.host(), values));
  }
}

}  // namespace
}  // namespace dragonn::codec::test
