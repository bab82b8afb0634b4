// SPDX-License-Identifier: MIT
// Collective "oktopk": owners sum regions that hold equal shares, and all ranks gather the sums that reach a threshold.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "comm/blocks.h"
#include "comm/sparse/coding_error.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/slices.h"
#include "comm/sparse/sparse_collective.h"
#include "core/choice.h"
#include "core/error.h"
#include "core/sparse_vector.h"
#include "kernels/devices.h"

namespace dragonn::comm {
namespace {

/// The rule by which the threshold of the sums follows their number between two computations: the released code's
/// constants, by experiment.
struct DriftRules {
  const char* name;
  double few;   ///< times k: with fewer entries the threshold is divided by `lower`
  double many;  ///< times k: with more it is multiplied by `raise`
  double lower;
  double raise;
};
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array kDriftRules{DriftRules{"vgg", 2.0 / 3, 4.0 / 3, 1.008, 1.008},
                                 DriftRules{"lstm", 3.0 / 4, 5.0 / 4, 1.01, 1.008},
                                 DriftRules{"bert", 4.0 / 5, 5.0 / 4, 1.036, 1.025}};
constexpr DriftRules kNoDrift{"off", 0, kNever, 1, 1};

struct Rules {
  std::uint64_t repartition_period;  // 0: regions stay equal
  std::uint64_t global_period;
  double balance_above;
  DriftRules drift;
};

/// An allreduce of O(k) words per rank at any number of ranks. It approximates the k largest sums of all selections:
/// every `global_period` steps these are found exactly, and their smallest is the threshold of the steps between.
class OkTopk final : public SparseCollective {
 public:
  OkTopk(const Rules& rules, std::size_t in_flight, std::size_t numel)
      : rules_(rules), in_flight_(in_flight), numel_(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                   const SparseVector& selected, SparseReduction& out) override {
    DRAGONN_CHECK(acc.size() == numel_, "a collective for {} elements got {}", numel_, acc.size());
    out.reset(communicator.size());
    if (!scratch_) scratch_.emplace(selected.device());
    ListOperations& lists = operations(numel_, selected.device());
    const auto ranks = static_cast<std::size_t>(communicator.size());
    co_await CountsVerb{selected.size(), out.statistics.selected_counts, numel_};

    const std::span<const std::uint32_t> indices = scratch_->indices.of(selected.indices.view());
    if (rules_.repartition_period == 0) {
      propose_regions({}, ranks);  // equal ones: the paper's naive reduce, for which no rank needs to be asked
    } else if (regions_.size() != ranks + 1 || context.step % rules_.repartition_period == 0) {
      propose_regions(indices, ranks);
      const std::span<std::uint64_t> boundaries = std::span(regions_).subspan(1, ranks - 1);
      co_await SumBoundariesVerb{boundaries, numel_};
      for (std::uint64_t& boundary : boundaries) boundary /= ranks;
    }

    // Each rank sums one region.
    slices_.plan_regions(communicator.rank(), selected, indices, regions_, out.statistics.selected_counts);
    error_.clear();
    const bool is_lossy = co_await slices_.verb(in_flight_);
    if (is_lossy) error_.add_selection(selected, slices_.sent());
    sum_lists(communicator.clock(), slices_.in_rotation(), numel_, scratch_->reduced, out.statistics);

    // All ranks gather the sums that reach the threshold: all sums if it must be computed.
    const bool stale = threshold_ <= 0 || context.k != k_ || context.step % rules_.global_period == 0;
    // With k = n everything is wanted, and no threshold of an earlier step may apply.
    const bool keeps_all = stale || context.k >= numel_;
    lists.keep_above(scratch_->reduced, keeps_all ? 0 : static_cast<float>(threshold_), scratch_->kept);
    out.statistics.owned_counts.resize(ranks);
    co_await CountsVerb{scratch_->kept.size(), out.statistics.owned_counts, numel_};
    const auto total = std::reduce(out.statistics.owned_counts.begin(), out.statistics.owned_counts.end());
    const bool balances = !stale && is_uneven(out.statistics.owned_counts, total);
    if (balances) {
      slices_.plan_blocks(communicator.rank(), scratch_->kept, regions_, out.statistics.owned_counts, balanced_counts_);
      co_await slices_.verb(in_flight_);
      if (is_lossy) error_.add_sums(scratch_->kept, slices_.sent());
      lists.concatenate(slices_.in_rank_order(), scratch_->balanced);
    }
    lists_.resize(ranks);
    const SparseVector& owned = balances ? scratch_->balanced : scratch_->kept;
    co_await GatherListsVerb{.mine = owned,
                             .slots = balances ? balanced_counts_ : out.statistics.owned_counts,
                             .lists = lists_,
                             .numel = numel_,
                             .regions = balances ? std::span<const std::uint64_t>() : regions_};
    if (is_lossy) error_.add_sums(owned, lists_[static_cast<std::size_t>(communicator.rank())]);
    SparseVector& gathered = stale ? scratch_->all : out.sum;
    if (balances) check_order_of_blocks(communicator);
    lists.concatenate(lists_, gathered);
    if (stale) keep_largest(context, out.sum);

    if (std::ranges::max(out.statistics.selected_counts) > 0)
      correct_drift(context.k, out.sum.size());  // nothing is learnt from zeros
    // Entries that were selected here and are not in the sum stay, even if their values cancelled.
    lists.common_indices(selected.indices.view(), out.sum.indices.view(), out.contributed);
    if (!is_lossy) co_return;
    error_.give_back_at_sum(out);
    error_.unmask_stayed(out);
  }

