// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>

#include "compress/sparsifier.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

bool is_shared(const Settings& settings) {
  return settings.text("mode") == "shared";
}

/// Draws k indices, uniform without replacement, by Floyd's algorithm: O(k), and a sweep over a bit per element. It
/// draws on the host, without reading the values, so that zeros are selected, too.
class Randomk final : public Sparsifier {
 public:
  Randomk(const Settings& settings, std::size_t numel, const Device& device)
      : shared_(is_shared(settings)),
        rescale_(settings.flag("rescale")),
        numel_(numel),
        drawn_((numel + kBits - 1) / kBits),
        indices_(0, host_memory_for(device)),
        unscaled_(0, device),
        scaling_(device) {
    std::ranges::fill(drawn_.host(), 0u);
    if (!device.is_cpu()) return;
    indices_.resize_discard(numel);
    if (rescale_) unscaled_.resize_discard(numel);
  }

  kernels::PassRequest plan(const SelectContext&) override { return {}; }

  void select(const SelectContext& context, kernels::PassResult&, View<const float> acc,
              SparseVector& selected) override {
    const std::size_t k = std::min(context.k, numel_);
    kernels::reserve_selection(selected, numel_);
    selected.resize_discard(k);
    indices_.resize_discard(k);
    draw(context, indices_.host());
    kernels::start_transfer(std::as_const(indices_).view(), selected.indices.view());
    if (!rescale_ || k == 0) return kernels::gather(acc, selected.indices.view(), selected.values.view());
    unscaled_.resize_discard(k);
    kernels::gather(acc, selected.indices.view(), unscaled_.view());
    const auto factor = static_cast<float>(static_cast<double>(numel_) / static_cast<double>(k));
    kernels::accumulate_scaled({}, unscaled_.view(), factor, selected.values.view(), scaling_);
  }

 private:
  /// Draws by Floyd's algorithm: the j-th draw is from [0, n - k + j]; the newest index replaces one that is taken.
  void draw(const SelectContext& context, std::span<std::uint32_t> indices) {
    const auto rank = static_cast<std::uint64_t>(shared_ ? 0 : context.rank);
    Rng rng(context.seed, "randomk", {context.bucket, context.step, rank});
    const auto mark = [&](std::uint64_t index) {
      const std::uint64_t bit = std::uint64_t{1} << index % kBits;
      std::uint64_t& word = drawn_.data()[index / kBits];
      const bool is_new = (word & bit) == 0;
      word |= bit;
      return is_new;
    };
    for (std::size_t newest = numel_ - indices.size(); newest < numel_; ++newest)
      if (!mark(rng.below(newest + 1))) mark(newest);
    // Reads the indices off in ascending order, and clears their bits for the next step.
    std::size_t count = 0;
    for (std::size_t place = 0; place < drawn_.size(); ++place) {
      std::uint64_t& word = drawn_.data()[place];
      for (; word != 0; word &= word - 1)
        indices[count++] = static_cast<std::uint32_t>(place * kBits + static_cast<std::size_t>(std::countr_zero(word)));
    }
  }

  static constexpr std::size_t kBits = 64;  // of a word

  bool shared_, rescale_;
  std::size_t numel_;
  Buffer<std::uint64_t> drawn_;    // a bit for every element; zeros between steps
  Buffer<std::uint32_t> indices_;  // on the host, where they are drawn; the pass of the next step waits for their copy
  Buffer<float> unscaled_;
  kernels::PassResult scaling_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "randomk";
  entry.summary = "k entries at random, without replacement";
  entry.source = "GRACE, random-k; sampling: Floyd's algorithm";
  entry.settings = {
      SettingSpec::text("mode", "shared", "shared: all ranks draw the same indices; private: each rank draws its own",
                        {"shared", "private"}),
      SettingSpec::flag(
          "rescale", false,
          "true: multiply the values by n / k, which makes them unbiased, but only without error feedback")};
  entry.exact = true;
  entry.traits = [](const Settings& settings) {
    return SelectionTraits{
        .fixed_size = true, .shared_indices = is_shared(settings), .rescaled = settings.flag("rescale"), .blind = true};
  };
  entry.make = make_sparsifier<Randomk>;
}};

}  // namespace
}  // namespace dragonn::compress
