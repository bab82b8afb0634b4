// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "compress/exdyna_partition.h"
#include "compress/sparsifier.h"
#include "core/error.h"
#include "kernels/devices.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {

ExdynaPartition::ExdynaPartition(const ExdynaPartitionRules& rules, std::size_t numel, std::size_t ranks)
    : rules_(rules), numel_(numel), lengths_(ranks), positions_(ranks), counts_(ranks) {
  constexpr std::size_t kBlockMultiple = 32;
  const std::size_t wanted = std::max(rules.blocks, ranks);
  block_size_ = numel / wanted / kBlockMultiple * kBlockMultiple;
  if (block_size_ > 0) {
    // Rounding down leaves more than a block over, so there are as many blocks as fit.
    blocks_ = numel / block_size_;
  } else {
    blocks_ = std::max(ranks, numel / kBlockMultiple);
    block_size_ = std::max<std::size_t>(1, numel / blocks_);
  }
  for (std::size_t p = 0; p < ranks; ++p) lengths_[p] = blocks_ / ranks + (p < blocks_ % ranks ? 1 : 0);
  std::exclusive_scan(lengths_.begin(), lengths_.end(), positions_.begin(), std::uint64_t{0});
}

ExdynaPartition::Range ExdynaPartition::range(std::size_t partition) const {
  const std::size_t begin = std::min(numel_, positions_[partition] * block_size_);
  if (partition + 1 == ranks()) return {begin, numel_};
  return {begin, std::min(numel_, (positions_[partition] + lengths_[partition]) * block_size_)};
}

void ExdynaPartition::adjust(std::span<const std::uint64_t> counts, std::uint64_t step) {
  DRAGONN_CHECK(counts.size() == ranks(), "counts of {} ranks for {} partitions", counts.size(), ranks());
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  if (total == 0) return;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    counts_[partition_of(rank, step)] = static_cast<double>(counts[rank]);
  const double mean = total / static_cast<double>(ranks());
  const double fewest_blocks = static_cast<double>(blocks_) / (4 * static_cast<double>(ranks()));
  // A move takes along this many entries, if they are spread evenly.
  const double moved = static_cast<double>(rules_.block_move * block_size_) * (total / static_cast<double>(numel_));
  const auto may_give = [&](std::size_t partition) {
    return static_cast<double>(lengths_[partition]) - static_cast<double>(rules_.block_move) >= fewest_blocks;
  };
  for (std::size_t left = 0; left + 1 < ranks(); ++left) {
    const std::size_t right = left + 1;
    const double left_load = counts_[left] / mean, right_load = counts_[right] / mean;
    if (left_load > rules_.alpha && right_load < 1 / rules_.alpha && may_give(left)) {
      lengths_[left] -= rules_.block_move;
      lengths_[right] += rules_.block_move;
      positions_[right] -= rules_.block_move;
      counts_[left] -= moved;
      counts_[right] += moved;
    } else if (left_load < 1 / rules_.alpha && right_load > rules_.alpha && may_give(right)) {
      lengths_[left] += rules_.block_move;
      lengths_[right] -= rules_.block_move;
      positions_[right] += rules_.block_move;
      counts_[left] += moved;
      counts_[right] -= moved;
    }
  }
}

void ExdynaPartition::save(Archive& archive, const std::string& prefix) const {
  archive.put_array(prefix + "lengths", std::span<const std::uint64_t>(lengths_));
  archive.put_array(prefix + "positions", std::span<const std::uint64_t>(positions_));
}

void ExdynaPartition::load(const Archive& archive, const std::string& prefix) {
  archive.get_array(prefix + "lengths", std::span<std::uint64_t>(lengths_));
  archive.get_array(prefix + "positions", std::span<std::uint64_t>(positions_));
  std::uint64_t end = 0;
  bool divides = true;
  for (std::size_t p = 0; p < ranks() && divides; ++p) {
    divides = positions_[p] == end && lengths_[p] <= blocks_ - end;
    end += lengths_[p];
  }
  if (!divides || end != blocks_)
    throw DataError(fmt::format("the checkpoint's fields '{0}lengths' and '{0}positions' do not divide {1} blocks",
                                prefix, blocks_));
}

namespace {

/// The factor on the threshold after a step that selected `ratio` times k entries.
struct Feedback {
  bool symmetric;
  double beta, gamma;

