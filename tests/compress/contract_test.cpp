// SPDX-License-Identifier: MIT
// Contract tests: the promises of every sparsifier, with every memory. A new one is tested by being registered.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include "core/rng.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;
using dragonn::test::on_device;

namespace {

using Vector = std::vector<float>;
using Kind = kernels::PassRequest::Kind;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Returns whether a method selects a fixed number of entries without reading the values, so that zeros and NaN are
/// selected, too.
bool is_blind(const std::string& name) {
  const auto& entry = Registry<SparsifierEntry>::instance().at(name);
  return entry.traits(Settings(entry.settings)).blind;
}

/// Returns the method's first request to the pass. A method that brings a threshold along may select nothing of a given
/// vector; moments of a vector that holds a NaN are NaN.
kernels::PassRequest::Kind first_request(const std::string& name) {
  return make_sparsifier(name, 1000)->plan(context_for(1000, 0.01)).kind;
}

/// Returns whether a method may select nothing of a vector of one element, as of any that has equal magnitudes.
bool may_miss_one(const std::string& name) {
  const CountBand& band = Registry<SparsifierEntry>::instance().at(name).band;
  return band.low == 0 && band.may_miss_ties;
}

/// Returns whether a method fits a distribution, whose threshold equal values need not reach: their fit is a tail
/// beyond all of them.
bool fits_tail(const std::string& name) {
  return name.starts_with("sidco_");
}

/// Every combination of sparsifier and memory.
void for_each_pair(const std::function<void(const std::string& sparsifier, const std::string& memory)>& body) {
  for (const std::string& sparsifier : Registry<SparsifierEntry>::instance().names()) {
    for (const std::string& memory : Registry<MemoryEntry>::instance().names()) {
      CAPTURE(sparsifier);
      CAPTURE(memory);
      body(sparsifier, memory);
    }
  }
}

Vector normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "contract test");
  Vector values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

/// Returns the gradient of a step, other than the one before: a memory that estimates it has something to send.
Vector grown(Vector gradient, int step) {
  for (float& value : gradient) value *= static_cast<float>(step + 1);
  return gradient;
}

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Ascending unique indices below n, values equal to acc bit for bit.
void check_selection(const SparseVector& selected, const Vector& acc) {
  const std::vector<std::uint32_t> indices = compress::test::indices(selected);
  const std::vector<float> sent = values(selected.values.view());
  REQUIRE(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end());
  if (!indices.empty()) REQUIRE(indices.back() < acc.size());
  for (std::size_t i = 0; i < indices.size(); ++i) REQUIRE(same_bits(sent[i], acc[indices[i]]));
}

/// One sparsifier with one memory, step after step.
struct Bucket {
  Bucket(const std::string& sparsifier_name, const std::string& memory_name, std::size_t size, const Device& where)
      : sparsifier(make_sparsifier(sparsifier_name, size, {}, where)),
        memory(make_memory(memory_name, size, {}, 0.5f, false, where)),
        numel(size),
        device(where),
        selected(where) {}

  /// Runs a step, with checks: the kept and the sent values together are acc, bit for bit.
  const SparseVector& step(const Vector& gradient, double density) {
    const SelectContext context = context_for(numel, density, steps);
    place = on_device(gradient, device);
    select_step(*sparsifier, *memory, context, std::as_const(place).view(), selected);
    const Vector acc = values(memory->accumulated());
    check_selection(selected, acc);
    memory->settle({.contributed = selected.indices.view()});
    if (!memory->residual().empty()) {
      Vector sum = values(memory->residual());
      for (const auto& [index, value] : entries(selected)) sum[index] += value;
      for (std::size_t i = 0; i < numel; ++i) REQUIRE((same_bits(sum[i], acc[i]) || (sum[i] == 0 && acc[i] == 0)));
    }
    const std::uint64_t counts[] = {selected.size()};
    sparsifier->observe(
        {.step = steps++, .numel = numel, .k = context.k, .selected_counts = counts, .global_count = selected.size()});
    return selected;
  }

