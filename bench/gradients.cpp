// SPDX-License-Identifier: MIT
#include "bench/gradients.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/error.h"
#include "core/npy.h"
#include "core/rng.h"
#include "core/settings.h"
#include "core/sparse_vector.h"
#include "kernels/devices.h"

namespace dragonn::bench {
namespace {

float draw_laplace(Rng& rng) {
  const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
  return sign * -std::log(1.0f - rng.uniform());
}

float draw_normal(Rng& rng) {
  return rng.normal();
}

/// Draws from Student's t with 3 degrees of freedom.
float draw_student(Rng& rng) {
  float squares = 0;
  for (int degree = 0; degree < 3; ++degree) {
    const float normal = rng.normal();
    squares += normal * normal;
  }
  return rng.normal() / std::sqrt(squares / 3);
}

/// Draws 0, or once in a hundred a normal value.
float draw_sparse(Rng& rng) {
  return rng.below(100) == 0 ? rng.normal() : 0.0f;
}

using Draw = float (*)(Rng&);

const std::map<std::string, Draw>& draws() {
  static const std::map<std::string, Draw> table{
      {"laplace", draw_laplace}, {"normal", draw_normal}, {"sparse", draw_sparse}, {"student", draw_student}};
  return table;
}

std::vector<float> read_gradient(const std::filesystem::path& file) {
  std::vector<float> values = read_npy(file).values;
  if (values.empty() || values.size() >= kEmptySlot) {
    throw DataError(
        fmt::format("{}: {} elements; a gradient has between 1 and {}", file.string(), values.size(), kEmptySlot - 1));
  }
  const auto bad = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (bad != values.end()) {
    throw DataError(
        fmt::format("{}: element {} is {}; a gradient is finite", file.string(), bad - values.begin(), *bad));
  }
  return values;
}

}  // namespace

const std::vector<std::string>& distributions() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& [name, draw] : draws()) result.push_back(name);
    return result;
  }();
  return names;
}

void draw_gradient(const std::string& distribution, std::uint64_t seed, std::span<float> values) {
  const auto found = draws().find(distribution);
  if (found == draws().end()) throw ConfigError(unknown_name_message("distribution", distribution, distributions()));
  const Draw draw = found->second;
  constexpr std::size_t kPiece = 1 << 16;
  const auto pieces = static_cast<std::ptrdiff_t>((values.size() + kPiece - 1) / kPiece);
#pragma omp parallel for
  for (std::ptrdiff_t piece = 0; piece < pieces; ++piece) {
    const auto begin = static_cast<std::size_t>(piece) * kPiece;
    Rng rng(seed, "bench gradient", {static_cast<std::uint64_t>(piece)});
    for (float& value : values.subspan(begin, std::min(kPiece, values.size() - begin))) value = draw(rng);
  }
}

std::vector<std::vector<float>> read_gradients(const std::vector<std::filesystem::path>& files) {
  std::vector<std::vector<float>> gradients;
  for (const std::filesystem::path& file : files) {
    gradients.push_back(read_gradient(file));
    if (gradients.back().size() != gradients.front().size()) {
      throw DataError(fmt::format("{}: {} elements, and {} has {}; successive gradients of one model are of one size",
                                  file.string(), gradients.back().size(), files.front().string(),
                                  gradients.front().size()));
    }
  }
  return gradients;
}

Buffer<float> on_device(std::span<const float> values, const Device& device) {
  Buffer<float> buffer(values.size(), device);
  kernels::transfer(View<const float>(values), buffer.view());
  return buffer;
}

}  // namespace dragonn::bench