  void save(Archive& archive, const std::string& prefix) const override {
    archive.put_array(prefix + "regions", std::span<const std::uint64_t>(regions_));
    archive.put(prefix + "threshold", threshold_);
    archive.put(prefix + "k", static_cast<std::uint64_t>(k_));
  }
  void load(const Archive& archive, const std::string& prefix) override {
    regions_ = archive.get_vector<std::uint64_t>(prefix + "regions");
    if (!regions_.empty() &&
        (regions_.front() != 0 || regions_.back() != numel_ || !std::ranges::is_sorted(regions_))) {
      throw DataError(fmt::format("the checkpoint's field '{}regions' does not divide {} elements", prefix, numel_));
    }
    threshold_ = archive.get<double>(prefix + "threshold");
    k_ = archive.get<std::uint64_t>(prefix + "k");
  }

 private:
  /// The memory of the lists, on the device of the first selection.
  struct Scratch {
    explicit Scratch(const Device& device)
        : reduced(device), kept(device), balanced(device), all(device), indices(device) {}
    SparseVector reduced;   // the sums of this rank's region
    SparseVector kept;      // those that are gathered
    SparseVector balanced;  // what is gathered in their place, where the ranks have very different numbers of them
    SparseVector all;       // of all ranks
    kernels::HostMirror<std::uint32_t> indices;
  };

  /// Proposes regions that hold equal shares of the own selection; the ranks average the proposals. A rank with fewer
  /// entries than there are regions proposes equal regions. Shares differ by one entry at most: with floor(k / P) in
  /// each, as in the paper, the last region would get the remainder, twice its share if k is a few times P.
  void propose_regions(std::span<const std::uint32_t> indices, std::size_t ranks) {
    const std::size_t count = indices.size();
    regions_.assign(ranks + 1, 0);
    regions_.back() = numel_;
    for (std::size_t region = 1; region < ranks; ++region) {
      regions_[region] = count >= ranks ? indices[block_begin(count, ranks, region)] : region * numel_ / ranks;
    }
  }

  /// Returns whether lists must be balanced: on a ring one long list would pass through every rank in turn while the
  /// others wait (section 3.1.4). Between two ranks it is sent once in either case.
  bool is_uneven(std::span<const std::uint64_t> counts, std::uint64_t total) const {
    if (counts.size() <= 2) return false;
    const double mean = static_cast<double>(total) / static_cast<double>(counts.size());
    return static_cast<double>(std::ranges::max(counts)) > rules_.balance_above * mean;
  }