  double factor(double ratio) const {
    if (ratio > beta) return 1 + gamma;
    if (!symmetric) return ratio > 1 / beta ? 1 + gamma / 4 : 1 - gamma;
    if (ratio > 1) return 1 + gamma / 4;
    if (ratio == 1) return 1;
    return ratio > 1 / beta ? 1 - gamma / 4 : 1 - gamma;
  }
};

double formula(std::size_t k) {
  return 1 / (2 * std::sqrt(static_cast<double>(k)));
}

/// Selects on each rank from its own partition, so that no index is sent twice. One threshold follows the number of
/// entries that all ranks found. Both depend only on what all ranks have seen, so that they are the same on all.
class Exdyna final : public Sparsifier {
 public:
  Exdyna(const Settings& settings, std::size_t numel, const Device& device)
      : rules_{.blocks = static_cast<std::size_t>(settings.integer("blocks")),
               .block_move = static_cast<std::size_t>(settings.integer("block_move")),
               .alpha = settings.number("alpha")},
        feedback_{.symmetric = settings.text("feedback") == "symmetric",
                  .beta = settings.number("beta"),
                  .gamma = settings.number("gamma")},
        dynamic_(settings.flag("dynamic")),
        first_from_topk_(settings.text("first_delta") == "topk"),
        force_one_(settings.flag("force_one")),
        numel_(numel),
        scratch_(device) {
    if (first_from_topk_) scratch_.reserve(numel);
  }

  kernels::PassRequest plan(const SelectContext& context) override {
    const auto ranks = static_cast<std::size_t>(context.world_size);
    if (partition_.ranks() != ranks) partition_ = ExdynaPartition(rules_, numel_, ranks);
    if (context.k != k_) follow_target(context.k);
    if (!has_delta()) return {};
    const auto [begin, end] = range(context);
    return {.kind = kernels::PassRequest::Kind::kThreshold, .threshold = compared(), .begin = begin, .end = end};
  }

  std::optional<float> propose(const SelectContext& context, View<const float> acc) override {
    if (has_delta()) return {};
    return context.rank == 0 ? kernels::kth_largest_magnitude(acc, context.k, scratch_) : 0.0f;
  }
  void accept_proposal(float delta) override { set_delta(delta > 0 ? delta : formula(k_)); }

  void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
              SparseVector& selected) override {
    const auto [begin, end] = range(context);
    kernels::reserve_selection(selected, numel_);
    if (has_delta() && pass.request.kind == kernels::PassRequest::Kind::kThreshold) {
      std::swap(pass.selected, selected);
    } else {
      if (context.world_size == 1) accept_proposal(kernels::kth_largest_magnitude(acc, context.k, scratch_));
      DRAGONN_CHECK(has_delta(), "exdyna's first threshold was not agreed on by {} ranks", context.world_size);
      kernels::select_threshold_in(acc, compared(), begin, end, selected);
    }
    threshold_ = compared();
    if (force_one_ && selected.empty() && begin < end)
      take_one(acc, static_cast<std::uint32_t>(begin + context.step % (end - begin)), selected);
  }

  void observe(const ExchangeOutcome& outcome) override {
    const auto& counts = outcome.selected_counts;
    const auto total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    set_delta(delta_ * feedback_.factor(static_cast<double>(total) / static_cast<double>(outcome.k)));
    if (dynamic_) partition_.adjust(counts, outcome.step);
  }

  void save(Archive& archive, const std::string& prefix) const override {
    archive.put(prefix + "delta", delta_);
    archive.put(prefix + "k", static_cast<std::uint64_t>(k_));
    archive.put(prefix + "ranks", static_cast<std::uint64_t>(partition_.ranks()));
    partition_.save(archive, prefix);
  }
  void load(const Archive& archive, const std::string& prefix) override {
    delta_ = archive.get<double>(prefix + "delta");
    k_ = archive.get<std::uint64_t>(prefix + "k");
    const auto ranks = archive.get<std::uint64_t>(prefix + "ranks");
    if (ranks != archive.get_vector<std::uint64_t>(prefix + "lengths").size())
      throw DataError(
          fmt::format("the checkpoint's field '{0}lengths' is not of {1} ranks, as '{0}ranks' says", prefix, ranks));
    // There are none before the first selection: the run may still be in a dense phase.
    partition_ = ranks == 0 ? ExdynaPartition() : ExdynaPartition(rules_, numel_, ranks);
    partition_.load(archive, prefix);
  }

