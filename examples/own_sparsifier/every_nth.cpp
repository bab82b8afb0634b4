// SPDX-License-Identifier: MIT
/// The method every_nth: n / k steps send every entry once, each step one of every n / k entries. Nothing refers to
/// this file: it registers the method when the plug-in is loaded.
#include <algorithm>
#include <dragonn/compress/sparsifier.h>
#include <dragonn/kernels/devices.h>
#include <dragonn/kernels/gradient/select.h>
#include <memory>

namespace {

using namespace dragonn;

class EveryNth final : public compress::Sparsifier {
 public:
  explicit EveryNth(std::size_t numel) : indices_(numel) {}

  kernels::PassRequest plan(const compress::SelectContext&) override { return {}; }

  void select(const compress::SelectContext& context, kernels::PassResult&, View<const float> acc,
              SparseVector& selected) override {
    const std::size_t k = std::min(context.k, acc.size());
    kernels::reserve_selection(selected, acc.size());
    indices_.resize_discard(k);
    selected.resize_discard(k);
    if (k == 0) return;
    const std::size_t distance = acc.size() / k, first = context.step % distance;
    for (std::size_t i = 0; i < k; ++i) indices_.host()[i] = static_cast<std::uint32_t>(first + i * distance);
    kernels::transfer(std::as_const(indices_).view(), selected.indices.view());
    kernels::gather(acc, selected.indices.view(), selected.values.view());
  }

 private:
  Buffer<std::uint32_t> indices_;  // stays, so that steps do not allocate
};

compress::SparsifierEntry entry() {
  compress::SparsifierEntry entry;
  entry.name = "every_nth";
  entry.summary = "one of every n / k entries, the next ones at the next step";
  // Always min(k, n) entries; step, k and n are the same on all ranks; and whatever their values are.
  entry.traits = [](const Settings&) {
    return SelectionTraits{.fixed_size = true, .shared_indices = true, .blind = true};
  };
  entry.make = [](const Settings&, std::size_t numel, const Device&) { return std::make_unique<EveryNth>(numel); };
  return entry;
}

const Registration<compress::SparsifierEntry> registration{entry()};

}  // namespace
