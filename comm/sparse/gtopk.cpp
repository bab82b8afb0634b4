// SPDX-License-Identifier: MIT
// Collective "gtopk": a tree of ranks merges pairs of selections and keeps k entries of each sum.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "comm/room.h"
#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/coo_gather.h"
#include "comm/sparse/counts.h"
#include "comm/sparse/device_gtopk.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/merge.h"
#include "comm/sparse/put_back.h"
#include "comm/sparse/scoped_seconds.h"
#include "comm/sparse/sparse_collective.h"
#include "comm/tags.h"
#include "kernels/select.h"

namespace dragonn::comm {
namespace {

/// In the order of PutBack.
constexpr std::array kPutBackNames{"merger", "exact", "naive", "paper"};

PutBack put_back(const Settings& settings) {
  const auto found = std::ranges::find(kPutBackNames, settings.text("put_back"));
  return static_cast<PutBack>(found - kPutBackNames.begin());
}

class GlobalTopk final : public SparseCollective {
 public:
  GlobalTopk(PutBack put_back, std::size_t numel)
      : put_back_(put_back), numel_(numel), decoder_(numel), on_device_(put_back, numel) {}

  void do_reduce(Communicator& communicator, const ReduceContext& context, View<const float> /*acc*/,
                 const SparseVector& selected, SparseReduction& out) override {
    out.reset(communicator.size());
    if (communicator.device_transport() != nullptr) return on_device_.run(communicator, context, selected, out);
    if (needs_counts(communicator, context)) {
      out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
      if (out.non_finite) return;
    } else {
      std::ranges::fill(out.selected_counts, std::min(context.k, numel_));
    }
    if (communicator.size() == 1) {
      resize_with_room(out.sum, selected.size());
      kernels::copy_entries(selected, out.sum);
    } else if (put_back_ == PutBack::kNaive) {
      rank_sum_of_all(communicator, context, selected, out);
    } else {
      saw_non_finite_ = context.non_finite;
      merge_up(communicator, context.k, selected, out);
      broadcast_result(communicator, context, out);
    }
    if (out.non_finite) return;
    if (context.payload_only) return sum_hollow(communicator, out.sum);
    settle(communicator, selected, out);
  }

 private:
  /// Without them every list has k entries at most, counts as k, and says itself whether a rank saw NaN or infinity.
  bool needs_counts(const Communicator& communicator, const ReduceContext& context) const {
    const bool is_tree = communicator.size() > 1 && put_back_ != PutBack::kNaive;
    return !is_tree || context.k == 0 || !context.selection.fits_k_slots();
  }

  /// After the round with ranks at distance 2^i each multiple of 2^(i+1) stands for the ranks up to the next one.
  void merge_up(Communicator& communicator, std::size_t k, const SparseVector& selected, SparseReduction& out) {
    resize_with_room(current_, selected.size());
    kernels::copy_entries(selected, current_);
    const int rank = communicator.rank();
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    for (int distance = 1; distance < communicator.size(); distance *= 2) {
      if (rank % (2 * distance) != 0) {
        return communicator.send(rank - distance, kTagMerge, std::span<const std::byte>(pack_current()));
      }
      const int source = rank + distance;
      if (source >= communicator.size()) continue;
      // What was merged has k entries at most, what was not is a selection.
      const std::size_t most = std::max<std::size_t>(k, out.selected_counts[static_cast<std::size_t>(source)]);
      const std::span<std::byte> message = room_for(most);
      const std::size_t bytes = communicator.recv(source, kTagMerge, message);
      merge(communicator.clock(), view_coo(message.first(bytes)), k, out);
    }
  }

  /// As a message: what was merged so far, or that a rank below saw NaN or infinity.
  std::span<std::byte> pack_current() {
    const std::span<std::byte> message = room_for(saw_non_finite_ ? 1 : current_.size());
    if (saw_non_finite_) {
      pack_non_finite(message);
    } else {
      pack_coo(view_coo(current_), message);
    }
    return message;
  }

