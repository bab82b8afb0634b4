// SPDX-License-Identifier: MIT
#include "trainer/update/logged_update.h"

#include <algorithm>
#include <type_traits>

#include "core/bytes.h"
#include "core/error.h"
#include "core/sparse_vector.h"
#include "trainer/update/sums.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kUpdate = "an update";

/// Precedes the sums.
struct Heading {
  double learning_rate = 0;
  std::uint64_t step = 0;
  std::uint64_t sums = 0;
  float scale = 1;
  std::uint32_t unused = 0;
};

/// Precedes the entries of a sum, or its elements.
struct SumHeading {
  std::uint64_t offset = 0, size = 0;
  std::uint64_t count = 0;  // of entries, or of elements
  std::uint32_t is_dense = 0, momentum_applied = 0, learning_rate_applied = 0;
  float divisor = 1;
};

template <class T>
void append(std::vector<std::byte>& bytes, std::span<const T> values) {
  append_bytes(bytes, std::as_bytes(values));
}

}  // namespace

std::vector<std::byte> to_bytes(const LoggedUpdate& update) {
  std::vector<std::byte> bytes;
  const Heading heading{update.learning_rate, update.step, update.sums.size(), update.scale};
  append(bytes, std::span(&heading, 1));
  for (const exchange::BucketSum& sum : update.sums) {
    const SumHeading of_sum{.offset = sum.offset,
                            .size = sum.size,
                            .count = sum.values().size(),
                            .is_dense = sum.entries == nullptr,
                            .momentum_applied = sum.momentum_applied,
                            .learning_rate_applied = sum.learning_rate_applied,
                            .divisor = sum.divisor};
    append(bytes, std::span(&of_sum, 1));
    if (sum.entries != nullptr) append(bytes, sum.entries->indices.host());
    append(bytes, sum.values().host());
  }
  return bytes;
}

void apply_logged(std::span<const std::byte> bytes, std::size_t size, optim::Optimizer& optimizer) {
  const auto heading = take_value<Heading>(bytes, kUpdate);
  optimizer.begin_step(heading.learning_rate, heading.step);
  SparseVector entries;
  Buffer<float> elements;
  for (std::uint64_t i = 0; i < heading.sums; ++i) {
    const auto of_sum = take_value<SumHeading>(bytes, kUpdate);
    const bool is_dense = of_sum.is_dense != 0;
    const bool fits = of_sum.offset <= size && of_sum.size <= size - of_sum.offset && of_sum.count <= of_sum.size &&
                      (!is_dense || of_sum.count == of_sum.size);
    if (!fits) throw DataError("an update does not fit the model");
    exchange::BucketSum sum{.offset = of_sum.offset,
                            .size = of_sum.size,
                            .momentum_applied = of_sum.momentum_applied != 0,
                            .learning_rate_applied = of_sum.learning_rate_applied != 0,
                            .divisor = of_sum.divisor};
    if (is_dense) {
      elements.resize_discard(of_sum.count);
      take_values(bytes, elements.host(), kUpdate);
      sum.dense = elements.view();
    } else {
      entries.resize_discard(of_sum.count);
      take_values(bytes, entries.indices.host(), kUpdate);
      take_values(bytes, entries.values.host(), kUpdate);
      const auto indices = entries.indices.host();
      const bool ascends = std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end();
      if (!ascends || (!indices.empty() && indices.back() >= of_sum.size))
        throw DataError("an update does not fit the model");
      sum.entries = &entries;
    }
    apply_sums(std::span(&sum, 1), heading.scale, optimizer);
  }
  if (!bytes.empty()) throw DataError("an update is longer than it says");
}

}  // namespace dragonn::trainer
