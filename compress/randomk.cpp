// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>

#include "compress/sparsifier.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {
namespace {

/// A set of 32-bit numbers below kEmptySlot, in open addressing. Memory is reused from step to step.
class IndexSet {
 public:
  /// Makes room for up to `entries`, of which none is touched yet.
  void reserve(std::size_t entries) {
    // At most half of the slots are used.
    slots_.resize_discard(std::bit_ceil(std::max<std::size_t>(2, 2 * entries)));
  }
  /// Empties the set, for up to `entries`.
  void reset(std::size_t entries) {
    reserve(entries);
    std::ranges::fill(slots_.host(), kEmptySlot);
  }
  /// Inserts an index. Returns whether it was not in the set yet.
  bool insert(std::uint32_t index) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = mix64(index) & mask;
    while (slots_.data()[slot] != kEmptySlot) {
      if (slots_.data()[slot] == index) return false;
      slot = (slot + 1) & mask;
    }
    slots_.data()[slot] = index;
    return true;
  }

 private:
  Buffer<std::uint32_t> slots_;
};

/// Draws k indices, uniform without replacement, by Floyd's algorithm: O(k), no pass over the gradient. It draws on the
/// host, without reading the values, so that zeros are selected, too.
class Randomk final : public Sparsifier {
 public:
  Randomk(bool shared, bool rescale, std::size_t numel, const Device& device)
      : shared_(shared),
        rescale_(rescale),
        numel_(numel),
        indices_(0, host_memory_for(device)),
        unscaled_(0, device),
        scaling_(device) {
    drawn_.reserve(numel);
    if (!device.is_cpu()) return;
    indices_.resize_discard(numel);
    if (rescale) unscaled_.resize_discard(numel);
  }

  kernels::PassRequest plan(const SelectContext&) override { return {}; }

  void select(const SelectContext& context, const kernels::PassResult&, View<const float> acc,
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
  /// Draws by Floyd's algorithm: the j-th draw is from [0, n - k + j]; an index that is taken already gives way to the
  /// newest one.
  void draw(const SelectContext& context, std::span<std::uint32_t> indices) {
    const auto rank = static_cast<std::uint64_t>(shared_ ? 0 : context.rank);
    Rng rng(context.seed, "randomk", {context.bucket, context.step, rank});
    drawn_.reset(indices.size());
    for (std::size_t entry = 0; entry < indices.size(); ++entry) {
      const std::size_t newest = numel_ - indices.size() + entry;
      auto index = static_cast<std::uint32_t>(rng.below(newest + 1));
      if (!drawn_.insert(index)) {
        index = static_cast<std::uint32_t>(newest);
        drawn_.insert(index);
      }
      indices[entry] = index;
    }
    std::ranges::sort(indices);
  }

  bool shared_;
  bool rescale_;
  std::size_t numel_;
  IndexSet drawn_;
  Buffer<std::uint32_t> indices_;  // on the host, where they are drawn; the pass of the next step waits for their copy
  Buffer<float> unscaled_;
  kernels::PassResult scaling_;
};

bool is_shared(const Settings& settings) {
  return settings.text("mode") == "shared";
}

const Registration<SparsifierEntry> registration{[] {
  SparsifierEntry entry;
  entry.name = "randomk";
  entry.summary = "k entries at random, without replacement";
  entry.source = "GRACE, random-k; sampling: Floyd's algorithm";
  entry.settings = {
      {.name = "mode",
       .default_value = std::string("shared"),
       .help = "shared: all ranks draw the same indices; private: each rank draws its own",
       .choices = {"shared", "private"}},
      {.name = "rescale",
       .default_value = false,
       .help = "true: multiply the values by n / k, which makes them unbiased, but only without error feedback"}};
  entry.exact = true;
  entry.traits = [](const Settings& settings) {
    return SelectionTraits{
        .fixed_size = true, .shared_indices = is_shared(settings), .rescaled = settings.flag("rescale"), .blind = true};
  };
  entry.make = [](const Settings& settings, std::size_t numel, const Device& device) {
    return std::make_unique<Randomk>(is_shared(settings), settings.flag("rescale"), numel, device);
  };
  return entry;
}()};

}  // namespace
}  // namespace dragonn::compress
