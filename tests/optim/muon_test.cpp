// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

using Doubles = std::vector<double>;

constexpr double kRate = 0.02, kMomentum = 0.95, kDecay = 0.1;

/// Row-major [rows, columns].
struct Matrix {
  std::size_t rows, columns;
  Doubles values;

  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
  Matrix transposed() const {
    Matrix result{columns, rows, Doubles(values.size())};
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) result.values[j * rows + i] = at(i, j);
    return result;
  }
};

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix result{a.rows, b.columns, Doubles(a.rows * b.columns, 0.0)};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.columns; ++j)
      for (std::size_t k = 0; k < a.columns; ++k) result.values[i * b.columns + j] += a.at(i, k) * b.at(k, j);
  return result;
}

Matrix combine(double p, const Matrix& a, double q, const Matrix& b) {
  Matrix result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] = p * a.values[i] + q * b.values[i];
  return result;
}

/// The definition in float64: of one matrix, step by step.
struct Reference {
  Matrix x;
  bool nesterov = true;
  Doubles b = Doubles(x.values.size(), 0.0);

  void step(const std::vector<float>& gradient, double scale) {
    Matrix direction = x;
    double squares = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      const double g = scale * gradient[i];
      b[i] = kMomentum * b[i] + g;
      direction.values[i] = nesterov ? g + kMomentum * b[i] : b[i];
      squares += direction.values[i] * direction.values[i];
    }
    for (double& value : direction.values) value /= std::sqrt(squares) + 1e-7;
    const bool is_tall = x.rows > x.columns;
    if (is_tall) direction = direction.transposed();
    for (int i = 0; i < 5; ++i) {
      const Matrix a = direction * direction.transposed();
      const Matrix polynomial = combine(-4.7750, a, 2.0315, a * a);
      direction = combine(3.4445, direction, 1, polynomial * direction);
    }
    if (is_tall) direction = direction.transposed();
    const double length = 0.2 * std::sqrt(static_cast<double>(std::max(x.rows, x.columns)));
    for (std::size_t i = 0; i < b.size(); ++i)
      x.values[i] -= kRate * (length * direction.values[i] + kDecay * x.values[i]);
  }
};

/// An arena with a hidden matrix, an embedding before it and two biases behind it. The matrix's offset is odd.
struct Model {
  Model(std::int64_t rows, std::int64_t columns, const Device& device = {}) : arena(device) {
    matrix = arena.declare("hidden.weight", {rows, columns}, ParameterRole::kHiddenMatrix);
    table = arena.declare("embedding.weight", {3, 5}, ParameterRole::kWeight);
    bias = arena.declare("hidden.bias", {rows}, ParameterRole::kBias);
    arena.allocate();
    kernels::transfer(View<const float>(normals(arena.size(), 1)), arena.values());
  }

  ParameterArena arena;
  ParameterId matrix, table, bias;
};

/// Runs a step on these slices: ends of slices, the last of which is the arena's.
void step(Optimizer& optimizer, const ParameterArena& arena, std::uint64_t index, const std::vector<std::size_t>& ends,
          bool sparse = false) {
  const Device device = arena.values().device();
  auto [entries, dense] = random_sparse(arena.size(), sparse ? 0.3 : 1.0, index);
  optimizer.begin_step(kRate, index);
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const Slice slice{begin, end - begin, false, false};
    const kernels::GradientView whole(entries, arena.size());
    if (sparse && device.is_cpu()) {
      optimizer.update(slice, whole.slice(begin, slice.size), 0.5f);
    } else {
      const std::vector<float> own(dense.begin() + static_cast<std::ptrdiff_t>(begin),
                                   dense.begin() + static_cast<std::ptrdiff_t>(end));
      optimizer.update(slice, on_device(own, device).view(), 0.5f);
    }
    begin = end;
  }
}

std::vector<float> part(const std::vector<float>& values, const Parameter& parameter) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(parameter.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(parameter.size)};
}

