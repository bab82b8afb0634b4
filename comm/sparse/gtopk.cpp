// SPDX-License-Identifier: MIT
// Collective "gtopk": a tree of ranks merges pairs of selections and keeps k entries of each sum.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "comm/sparse/coding_error.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/sparse_collective.h"
#include "core/choice.h"
#include "core/sparse_vector.h"
#include "kernels/devices.h"

namespace dragonn::comm {
namespace {

/// The rank that gets back the values that do not reach the sum.
///
/// A merge drops partial sums, also of indices that reach the result through another branch of the tree. The paper
/// returns a value to its worker if its index is not in the result at all, and so loses those (kPaper). With kMerger
/// the rank that dropped a partial sum keeps it in its own residual, and every worker gives away all that it selected.
/// kExact sums the selected values at the result's indices once more, so that the paper's rule is right. kNaive ranks
/// the sum of all selections, which every worker computes.
enum class PutBack { kMerger, kExact, kNaive, kPaper };
constexpr auto choices(PutBack) {
  return std::array{"merger", "exact", "naive", "paper"};
}
PutBack put_back(const Settings& settings) {
  return choice_of<PutBack>("put_back", settings.text("put_back"));
}

class GlobalTopk final : public SparseCollective {
 public:
  GlobalTopk(PutBack put_back, std::size_t numel) : put_back_(put_back), numel_(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> /*acc*/,
                   const SparseVector& selected, SparseReduction& out) override {
    out.reset(communicator.size());
    if (!scratch_) scratch_.emplace(selected.device());
    // Without counts every list has at most k entries, and counts as k.
    const bool is_tree = communicator.size() > 1 && put_back_ != PutBack::kNaive;
    if (!is_tree || context.k == 0 || !context.selection.fits_k_slots()) {
      co_await CountsVerb{selected.size(), out.statistics.selected_counts, numel_};
    } else {
      std::ranges::fill(out.statistics.selected_counts, std::min(context.k, numel_));
    }

    bool is_lossy = false;
    error_.clear();
    if (communicator.size() == 1) {
      copy_list(selected, out.sum);
    } else if (put_back_ == PutBack::kNaive) {
      lists_.resize(out.statistics.selected_counts.size());
      is_lossy = co_await GatherListsVerb{
          .mine = selected, .slots = out.statistics.selected_counts, .lists = lists_, .numel = numel_};
      rank_sum_of_all(communicator.clock(), context, out);
      if (is_lossy) error_.add_selection(selected, lists_[static_cast<std::size_t>(communicator.rank())]);
    } else {
      // After the round with ranks at distance 2^i each multiple of 2^(i+1) stands for the ranks up to the next one.
      copy_list(selected, scratch_->current);
      for (int distance = 1; distance < communicator.size(); distance *= 2) {
        const bool sends = communicator.rank() % (2 * distance) != 0;
        if (!sends && communicator.rank() + distance >= communicator.size()) continue;
        plan_merge(communicator.rank(), distance, sends, context.k, out);
        is_lossy = co_await SwapVerb{std::span(&outgoing_, 1), std::span(&incoming_, 1)};
        if (sends && is_lossy && outgoing_.max > 0) error_.add_sums(scratch_->current, outgoing_.sent);
        if (sends) break;
        merge(communicator.clock(), context.k, is_lossy, out);
      }
      is_lossy = co_await BroadcastListVerb{0, scratch_->current, context.k, &out.sum, numel_};
      if (is_lossy && communicator.rank() == 0) error_.add_sums(scratch_->current, out.sum);
    }

    // The entries that left this rank, and for some ways to put back, what else must be sent.
    settle(communicator, selected, out);
    if (is_lossy) give_back(out);
    if (communicator.size() == 1) co_return;
    if (put_back_ == PutBack::kExact) co_await AllreduceVerb{.values = out.sum.values.view()};
    if (put_back_ != PutBack::kPaper) co_return;
    co_await SumMetricsVerb{given_};
    out.statistics.lost_mass = lost_mass(out.sum);
  }