  void merge(const Clock& clock, const CooView& other, std::size_t k, SparseReduction& out) {
    saw_non_finite_ = saw_non_finite_ || says_non_finite(other);
    if (saw_non_finite_) return;
    const ScopedSeconds decoding(clock, out.decode_seconds);
    add_entries(view_coo(current_), other, merged_);
    keep_largest_with_room(merged_, k, scratch_, current_);
    if (put_back_ != PutBack::kMerger || current_.size() == merged_.size()) return;
    entries_left_out(merged_, current_.indices.host(), dropped_);
    add_entries(view_coo(out.returned), view_coo(dropped_), merged_);
    resize_with_room(out.returned, merged_.size());
    kernels::copy_entries(merged_, out.returned);
  }

  /// Of rank 0's current_ to everybody's sum.
  void broadcast_result(Communicator& communicator, const ReduceContext& context, SparseReduction& out) {
    const bool is_root = communicator.rank() == 0;
    const std::size_t bytes = is_root ? pack_current().size() : 0;
    const std::span<std::byte> message = is_root ? message_.host() : room_for(context.k);
    const ScopedHollow scope(communicator, context.payload_only);
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    const std::size_t came = communicator.broadcast_variable(0, message, bytes);
    const CooView result = view_coo(message.first(came));
    if (context.payload_only) return resize_with_room(out.sum, result.size());
    out.non_finite = says_non_finite(result);
    if (out.non_finite) return out.returned.clear();
    resize_with_room(out.sum, result.size());
    std::ranges::copy(result.indices, out.sum.indices.data());
    std::ranges::copy(result.values, out.sum.values.data());
  }

  void rank_sum_of_all(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                       SparseReduction& out) {
    const ScopedHollow scope(communicator, context.payload_only);
    gather_.run(communicator, view_coo(selected), out.selected_counts);
    if (context.payload_only) return resize_with_room(out.sum, context.k);
    const ScopedSeconds decoding(communicator.clock(), out.decode_seconds);
    for (std::size_t rank = 0; rank < gather_.ranks(); ++rank) decoder_.add(gather_.list(rank));
    decoder_.finish(current_);
    keep_above(current_, 0, merged_);
    keep_largest_with_room(merged_, context.k, scratch_, out.sum);
  }

  /// The part of settle() that is traffic.
  void sum_hollow(Communicator& communicator, SparseVector& sum) {
    if (put_back_ != PutBack::kExact || communicator.size() == 1) return;
    const ScopedHollow scope(communicator, /*hollow=*/true);
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.allreduce_sum(sum.values.view());
  }

  void settle(Communicator& communicator, const SparseVector& selected, SparseReduction& out) {
    const auto result = std::span<const std::uint32_t>(out.sum.indices.host());
    if (put_back_ == PutBack::kMerger) {
      resize_with_room(out.contributed, selected.size());
      std::ranges::copy(selected.indices.host(), out.contributed.data());
      out.is_partly_applied = true;
      common_indices(selected.indices.host(), result, out.applied);
      return;
    }
    common_indices(selected.indices.host(), result, out.contributed);
    if (communicator.size() == 1) return;
    if (put_back_ == PutBack::kExact) {
      values_at(selected, result, out.sum.values.host());
      const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
      communicator.allreduce_sum(out.sum.values.view());
    } else if (put_back_ == PutBack::kPaper) {
      out.lost_mass = measure_loss(communicator, selected, out.sum);
    }
  }

  /// What was selected at the result's indices and is not in its values. Not the method's own traffic.
  double measure_loss(Communicator& communicator, const SparseVector& selected, const SparseVector& sum) {
    resize_with_room(given_, sum.size());
    const std::span<double> given = given_.host();
    values_at(selected, std::span<const std::uint32_t>(sum.indices.host()), given);
    const ScopedPhase phase(communicator.traffic(), Phase::kMetrics);
    communicator.allreduce_sum(given);
    return std::transform_reduce(given.begin(), given.end(), sum.values.data(), 0.0, std::plus<>(),
                                 [](double mass, float applied) { return std::abs(mass - applied); });
  }

  std::span<std::byte> room_for(std::size_t entries) {
    resize_with_room(message_, coo_bytes(entries));
    return message_.host();
  }

