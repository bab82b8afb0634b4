// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "compress/sparsifier.h"
#include "compress/tiles.h"
#include "core/log.h"
#include "core/shape.h"
#include "kernels/gradient/select.h"
#include "kernels/gradient/tile_select.h"

namespace dragonn::compress {
namespace {

/// Tiles: their largest side, and how many of their entries stay.
struct TileRules {
  explicit TileRules(const Settings& settings)
      : chunk(chunk_of(settings)), count(static_cast<std::size_t>(settings.integer("count"))) {}

  /// Calls body(tensor, matrix) for the tensors of a bucket.
  template <class Body>
  void cut_all(std::size_t numel, std::span<const Shape> tensors, double density, const Body& body) const {
    for_each_tensor(numel, tensors, [&](const Shape& tensor) {
      kernels::TiledMatrix matrix = cut_into_tiles(tensor, chunk);
      matrix.keep = count > 0 ? std::min(count, matrix.tile_size()) : target_count(density, matrix.tile_size());
      body(tensor, matrix);
    });
  }

  std::size_t chunk;
  std::size_t count;  ///< 0: by density
};

/// Selects the largest magnitudes of each tile, so that every part of a matrix sends as many.
class ChunkTopk final : public Sparsifier {
 public:
  ChunkTopk(const Settings& settings, std::size_t numel, const Device& device)
      : rules_(settings), numel_(numel), scratch_(device) {
    scratch_.reserve(numel);
  }

  kernels::PassRequest plan(const SelectContext&) override { return {}; }

  void select(const SelectContext& context, kernels::PassResult&, View<const float> acc,
              SparseVector& selected) override {
    if (matrices_.empty() || density_ != context.density) cut(context);
    kernels::reserve_selection(selected, numel_);
    kernels::select_in_tiles(acc, matrices_, scratch_, selected);
  }

 private:
  void cut(const SelectContext& context) {
    density_ = context.density;
    matrices_.clear();
    rules_.cut_all(numel_, context.tensors, density_, [&](const Shape& tensor, const kernels::TiledMatrix& matrix) {
      matrices_.push_back(matrix);
      if (tensor.rank() > 1) report_thin(context, tensor, matrix);
    });
  }

  /// Says once that tiles are thin, not for each of a network's tensors.
  void report_thin(const SelectContext& context, const Shape& tensor, const kernels::TiledMatrix& matrix) const {
    static std::atomic_flag is_said;
    const std::size_t whole = rules_.chunk * rules_.chunk;
    if (context.rank != 0 || matrix.size() < whole || 2 * matrix.tile_size() >= whole || is_said.test_and_set()) return;
    log::info(context.rank,
              "chunktopk: a tensor {} of bucket {} is cut into tiles of {} x {}: less than half of {} x {}, as no "
              "larger numbers divide {} x {} (told of the first such tensor only)",
              tensor.to_string(), context.bucket, matrix.tile_rows, matrix.tile_columns, rules_.chunk, rules_.chunk,
              matrix.rows, matrix.columns);
  }

  TileRules rules_;
  std::size_t numel_;
  double density_ = 0;
  std::vector<kernels::TiledMatrix> matrices_;  // the tensors, at this density
  kernels::TileScratch scratch_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "chunktopk";
  entry.summary = "the entries of largest magnitude of each tile of a matrix";
  entry.source =
      "arXiv:2508.15706 (SparseLoCo), section 3; arXiv:2411.19870 (DeMo), whose transform is compression.transform";
  entry.settings = {chunk_spec(),
                    SettingSpec::integer(
                        "count", 0, "entries of each tile, at any density; 0: density times its elements, at least 1",
                        0, static_cast<double>(kernels::kMaxTileSize))};
  entry.traits = [](const Settings&) { return SelectionTraits{.at_most_k = true}; };
  entry.target = [](const Settings& settings, std::size_t numel, std::span<const Shape> tensors, double density) {
    std::size_t k = 0;
    TileRules(settings).cut_all(numel, tensors, density,
                                [&](const Shape&, const kernels::TiledMatrix& matrix) { k += matrix.kept(); });
    return k;
  };
  entry.exact = true;
  // Tiles that have fewer than their share of non-zeros send less, though others have more.
  entry.band = {.low = 0, .high = 1};
  entry.make = make_sparsifier<ChunkTopk>;
}};

}  // namespace
}  // namespace dragonn::compress
