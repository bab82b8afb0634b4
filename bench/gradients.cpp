// SPDX-License-Identifier: MIT
#include "bench/gradients.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include <fmt/format.h>

#include "core/error.h"
#include "core/npy.h"
#include "core/rng.h"
#include "core/settings.h"
#include "core/sparse_vector.h"
#include "kernels/devices.h"

namespace dragonn::bench {
namespace {

using Draw = float (*)(Rng&);

const std::map<std::string, Draw>& draws() {
  static const std::map<std::string, Draw> table{
      {"laplace",
       [](Rng& rng) {
         const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
         return sign * -std::log(1.0f - rng.uniform());
       }},
      {"normal", [](Rng& rng) { return rng.normal(); }},
      // 0, or once in a hundred a normal value.
      {"sparse", [](Rng& rng) { return rng.below(100) == 0 ? rng.normal() : 0.0f; }},
      // Student's t with 3 degrees of freedom.
      {"student", [](Rng& rng) {
         float squares = 0;
         for (int degree = 0; degree < 3; ++degree) {
           const float normal = rng.normal();
           squares += normal * normal;
         }
         return rng.normal() / std::sqrt(squares / 3);
       }}};
  return table;
}

}  // namespace

std::vector<std::string> distributions() {
  const auto names = draws() | std::views::keys;
  return {names.begin(), names.end()};
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

void draw_worker_gradient(const WorkerGradientRules& rules, std::uint64_t step, int rank, std::span<float> gradient) {
  constexpr std::size_t kLargestPiece = 4096;
  constexpr std::size_t kPieces = 64;  // of a small gradient: that many places of the table, at least
  constexpr std::size_t kLayers = 16;
  constexpr std::size_t kPlaces = std::size_t{1} << 16;  // a piece begins at any of them
  static const std::vector<float> table = [] {
    std::vector<float> values(kPlaces + kLargestPiece);
    draw_gradient("laplace", /*seed=*/7, values);
    return values;
  }();
  constexpr std::uint64_t kEverybody = ~std::uint64_t{0};  // stands for no rank: the component that all workers share
  const std::size_t numel = gradient.size();
  const std::size_t piece_size = std::clamp<std::size_t>(numel / kPieces, 1, kLargestPiece);
  const auto common_share = static_cast<float>(std::sqrt(rules.correlation));
  const auto own_share = static_cast<float>(std::sqrt(1 - rules.correlation));
  for (std::size_t begin = 0; begin < numel; begin += piece_size) {
    const std::size_t piece = begin / piece_size;
    const auto draws_of = [&](std::uint64_t drawer) {
      return table.data() + stream_key(rules.seed, "worker gradient", {step, drawer, piece}) % kPlaces;
    };
    const float* const common = draws_of(kEverybody);
    const float* const own = draws_of(static_cast<std::uint64_t>(rank));
    // Layers have equal sizes and log-normal scales, some of which differ by a factor of ten.
    const float scale = std::exp(Rng(rules.seed, "layer scale", {begin * kLayers / numel}).normal());
    const float common_scale = scale * common_share, own_scale = scale * own_share;
    const std::span<float> out = gradient.subspan(begin, std::min(piece_size, numel - begin));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = common_scale * common[i] + own_scale * own[i];
  }
}

std::vector<float> read_gradient(const std::filesystem::path& file, std::size_t dimensions) {
  NpyArray array = read_npy(file);
  const std::size_t size = array.values.size();
  if (dimensions != 0 && array.shape.rank() != dimensions) {
    throw DataError(fmt::format("{}: {} dimensions; a gradient has one", file.string(), array.shape.rank()));
  }
  if (size == 0 || size >= kEmptySlot) {
    throw DataError(
        fmt::format("{}: {} elements; a gradient has between 1 and {}", file.string(), size, kEmptySlot - 1));
  }
  const auto bad = std::ranges::find_if_not(array.values, [](float value) { return std::isfinite(value); });
  if (bad != array.values.end()) {
    throw DataError(
        fmt::format("{}: element {} is {}; a gradient is finite", file.string(), bad - array.values.begin(), *bad));
  }
  return std::move(array.values);
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