 private:
  static void take_one(View<const float> acc, std::uint32_t index, SparseVector& selected) {
    selected.resize_discard(1);
    kernels::transfer(View<const std::uint32_t>(std::span(&index, 1)), selected.indices.view());
    kernels::gather(acc, selected.indices.view(), selected.values.view());
  }

  bool has_delta() const { return delta_ > 0; }
  void set_delta(double delta) {
    delta_ = std::clamp(delta, static_cast<double>(std::numeric_limits<float>::min()),
                        static_cast<double>(std::numeric_limits<float>::max()));
  }
  float compared() const { return static_cast<float>(delta_); }

  /// Adapts to a new density, or starts. The feedback would take hundreds of steps for a factor of ten, so the
  /// threshold is scaled as the formula for the first one is, or measured anew.
  void follow_target(std::size_t k) {
    if (first_from_topk_)
      delta_ = 0;
    else
      set_delta(has_delta() ? delta_ * formula(k) / formula(k_) : formula(k));
    k_ = k;
  }

  ExdynaPartition::Range range(const SelectContext& context) const {
    return partition_.range(partition_.partition_of(static_cast<std::size_t>(context.rank), context.step));
  }

  ExdynaPartitionRules rules_;
  Feedback feedback_;
  bool dynamic_, first_from_topk_, force_one_;
  std::size_t numel_;
  ExdynaPartition partition_;
  double delta_ = 0;   // of the coming step; 0: not known yet
  std::size_t k_ = 0;  // that delta_ is for
  kernels::MagnitudeScratch scratch_;
};

const Registration<SparsifierEntry> registration{[](SparsifierEntry& entry) {
  entry.name = "exdyna";
  entry.summary = "entries above a threshold controlled by feedback; each rank selects in its own partition";
  entry.source = "ExDyna (2024), algorithms 1 to 5; kljp/exdyna";
  entry.settings = {
      SettingSpec::integer("blocks", 1024, "number of blocks that form the partitions, at least one per rank", 1, 1e6),
      SettingSpec::integer("block_move", 1, "blocks that move between two neighbouring partitions at once", 1, 1e6),
      SettingSpec::number("alpha", 1.05,
                          "blocks move from a partition with more than alpha times the mean count to one with less "
                          "than 1 / alpha times the mean",
                          1, 1e3),
      SettingSpec::number("beta", 1.1,
                          "the threshold changes by gamma if selected / k is outside [1 / beta, beta], and by gamma / "
                          "4 inside",
                          1, 1e3),
      SettingSpec::number("gamma", 0.005, "relative change of the threshold per step", 0, 0.9),
      SettingSpec::text("feedback", "symmetric",
                        "symmetric: the threshold rises above k entries and falls below k; paper: it rises above k / "
                        "beta entries, so that the count settles below k",
                        {"symmetric", "paper"}),
      SettingSpec::text("first_delta", "default",
                        "threshold of the first step and after a change of density; default: by the formula 1 / (2 "
                        "sqrt(k)); topk: rank 0's k-th largest magnitude, one word sent to each rank",
                        {"default", "topk"}),
      SettingSpec::flag("force_one", false,
                        "true: a rank that selects nothing sends one entry of its partition, as the released code "
                        "does"),
      SettingSpec::flag("dynamic", true, "true: move blocks between partitions; false: keep the first partitions")};
  entry.traits = [](const Settings&) { return SelectionTraits{.partitioned = true}; };
  // The first threshold can be off by a factor of 100: 920 steps of half a percent.
  entry.band = {.low = 0.9, .high = 1.1, .settling_steps = 1200};
  // The threshold is the same on all ranks; plan() cuts partitions when their number is not that of the ranks.
  entry.resize = {OnResize::kReshard, "keeps its threshold and cuts the partitions anew"};
  // The first threshold knows no gradient, and residuals outgrow any: 0.03 to 330 measured (docs/algorithms.md, 2.11).
  entry.forecast = [](const Settings& values) {
    constexpr double kAll = std::numeric_limits<double>::infinity();
    const double gamma = values.number("gamma");  // until a threshold that is off by a factor of 100 has settled:
    const double steps = gamma > 0 ? std::ceil(std::log(100) / std::log1p(gamma)) : 0;
    return CountForecast{
        .settled = {0.5, 1, 3}, .first = {0, 15, kAll}, .first_steps = static_cast<std::uint64_t>(steps)};
  };
  entry.longest = {1, 1.3, 2.5};
  entry.make = make_sparsifier<Exdyna>;
}};

}  // namespace
}  // namespace dragonn::compress