  std::unique_ptr<Sparsifier> sparsifier;
  std::unique_ptr<Memory> memory;
  std::size_t numel;
  Device device;
  std::uint64_t steps = 0;
  Buffer<float> place;  ///< where the gradient is
  SparseVector selected;
};

enum class Input { kLaplace, kNormal, kStudent, kSparse };

/// Heavy and light tails: Laplace, normal, Student's t with 3 degrees of freedom, and normal with 99 % zeros.
Vector draw(Input input, std::size_t size, std::uint64_t number = 0) {
  Rng rng(static_cast<std::uint64_t>(input), "property test", {size, number});
  Vector result(size);
  for (float& value : result) {
    const float normal = rng.normal();
    switch (input) {
      case Input::kLaplace:
        value = std::copysign(-std::log(1.0f - rng.uniform()), normal);
        break;
      case Input::kNormal:
        value = normal;
        break;
      case Input::kStudent: {
        float squares = 0;
        for (int degree = 0; degree < 3; ++degree) squares += std::pow(rng.normal(), 2.0f);
        value = normal / std::sqrt(squares / 3);
        break;
      }
      case Input::kSparse:
        value = rng.uniform() < 0.01f ? normal : 0.0f;
        break;
    }
  }
  return result;
}

/// More elements than this take too long to draw.
constexpr std::size_t kLargestDrawn = std::size_t{1} << 20;

/// Draws for successive steps; a single one if they are large. The largest repeat a draw at slightly other scales.
std::vector<Vector> draw_several(Input input, std::size_t size) {
  std::vector<Vector> draws;
  const std::uint64_t number = size < kLargestDrawn ? 4 : 1;
  for (std::uint64_t i = 0; i < number; ++i) draws.push_back(draw(input, std::min(size, kLargestDrawn), i));
  Vector& first = draws.front();
  first.resize(size);
  for (std::size_t i = kLargestDrawn; i < size; ++i) {
    first[i] = first[i % kLargestDrawn] * (1 + 0.001f * static_cast<float>(i / kLargestDrawn));
  }
  return draws;
}

/// Returns the band that the entry states; for inputs that a fit is made for, the one that compress/README.md
/// documents.
CountBand band_of(const std::string& sparsifier, Input input) {
  CountBand band = Registry<SparsifierEntry>::instance().at(sparsifier).band;
  const bool is_light = input == Input::kLaplace || input == Input::kNormal;
  if (sparsifier == "redsync" && input == Input::kLaplace) band.low = 1.0;
  if (sparsifier == "gaussiank" && is_light) band.high = 1.25;
  if (fits_tail(sparsifier) && input != Input::kSparse) {
    band.low = 0.75;
    // If no search finds a number of stages within a fifth of k it holds the best for a hundred steps: normal
    // values.
    band.high = sparsifier == "sidco_gp" ? 1.5 : 1.25;
  }
  return band;
}

/// Returns the elements of the largest bucket that is tried: fewer if a count needs many steps to settle.
std::size_t largest_size(const CountBand& band) {
  const int exponent = band.settling_steps == 0 ? 24 : band.settling_steps < 100 ? 17 : 14;
  return std::size_t{1} << exponent;
}

/// Steps whose counts are averaged after the settling.
constexpr std::uint64_t kWindow = 32;

/// Returns the mean count of steps on fresh draws, or that of the only step of a method that has nothing to settle.
double settled_count(const std::string& name, const CountBand& band, std::span<const Vector> draws, double density,
                     Memory& memory) {
  const std::size_t size = draws.front().size();
  const auto sparsifier = make_sparsifier(name, size);
  SparseVector selected;
  const std::uint64_t window = band.settling_steps == 0 ? 1 : kWindow;
  double sum = 0;
  for (std::uint64_t step = 0; step < band.settling_steps + window; ++step) {
    const SelectContext context = context_for(size, density, step);
    select_step(*sparsifier, memory, context, draws[step % draws.size()], selected);
    const std::uint64_t counts[] = {selected.size()};
    sparsifier->observe({.step = step, .numel = size, .k = context.k, .selected_counts = counts});
    if (step >= band.settling_steps) sum += static_cast<double>(selected.size());
  }
  return sum / static_cast<double>(window);
}

}  // namespace