TEST_SUITE("optim") {
  DRAGONN_DEVICE_TEST("Muon's steps are those of its definition in float64, on wide, tall and square matrices") {
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{7, 24}, {24, 7}, {16, 16}, {1, 5}}) {
      for (const bool nesterov : {true, false}) {
        CAPTURE(rows);
        Model model(rows, columns, device);
        const auto muon = make_optimizer("muon", {{"nesterov", nesterov}}, model.arena);
        const Parameter& matrix = model.arena[model.matrix];
        const std::vector<float> start = copy(model.arena.value(model.matrix));
        Reference reference{
            {static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), Doubles(start.begin(), start.end())},
            nesterov};
        for (std::uint64_t index = 0; index < 5; ++index) {
          step(*muon, model.arena, index, {9, matrix.offset + matrix.size / 2, model.arena.size()});
          reference.step(part(random_sparse(model.arena.size(), 1.0, index).second, matrix), 0.5);
        }
        // Five iterations raise a rounding's share of a small singular value by up to 3.4445^5 = 485.
        CHECK(relative_error(copy(model.arena.value(model.matrix)), reference.x.values) < 485 * 0x1p-24);
      }
    }
  }

  TEST_CASE("Muon updates embeddings and vectors as AdamW does, with a rate of their own") {
    Model model(6, 4), expected(6, 4);
    const auto muon = make_optimizer("muon", {{"adamw_rate_factor", 0.5}}, model.arena);
    const auto adamw = make_optimizer("adamw", {{"beta2", 0.95}, {"weight_decay", 0.1}}, expected.arena);
    for (std::uint64_t index = 0; index < 3; ++index) {
      step(*muon, model.arena, index, {4, model.arena.size()});
      adamw->begin_step(0.5 * kRate, index);
      const std::vector<float> gradient = random_sparse(model.arena.size(), 1.0, index).second;
      adamw->update({0, model.arena.size(), false, false}, View<const float>(std::span(gradient)), 0.5f);
    }
    for (const ParameterId id : {model.table, model.bias})
      CHECK(copy(model.arena.value(id)) == copy(expected.arena.value(id)));
    CHECK(copy(model.arena.value(model.matrix)) != copy(expected.arena.value(model.matrix)));
  }

  TEST_CASE("Muon's bits depend neither on where slices are cut nor on a gradient being sparse") {
    Model whole(10, 8), cut(10, 8), dense(10, 8);
    const std::size_t size = whole.arena.size();
    const auto whole_muon = make_optimizer("muon", {}, whole.arena), cut_muon = make_optimizer("muon", {}, cut.arena),
               dense_muon = make_optimizer("muon", {}, dense.arena);
    for (std::uint64_t index = 0; index < 3; ++index) {
      step(*whole_muon, whole.arena, index, {size}, /*sparse=*/true);
      step(*cut_muon, cut.arena, index, {1, 17, 18, 40, 90, 95, 97, size}, /*sparse=*/true);
      const std::vector<float> gradient = random_sparse(size, 0.3, index).second;
      dense_muon->begin_step(kRate, index);
      dense_muon->update({0, size, false, false}, View<const float>(std::span(gradient)), 0.5f);
    }
    CHECK(copy(cut.arena.values()) == copy(whole.arena.values()));
    CHECK(copy(dense.arena.values()) == copy(whole.arena.values()));
  }

  TEST_CASE(
      "Muon resumes with the bits of the uninterrupted run, and keeps one float of state for a matrix's element") {
    Model model(10, 8), resumed(10, 8);
    const auto muon = make_optimizer("muon", {}, model.arena);
    step(*muon, model.arena, 0, {50, model.arena.size()});
    Archive archive;
    muon->save(archive, "optimizer/");
    CHECK(archive.size_bytes() == sizeof(float) * (80 + 2 * (15 + 10)));
    kernels::transfer(View<const float>(model.arena.values()), resumed.arena.values());
    const auto other = make_optimizer("muon", {}, resumed.arena);
    other->load(archive, "optimizer/");
    step(*muon, model.arena, 1, {50, model.arena.size()});
    step(*other, resumed.arena, 1, {50, model.arena.size()});
    CHECK(copy(resumed.arena.values()) == copy(model.arena.values()));
  }

  TEST_CASE("patterns choose Muon's matrices instead of the model") {
    Model model(6, 4), usual(6, 4);
    const auto muon = make_optimizer("muon", {{"matrices", std::string("embed*, *.w?ight")}}, model.arena);
    const auto expected = make_optimizer("muon", {}, usual.arena);
    step(*muon, model.arena, 0, {model.arena.size()});
    step(*expected, usual.arena, 0, {model.arena.size()});
    CHECK(copy(model.arena.value(model.matrix)) == copy(usual.arena.value(usual.matrix)));
    CHECK(copy(model.arena.value(model.table)) != copy(usual.arena.value(usual.table)));
    CHECK_THROWS_WITH_AS(make_optimizer("muon", {{"matrices", std::string("*.bias")}}, model.arena),
                         "optimizer.matrices = \"*.bias\": '*.bias' matches no matrix of the model: expected a pattern "
                         "of names such as hidden.weight, embedding.weight",
                         ConfigError);
    ParameterArena vectors;
    vectors.declare("bias", {3}, ParameterRole::kBias);
    vectors.allocate();
    CHECK_THROWS_AS(make_optimizer("muon", {}, vectors), ConfigError);
  }

  TEST_CASE("Muon refuses slices out of order, and gradients with momentum or learning rate in them") {
    Model model(6, 4);
    const std::vector<float> gradient(model.arena.size(), 1.0f);
    const View<const float> all{std::span(gradient)};
    const auto muon = make_optimizer("muon", {}, model.arena);
    muon->begin_step(kRate, 0);
    CHECK_THROWS_AS(muon->update({0, all.size(), true, false}, all, 1.0f), Error);
    CHECK_THROWS_AS(muon->update({0, all.size(), false, true}, all, 1.0f), Error);
    CHECK_THROWS_AS(muon->update({20, 10, false, false}, all.subview(20, 10), 1.0f), Error);
    muon->update({0, 20, false, false}, all.subview(0, 20), 1.0f);
    CHECK_THROWS_AS(muon->begin_step(kRate, 1), Error);
  }
}

}  // namespace
}  // namespace dragonn::optim