  /// Checks that gathered blocks, whose boundaries are in the middle of regions, follow each other. Of two that do not
  /// either rank may be wrong. Lists that the host does not have are not checked: those between GPUs, and sized ones.
  void check_order_of_blocks(const Communicator& communicator) const {
    const auto indices_of = [&](int rank) { return lists_[static_cast<std::size_t>(rank)].indices; };
    int before = Communicator::kAllRanks;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      if (!indices_of(rank).device().is_cpu() || indices_of(rank).data() == nullptr || indices_of(rank).empty())
        continue;
      if (before != Communicator::kAllRanks) {
        const std::uint32_t last = indices_of(before).host().back(), first = indices_of(rank).host().front();
        if (first <= last) {
          throw communicator.bad_data(
              rank == communicator.rank() ? before : rank, {Route::Kind::kRing},
              fmt::format("the sums of rank {} end with index {}, and those of rank {} begin with {}", before, last,
                          rank, first));
        }
      }
      before = rank;
    }
  }

  /// Makes the k largest of all sums the result, and the smallest of these the next threshold.
  void keep_largest(const ReduceContext& context, SparseVector& sum) {
    const float smallest = operations(numel_, sum.device()).keep_largest(scratch_->all, context.k, sum);
    if (sum.empty()) {
      k_ = 0;  // nothing to compute from: the threshold stays, and the next step computes it
      return;
    }
    threshold_ = smallest;
    k_ = context.k;
  }

  void correct_drift(std::size_t k, std::size_t count) {
    const auto target = static_cast<double>(k), seen = static_cast<double>(count);
    if (seen < rules_.drift.few * target) threshold_ /= rules_.drift.lower;
    if (seen > rules_.drift.many * target) threshold_ *= rules_.drift.raise;
  }

  Rules rules_;
  std::size_t in_flight_;
  std::size_t numel_;
  std::optional<Scratch> scratch_;  // from the first exchange on
  Slices slices_;
  CodingError error_;
  std::vector<ListView> lists_;  // by rank
  std::vector<std::uint64_t> balanced_counts_;
  std::vector<std::uint64_t> regions_;  // boundaries; the same on all ranks, as is the threshold
  double threshold_ = 0;                // of the coming steps; 0: none
  std::size_t k_ = 0;                   // when the threshold was computed; 0: that is to be done
};

double balance_above(const Settings& settings) {
  const std::string& balance = settings.text("balance");
  if (balance == "auto") return settings.number("balance_above");
  return balance == "always" ? 1 : kNever;
}

SettingSpecs settings() {
  return {
      SettingSpec::integer("repartition_period", 64,
                           "steps between choices of the regions; 0: regions always have equal size", 0),
      SettingSpec::integer("global_period", 32, "steps between computations of the threshold of the sums", 1),
      SettingSpec::text(
          "balance", "auto",
          "balance the lists of sums before three or more workers gather them; auto: if the largest list is "
          "balance_above times the mean; always; never",
          {"auto", "always", "never"}),
      // The paper's 4 is never reached by up to four ranks. P - 1 lists pass each link as long as the longest one, and
      // what balancing moves is sent once: from three ranks on it pays for all but short lists.
      SettingSpec::number("balance_above", 1.25,
                          "ratio of the largest list to the mean from which balance = \"auto\" acts; the paper's is 4",
                          1),
      SettingSpec::text(
          "drift", "ref",
          "ref: correct a reused threshold whose count leaves its band, as the released code does; off: keep it",
          {"ref", "off"}),
      SettingSpec::text("drift_rules", "vgg", "experiment of the released code whose constants drift = \"ref\" uses",
                        names_in(kDriftRules)),
      in_flight_setting()};
}

std::string refuses(const SelectionTraits& traits) {
  if (traits.shared_indices || traits.blind)
    return "the collective keeps the largest sums, which undoes a random selection";
  if (traits.partitioned) return "the collective chooses its own regions, but each rank selects in its own range";
  return traits.leader_only ? "the collective sums the selections of all ranks, but only the leader selects" : "";
}

/// Returns the forecast of the gather in steps that reuse a threshold. That of the first step is of a gradient alone:
/// the sums outgrow it as soon as residuals are added, and the drift rule follows by a factor of 1.3 in a period, so
/// up to all sums are gathered. Later thresholds are of grown residuals. Measured on MLPs between 6 workers: 1.0 to 1.3
/// in the first period, then 0.6 to 1.2, on MNIST; 5.2, then 0.9 to 3.4, on random images, whose gradients are noise;
/// up to 1.7 between 2 workers.
CountForecast sum_forecast(const Settings& settings, int ranks) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  return {.settled = {0.4, 1, std::max(1.0, 0.85 * ranks)},
          .first = {0.4, (1.0 + ranks) / 2, kAll},
          .first_steps = static_cast<std::uint64_t>(settings.integer("global_period"))};
}