 private:
  /// The memory of the lists, on the device of the first selection.
  struct Scratch {
    explicit Scratch(const Device& device)
        : current(device),
          merged(device),
          dropped(device),
          given(0, device),
          given_mirror(device),
          sum_mirror(device) {}
    SparseVector current, merged, dropped;
    Buffer<float> given;
    kernels::HostMirror<float> given_mirror, sum_mirror;
  };

  /// Plans a merge. A merged list has at most k entries, one that was not merged is a selection.
  void plan_merge(int rank, int distance, bool sends, std::size_t k, const SparseReduction& out) {
    const int partner = sends ? rank - distance : rank + distance;
    const auto max = [&](int sender) {
      return std::max<std::size_t>(k, out.statistics.selected_counts[static_cast<std::size_t>(sender)]);
    };
    outgoing_ = {partner, sends ? max(rank) : 0, scratch_->current};
    incoming_ = {partner, {.max = sends ? 0 : max(partner), .end = numel_}, ListView(scratch_->current).slice(0, 0)};
  }

  void merge(const Clock& clock, std::size_t k, bool is_lossy, SparseReduction& out) {
    const ScopedSeconds decoding(clock, out.statistics.decode_seconds);
    ListOperations& lists = operations(numel_, out.sum.device());
    auto& [current, merged, dropped, given, given_mirror, sum_mirror] = *scratch_;
    lists.merge(current, incoming_.list, merged);
    lists.keep_largest(merged, k, current);
    if (put_back_ == PutBack::kMerger && current.size() < merged.size()) {
      lists.leave_out(merged, current, dropped);
      if (is_lossy) error_.note_stayed(std::as_const(dropped.indices).host());
      lists.merge(out.returned, dropped, merged);
      copy_list(merged, out.returned);
    }
    lists.finish();
  }

  void rank_sum_of_all(const Clock& clock, const ReduceContext& context, SparseReduction& out) {
    const ScopedSeconds decoding(clock, out.statistics.decode_seconds);
    ListOperations& lists = operations(numel_, out.sum.device());
    lists.sum(lists_, scratch_->current);
    lists.keep_above(scratch_->current, 0, scratch_->merged);
    lists.keep_largest(scratch_->merged, context.k, out.sum);
    lists.finish();
  }

  /// Hands back what codes left behind. With kMerger all that was selected has left; otherwise what is in the sum, and
  /// with kExact nothing is left of that.
  void give_back(SparseReduction& out) {
    if (put_back_ == PutBack::kMerger) error_.give_back(out);
    if (put_back_ == PutBack::kNaive || put_back_ == PutBack::kPaper) error_.give_back_at_sum(out);
    if (put_back_ == PutBack::kExact) return;
    mask_nonzero(out);
    error_.unmask_stayed(out);
  }

  void settle(const Communicator& communicator, const SparseVector& selected, SparseReduction& out) {
    ListOperations& lists = operations(numel_, out.sum.device());
    const View<const std::uint32_t> result = std::as_const(out.sum.indices).view();
    if (put_back_ == PutBack::kMerger) {
      copy_indices(selected.indices.view(), out.contributed, numel_);
      out.is_partly_applied = true;
      return lists.common_indices(selected.indices.view(), result, out.applied);
    }
    lists.common_indices(selected.indices.view(), result, out.contributed);
    if (communicator.size() == 1) return;
    if (put_back_ == PutBack::kExact) lists.values_at(selected, result, out.sum.values.view());
    if (put_back_ != PutBack::kPaper) return;
    resize_with_slack(scratch_->given, result.size());
    lists.values_at(selected, result, scratch_->given.view());
    const std::span<const float> given = scratch_->given_mirror.of(std::as_const(scratch_->given).view());
    given_.assign(given.begin(), given.end());
  }

  /// Returns the mass that was selected at the result's indices and is not in its values.
  double lost_mass(const SparseVector& sum) {
    const std::span<const float> applied = scratch_->sum_mirror.of(sum.values.view());
    return std::transform_reduce(given_.begin(), given_.end(), applied.begin(), 0.0, std::plus<>(),
                                 [](double mass, float value) { return std::abs(mass - value); });
  }