  PutBack put_back_;
  std::size_t numel_;
  bool saw_non_finite_ = false;  // this rank, or one whose list reached it
  CountExchange counts_;
  CooGather gather_;
  BatchDecoder decoder_;
  kernels::MagnitudeScratch scratch_;
  Buffer<std::byte> message_;
  SparseVector current_;
  SparseVector merged_;
  SparseVector dropped_;
  Buffer<double> given_;
  DeviceGlobalTopk on_device_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.shared_indices || traits.blind)
    return "the collective keeps the largest entries, which undoes a random selection";
  if (traits.partitioned)
    return "the collective merges selections of the whole bucket, but each rank selects in its own range";
  return traits.leader_only ? "the collective merges the selections of all ranks, but only the leader selects" : "";
}

/// Entries that a rank sends up the tree: its selection, or what it merged of the ranks below it.
double list_of(const ExchangeSizes& sizes, int rank) {
  const int merged = std::min(rank & -rank, sizes.ranks - rank);
  return merged == 1 ? sizes.selected : std::min(static_cast<double>(sizes.k), merged * sizes.selected);
}

Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const bool is_naive = put_back(settings) == PutBack::kNaive;
  const bool counted = is_naive || !sizes.selection.fits_k_slots();
  const Chain header = counted ? counts_chain(sizes.ranks) : Chain{};
  if (is_naive) {
    const double bytes = SparseVector::kEntryBytes * sizes.selected;
    return {bytes * (sizes.ranks - 1), ring_gather_chain(bytes * sizes.ranks, sizes.ranks), header};
  }
  double sent_up = 0, most_up = 0;  // by all ranks, and to rank 0
  for (int rank = 1; rank < sizes.ranks; ++rank) sent_up += SparseVector::kEntryBytes * list_of(sizes, rank);
  for (int rank = 1; rank < sizes.ranks; rank *= 2) most_up += SparseVector::kEntryBytes * list_of(sizes, rank);
  const double sum = SparseVector::kEntryBytes * sizes.global;
  const double values = put_back(settings) == PutBack::kExact ? sizeof(float) * sizes.global : 0;
  const Chain down = broadcast_chain(sum, sizes.ranks);
  Prediction tree{sent_up / sizes.ranks + (sum + 2 * values) * share_of_others(sizes.ranks),
                  Chain{down.messages, most_up} + down, header};
  if (values > 0) tree.payload = tree.payload + ring_allreduce_chain(values, sizes.ranks);
  return tree;
}

/// A message, and the lists of a merge: its input, twice as many entries, what it keeps and what it drops. With
/// put_back = "naive" the lists of all ranks and their sum.
std::size_t memory(const Settings& settings, const ExchangeSizes& sizes, const Device& device) {
  const auto k = static_cast<double>(sizes.k);
  const std::size_t result = result_bytes(sizes) + decoder_bytes(sizes, device);
  if (put_back(settings) == PutBack::kNaive) {
    const double all = sizes.selected * sizes.ranks;
    return list_bytes(all + 2 * std::min(all, static_cast<double>(sizes.numel))) + result;
  }
  const bool returns = put_back(settings) == PutBack::kMerger;
  const std::size_t values_at_sum = device.is_cpu() || returns ? 0 : word_bytes(static_cast<double>(sizes.numel));
  return list_bytes(k * (returns ? 6 : 4)) + values_at_sum + result;
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "gtopk",
     .summary = "a tree of workers merges selections pair by pair and keeps the k largest of each sum",
     .source = "gTop-k (Shi et al., ICDCS 2019), algorithms 2 to 4",
     .settings = {{.name = "put_back",
                   .default_value = std::string("merger"),
                   .help = "where entries go that a merge drops; merger: to the residual of the merging rank; exact: "
                           "they are summed after all; naive: none are dropped, by an allgather; paper: some are lost, "
                           "and lost_mass tells how much",
                   .choices = {kPutBackNames.begin(), kPutBackNames.end()}}}},
    refuses,
    /*make=*/
    [](const Settings& settings, std::size_t numel) -> std::unique_ptr<SparseCollective> {
      return std::make_unique<GlobalTopk>(put_back(settings), numel);
    },
    predict,
    memory,
    SumSize::kTarget,
    /*traffic=*/"4 k (P-1) / P"}};

}  // namespace
}  // namespace dragonn::comm