TEST_SUITE("compress") {
  DRAGONN_DEVICE_TEST("every pair passes through vectors of no, one and few elements") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      for (const std::size_t size : {0, 1, 2, 17}) {
        Bucket bucket(sparsifier, memory, size, device);
        for (const double density : {0.01, 0.5, 1.0}) {
          const SparseVector& selected =
              bucket.step(grown(normals(size, size), static_cast<int>(bucket.steps)), density);
          CHECK(selected.size() <= size);
          if (size == 1 && first_request(sparsifier) != Kind::kThreshold && !may_miss_one(sparsifier))
            CHECK(selected.size() == 1);
        }
      }
    });
  }

  DRAGONN_DEVICE_TEST("every pair selects nothing from zeros, unless it is blind") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      Bucket bucket(sparsifier, memory, 3000, device);
      for (int step = 0; step < 3; ++step) {
        // A method that ignores the values selects as many as of any others.
        const std::size_t of_zeros = bucket.step(Vector(3000, 0.0f), 0.01).size();
        CHECK(of_zeros == (is_blind(sparsifier) ? bucket.step(normals(3000, 1), 0.01).size() : 0));
      }
      CHECK(bucket.step(normals(3000, 1), 0.01).size() > 0);
    });
  }

  DRAGONN_DEVICE_TEST("every pair keeps its contract on ties") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      Bucket bucket(sparsifier, memory, 2000, device);
      Vector ties(2000, 1.0f);
      for (std::size_t i = 0; i < ties.size(); i += 2) ties[i] = -1.0f;
      const bool may_be_none = band_of(sparsifier, Input::kNormal).may_miss_ties;
      for (int step = 0; step < 4; ++step) CHECK((bucket.step(grown(ties, step), 0.01).size() > 0 || may_be_none));
    });
  }

  DRAGONN_DEVICE_TEST("every pair reports a NaN, and selects none") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory_name) {
      Vector gradient = normals(2000, 2);
      for (std::size_t i = 0; i < gradient.size(); i += 3) gradient[i] = i % 2 == 0 ? kNan : -kNan;
      const auto method = make_sparsifier(sparsifier, gradient.size(), {}, device);
      const auto memory = make_memory(memory_name, gradient.size(), {}, 0.5f, false, device);
      const Buffer<float> place = on_device(gradient, device);
      for (const double density : {0.01, 0.5, 1.0}) {
        const SelectContext context = context_for(gradient.size(), density);
        const kernels::PassRequest request = method->plan(context);
        kernels::PassResult& pass = memory->compensate(request, place.view(), 1.0f);
        CHECK(pass.non_finite);
        SparseVector selected(device);
        method->select(context, pass, memory->accumulated(), selected);
        if (is_blind(sparsifier)) continue;
        const Kind kind = first_request(sparsifier);
        if (kind != Kind::kThreshold && kind != Kind::kMoments) CHECK(selected.size() > 0);
        CHECK(std::ranges::none_of(values(selected.values.view()), [](float value) { return std::isnan(value); }));
      }
    });
  }

  DRAGONN_DEVICE_TEST("every exact sparsifier selects all non-zeros at density 1") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      if (!Registry<SparsifierEntry>::instance().at(sparsifier).exact) return;
      Vector gradient = normals(5000, 3);
      for (std::size_t i = 0; i < gradient.size(); i += 5) gradient[i] = 0.0f;
      Bucket bucket(sparsifier, memory, gradient.size(), device);
      const std::size_t expected = is_blind(sparsifier) ? 5000 : 4000;
      for (int step = 0; step < 2; ++step) CHECK(bucket.step(grown(gradient, step), 1.0).size() == expected);
    });
  }

  DRAGONN_DEVICE_TEST("every pair with one seed selects the same twice, over changing densities") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      Bucket first(sparsifier, memory, 4000, device), second(sparsifier, memory, 4000, device);
      for (std::uint64_t step = 0; step < 6; ++step) {
        const double density = step < 3 ? 0.1 : 0.005;
        const Vector gradient = normals(4000, 10 + step);
        CHECK(entries(first.step(gradient, density)) == entries(second.step(gradient, density)));
      }
    });
  }

  DRAGONN_DEVICE_TEST("every pair restored in mid-run goes on as if it had not stopped") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      Bucket first(sparsifier, memory, 4000, device);
      for (std::uint64_t step = 0; step < 3; ++step) first.step(normals(4000, step), 0.02);
      Archive archive;
      first.sparsifier->save(archive, "sparsifier/");
      first.memory->save(archive, "memory/");
      Bucket second(sparsifier, memory, 4000, device);
      second.steps = first.steps;
      second.sparsifier->load(archive, "sparsifier/");
      second.memory->load(archive, "memory/");
      for (std::uint64_t step = 3; step < 6; ++step) {
        const Vector gradient = normals(4000, step);
        CHECK(entries(first.step(gradient, 0.02)) == entries(second.step(gradient, 0.02)));
      }
    });
  }

  DRAGONN_DEVICE_TEST("every sparsifier saved before its first step goes on as a new one") {
    for (const std::string& name : Registry<SparsifierEntry>::instance().names()) {
      CAPTURE(name);
      for (const std::size_t size : {0, 5, 2000}) {
        Archive archive;
        make_sparsifier(name, size, {}, device)->save(archive, "sparsifier/");
        Bucket fresh(name, "residual", size, device), loaded(name, "residual", size, device);
        loaded.sparsifier->load(archive, "sparsifier/");
        const Vector gradient = normals(size, 1);
        CHECK(entries(fresh.step(gradient, 0.1)) == entries(loaded.step(gradient, 0.1)));
      }
    }
  }

  DRAGONN_DEVICE_TEST(
      "every method with a threshold or k of its own selects on every device what it selects on the CPU") {
    for_each_pair([&device](const std::string& sparsifier, const std::string& memory) {
      if (first_request(sparsifier) == Kind::kMoments) return;  // moments agree to rounding, thresholds from them too
      Bucket bucket(sparsifier, memory, 30000, device), reference(sparsifier, memory, 30000, Device{});
      for (std::uint64_t step = 0; step < 4; ++step) {
        const Vector gradient = normals(30000, step);
        CHECK(entries(bucket.step(gradient, 0.01)) == entries(reference.step(gradient, 0.01)));
        CHECK(bucket.memory->residual_norm() == doctest::Approx(reference.memory->residual_norm()).epsilon(1e-12));
      }
    });
  }

  TEST_CASE("every sparsifier selects a count within its documented band, on light, heavy and sparse inputs") {
    for (const Input input : {Input::kLaplace, Input::kNormal, Input::kStudent, Input::kSparse}) {
      for (const int exponent : {10, 14, 17, 20, 24}) {
        const std::size_t size = std::size_t{1} << exponent;
        const std::vector<Vector> draws = draw_several(input, size);
        const auto memory = make_memory("none", size);
        const auto non_zeros =
            static_cast<std::size_t>(std::ranges::count_if(draws[0], [](float x) { return x != 0; }));
        for (const std::string& name : Registry<SparsifierEntry>::instance().names()) {
          const CountBand band = band_of(name, input);
          if (size > largest_size(band)) continue;
          for (const double density : {0.001, 0.01, 0.05}) {
            const std::size_t k = target_of(name, size, density);
            // Counts of a few are noise, and a threshold that should select more than there is has nowhere to settle.
            const std::size_t max = is_blind(name) ? k : std::min(k, non_zeros);
            if (max < 10 || (band.settling_steps > 0 && max < k)) continue;
            CAPTURE(name);
            CAPTURE(size);
            CAPTURE(density);
            CAPTURE(static_cast<int>(input));
            const double count = settled_count(name, band, draws, density, *memory);
            CHECK(count >= band.low * static_cast<double>(max) - 1);
            CHECK(count <= band.high * static_cast<double>(max) + 2);
            if (size > kLargestDrawn) break;
          }
        }
      }
    }
  }
}