/// Predicts the cost. Steps that choose regions or balance pay for that in addition. In steps that compute the
/// threshold all sums are gathered: as many as there can be.
Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const double slices = sizes.part_bytes(sizes.selected);
  const double max = std::min(sizes.selected * sizes.ranks, static_cast<double>(sizes.numel));
  const double computing = sizes.computes_threshold ? (*sizes.computes_threshold ? 1.0 : 0.0)
                                                    : 1.0 / static_cast<double>(settings.integer("global_period"));
  const double sums = computing * sizes.part_bytes(max) + (1 - computing) * sizes.part_bytes(sizes.global);
  Prediction prediction{
      .bytes_sent = (slices + sums) * share_of_others(sizes.ranks),
      .payload = slices_chain(slices, sizes.ranks, in_flight(settings)) + ring_gather_chain(sums, sizes.ranks),
      .header = 2 * counts_chain(sizes.ranks)};
  if (sizes.computes_threshold == false && sizes.coding.is_fixed_size()) {
    const double entries = std::max(sizes.largest, sizes.global);
    prediction.max_bytes = 3 * SparseVector::kEntryBytes * entries * share_of_others(sizes.ranks);
  }
  return prediction;
}

/// Returns the bytes of sent and received slices, this rank's sums and those that it keeps; and of all sums, as
/// messages, as lists and as one list, of which there are most in the steps that compute the threshold.
std::size_t memory(const Settings&, const ExchangeSizes& sizes, const Device& device) {
  const double max = std::min(sizes.selected * sizes.ranks, static_cast<double>(sizes.numel));
  const double own = 2 * max / sizes.ranks;
  return list_bytes(3 * sizes.selected + own + 3 * max) + decoder_bytes(sizes, device) + result_bytes(sizes) +
         coding_error_bytes(sizes, own / 2);
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "oktopk",
     .summary = "each worker sums a region with an equal share of the entries; all workers gather the sums above a "
                "reused threshold",
     .source = "Ok-Topk (Li and Hoefler, PPoPP 2022), algorithm 1; drift: Shigangli/Ok-Topk",
     .settings = settings()},
    refuses,
    /*make=*/
    [](const Settings& settings, std::size_t numel) {
      const Rules rules{
          .repartition_period = static_cast<std::uint64_t>(settings.integer("repartition_period")),
          .global_period = static_cast<std::uint64_t>(settings.integer("global_period")),
          .balance_above = balance_above(settings),
          .drift = settings.text("drift") == "off" ? kNoDrift : variant_of(kDriftRules, settings.text("drift_rules"))};
      return std::make_unique<OkTopk>(rules, in_flight(settings), numel);
    },
    predict,
    memory,
    SumSize::kTarget,
    /*traffic=*/"4 k (P-1) / P",
    CodedValues::kLists,
    {OnResize::kRestart, "restarts: its regions are one per worker, and the threshold of the sums is computed anew"},
    /*lists_shared_indices=*/nullptr,
    sum_forecast}};

}  // namespace
}  // namespace dragonn::comm