  PutBack put_back_;
  std::size_t numel_;
  std::optional<Scratch> scratch_;
  SwapVerb::Outgoing outgoing_;  // of a merge
  SwapVerb::Incoming incoming_;
  std::vector<ListView> lists_;  // by rank, of kNaive
  std::vector<double> given_;    // of kPaper: what the ranks selected at the result's indices
  CodingError error_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.shared_indices || traits.blind)
    return "the collective keeps the largest entries, which undoes a random selection";
  if (traits.partitioned)
    return "the collective merges selections of the whole bucket, but each rank selects in its own range";
  return traits.leader_only ? "the collective merges the selections of all ranks, but only the leader selects" : "";
}

/// Returns the entries that a rank sends up the tree: its selection, or the merge of the ranks below it.
double list_of(const ExchangeSizes& sizes, int rank) {
  const int merged = std::min(rank & -rank, sizes.ranks - rank);
  return merged == 1 ? sizes.selected : std::min(static_cast<double>(sizes.k), merged * sizes.selected);
}

Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const bool is_naive = put_back(settings) == PutBack::kNaive;
  const bool counted = is_naive || !sizes.selection.fits_k_slots();
  const Chain header = counted ? counts_chain(sizes.ranks) : Chain{};
  if (is_naive) {
    const double bytes = sizes.list_bytes(sizes.selected);
    return {bytes * (sizes.ranks - 1), ring_gather_chain(bytes * sizes.ranks, sizes.ranks), header};
  }
  double sent_up = 0, most_up = 0;  // by all ranks, and to rank 0
  for (int rank = 1; rank < sizes.ranks; ++rank) sent_up += sizes.list_bytes(list_of(sizes, rank));
  for (int rank = 1; rank < sizes.ranks; rank *= 2) most_up += sizes.list_bytes(list_of(sizes, rank));
  const double sum = sizes.list_bytes(sizes.global);
  const double values = put_back(settings) == PutBack::kExact ? sizeof(float) * sizes.global : 0;
  const Chain down = broadcast_chain(sum, sizes.ranks);
  Prediction tree{sent_up / sizes.ranks + (sum + 2 * values) * share_of_others(sizes.ranks),
                  Chain{down.messages, most_up} + down, header};
  if (values > 0) tree.payload = tree.payload + ring_allreduce_chain(values, sizes.ranks);
  return tree;
}

/// Returns the bytes of a message and of the lists of a merge: its input, twice as many entries, and the kept and
/// dropped ones. With put_back = "naive" those of the lists of all ranks and their sum.
std::size_t memory(const Settings& settings, const ExchangeSizes& sizes, const Device& device) {
  const auto k = static_cast<double>(sizes.k);
  const std::size_t result = result_bytes(sizes) + decoder_bytes(sizes, device) + coding_error_bytes(sizes, 0);
  if (put_back(settings) == PutBack::kNaive) {
    const double all = sizes.selected * sizes.ranks;
    return list_bytes(all + 2 * std::min(all, static_cast<double>(sizes.numel))) + result;
  }
  const bool returns = put_back(settings) == PutBack::kMerger;
  const std::size_t values_at_sum = device.is_cpu() || returns ? 0 : word_bytes(static_cast<double>(sizes.numel));
  return list_bytes(k * (returns ? 6 : 4)) + values_at_sum + result;
}

bool loses(const Settings& settings) {
  return put_back(settings) == PutBack::kPaper;
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "gtopk",
     .summary = "a tree of workers merges selections pair by pair and keeps the k largest of each sum",
     .source = "gTop-k (Shi et al., ICDCS 2019), algorithms 2 to 4",
     .settings = {SettingSpec::text(
         "put_back", "merger",
         "fate of entries that a merge drops; merger: to the residual of the merging rank; exact: they are summed "
         "after "
         "all; naive: an allgather drops none; paper: some are lost, and lost_mass says how much",
         choice_names<PutBack>())}},
    refuses,
    /*make=*/
    [](const Settings& settings, std::size_t numel) { return std::make_unique<GlobalTopk>(put_back(settings), numel); },
    predict,
    memory,
    SumSize::kTarget,
    /*traffic=*/"4 k (P-1) / P",
    CodedValues::kLists,
    /*resize=*/{},
    /*lists_shared_indices=*/nullptr,
    /*sum_forecast=*/nullptr,
    Senders::kUnknown,
    loses}};

}  // namespace
}  // namespace dragonn::comm
