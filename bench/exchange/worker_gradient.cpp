// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/exchange/exchange_measure.h"
#include "bench/gradients.h"
#include "core/error.h"
#include "core/rng.h"

namespace dragonn::bench {
namespace {

constexpr std::size_t kLargestPiece = 4096;
constexpr std::size_t kPieces = 64;  // of a small gradient: that many places of the table, at least
constexpr std::size_t kLayers = 16;
constexpr std::size_t kPlaces = std::size_t{1} << 16;

/// Returns a table of Laplace draws; a piece begins at any of the first kPlaces.
std::span<const float> draws() {
  static const std::vector<float> table = [] {
    std::vector<float> values(kPlaces + kLargestPiece);
    draw_gradient("laplace", /*seed=*/7, values);
    return values;
  }();
  return table;
}

/// The number that stands for no rank: the component that all workers share.
constexpr std::uint64_t kEverybody = ~std::uint64_t{0};

const float* place(std::uint64_t seed, std::uint64_t step, std::uint64_t rank, std::size_t piece) {
  return draws().data() + stream_key(seed, "worker gradient", {step, rank, piece}) % kPlaces;
}

}  // namespace

WorkerGradient::WorkerGradient(const WorkerGradientRules& rules, std::size_t numel, int rank)
    : rules_(rules),
      numel_(numel),
      piece_(std::clamp<std::size_t>(numel / kPieces, 1, kLargestPiece)),
      rank_(static_cast<std::uint64_t>(rank)) {}

/// Returns the log-normal scale of a layer; layers have equal sizes. Some scales differ by a factor of ten.
float WorkerGradient::scale_of(std::size_t piece) const {
  const std::size_t layer = piece * piece_ * kLayers / numel_;
  return std::exp(Rng(rules_.seed, "layer scale", {layer}).normal());
}

void WorkerGradient::draw(std::uint64_t step, std::span<float> gradient) const {
  DRAGONN_CHECK(gradient.size() == numel_, "a gradient of {} elements where {} are drawn", gradient.size(), numel_);
  const auto common_share = static_cast<float>(std::sqrt(rules_.correlation));
  const auto own_share = static_cast<float>(std::sqrt(1 - rules_.correlation));
  for (std::size_t begin = 0; begin < numel_; begin += piece_) {
    const std::size_t piece = begin / piece_;
    const float* const common = place(rules_.seed, step, kEverybody, piece);
    const float* const own = place(rules_.seed, step, rank_, piece);
    const float scale = scale_of(piece);
    const float common_scale = scale * common_share, own_scale = scale * own_share;
    const std::span<float> out = gradient.subspan(begin, std::min(piece_, numel_ - begin));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = common_scale * common[i] + own_scale * own[i];
  }
}

}  // namespace dragonn::bench
