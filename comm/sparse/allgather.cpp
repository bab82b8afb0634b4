// SPDX-License-Identifier: MIT
// Collective "allgather" (the papers' TopkA): every rank gets every selection and sums them in rank order.
#include <algorithm>
#include <array>

#include "comm/sparse/coding_error.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/index_sum.h"
#include "comm/sparse/sparse_collective.h"
#include "core/choice.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {
namespace {

enum class Layout { kAuto, kFixed, kPadded, kUnpadded };

constexpr auto choices(Layout) {
  return std::array{"auto", "fixed", "padded", "unpadded"};
}
Layout layout_of(const Settings& settings) {
  return choice_of<Layout>("layout", settings.text("layout"));
}

GatherRoute route_of(const Settings& settings) {
  return choice_of<GatherRoute>("route", settings.text("route"));
}

/// Returns whether lists travel although all ranks select the same indices: only in a layout that is asked for.
bool lists_shared_indices(const Settings& settings) {
  return layout_of(settings) != Layout::kAuto;
}

/// Returns whether values travel alone.
bool sums_shared_indices(Layout layout, const SelectionTraits& selection) {
  return selection.shared_indices && layout == Layout::kAuto;
}

class Allgather final : public SparseCollective {
 public:
  Allgather(const Settings& settings, std::size_t numel)
      : layout_(layout_of(settings)),
        route_(route_of(settings)),
        decode_dense_(settings.text("decode") == "dense"),
        numel_(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                   const SparseVector& selected, SparseReduction& out) override {
    DRAGONN_CHECK(acc.size() == numel_, "a collective for {} elements got {}", numel_, acc.size());
    out.reset(communicator.size());
    const bool shared = sums_shared_indices(layout_, context.selection);
    return shared ? shared_.rounds(acc.size(), selected, out) : gather(communicator, context, selected, out);
  }

 private:
  Rounds gather(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                SparseReduction& out) {
    const std::size_t fixed_slots = std::min(context.k, numel_);
    const bool fixed = layout_ == Layout::kFixed || (layout_ == Layout::kAuto && context.selection.fits_k_slots());
    std::vector<std::uint64_t>& slots = out.statistics.selected_counts;
    if (fixed) {
      DRAGONN_CHECK(selected.size() <= fixed_slots,
                    "{} selected entries do not fit a fixed message of {}; set layout = \"unpadded\"", selected.size(),
                    fixed_slots);
      std::ranges::fill(slots, fixed_slots);
    } else {
      co_await CountsVerb{selected.size(), slots, numel_};
      if (layout_ == Layout::kPadded) std::ranges::fill(slots, std::ranges::max(slots));
    }
    lists_.resize(slots.size());
    const bool is_lossy = co_await GatherListsVerb{.mine = selected,
                                                   .slots = slots,
                                                   .lists = lists_,
                                                   .numel = numel_,
                                                   .equal = fixed || layout_ == Layout::kPadded,
                                                   .route = route_};
    std::ranges::transform(lists_, slots.begin(), [](const ListView& list) { return list.size(); });
    decode(communicator.clock(), context.averages_senders, out);
    copy_indices(selected.indices.view(), out.contributed, numel_);
    if (!is_lossy) co_return;
    const ListView& sent = lists_[static_cast<std::size_t>(communicator.rank())];
    error_.clear();
    error_.add_selection(selected, sent);
    error_.give_back(out);
    // Of every entry only a part may have left: nothing is masked, as with a quantizer.
    out.is_partly_applied = sent.size() == numel_;
    if (!out.is_partly_applied) error_.unmask_stayed(out);
  }

  /// Decodes in rank order, so that every rank computes the same bits.
  void decode(const Clock& clock, bool averages, SparseReduction& out) {
    const ScopedSeconds decoding(clock, out.statistics.decode_seconds);
    ListOperations& lists = operations(numel_, out.sum.device());
    if (decode_dense_) {
      lists.sum_dense(lists_, out.dense_sum);
      out.is_dense = true;
    } else {
      lists.sum(lists_, out.sum);
    }
    if (averages) average(lists, out);
    lists.finish();
  }

  /// Divides each entry of the sum by the number of lists that have it, in host memory. It decodes once more.
  void average(ListOperations& lists, SparseReduction& out) {
    lists.unite(lists_, counts_);
    const auto indices = counts_.indices.host();
    const auto counts = counts_.values.host();
    const auto sum = out.is_dense ? out.dense_sum.host() : out.sum.values.host();
    for (std::size_t i = 0; i < counts.size(); ++i) sum[out.is_dense ? indices[i] : i] /= counts[i];
    out.is_mean = true;
  }

  Layout layout_;
  GatherRoute route_;
  bool decode_dense_;
  std::size_t numel_;
  SparseVector counts_;  // of the senders of each entry
  SharedSum shared_;
  std::vector<ListView> lists_;  // by rank
  CodingError error_;
};

std::string refuses(const SelectionTraits& traits) {
  return traits.leader_only ? "the collective sums the selections of all ranks, but only the leader selects" : "";
}

Prediction predict(const Settings& settings, const ExchangeSizes& sizes) {
  const Layout layout = layout_of(settings);
  if (sums_shared_indices(layout, sizes.selection)) return predict_shared_selection(sizes);
  const double others = sizes.ranks - 1;
  const auto gather = [&, route = route_of(settings)](double bytes) {
    return route == GatherRoute::kDirect ? direct_gather_chain(bytes, sizes.ranks)
                                         : ring_gather_chain(bytes * sizes.ranks, sizes.ranks);
  };
  const bool has_slots = layout == Layout::kFixed || (layout == Layout::kAuto && sizes.selection.fits_k_slots());
  if (!sizes.coding.is_fixed_size()) {
    // A code is as long as its list, whatever the layout.
    const double bytes = sizes.list_bytes(sizes.selected);
    const Chain counts = has_slots ? Chain{} : counts_chain(sizes.ranks);
    return {bytes * others, gather(bytes), counts};
  }
  if (has_slots) {
    const auto bytes = static_cast<double>(coo_bytes(std::min(sizes.k, sizes.numel)));
    return {bytes * others, allgather_chain(bytes, sizes.ranks)};
  }
  if (layout == Layout::kPadded) {
    const double bytes = SparseVector::kEntryBytes * sizes.largest;
    return {bytes * others, allgather_chain(bytes, sizes.ranks), counts_chain(sizes.ranks)};
  }
  const double bytes = SparseVector::kEntryBytes * sizes.selected;
  return {bytes * others, gather(bytes), counts_chain(sizes.ranks)};
}

/// Returns the bytes of the lists of all ranks, unless only values are sent, and of the sum.
std::size_t memory(const Settings& settings, const ExchangeSizes& sizes, const Device& device) {
  const Layout layout = layout_of(settings);
  if (device.is_cpu() && sums_shared_indices(layout, sizes.selection)) return result_bytes(sizes);
  const bool is_dense = settings.text("decode") == "dense";
  const double slots = layout == Layout::kUnpadded ? sizes.selected : sizes.largest;
  const std::size_t sum = is_dense ? word_bytes(static_cast<double>(sizes.numel)) : list_bytes(sizes.global);
  const std::size_t counts = sizes.averages_senders ? list_bytes(sizes.global) : 0;
  const std::size_t decoder = is_dense && !device.is_cpu() ? 0 : decoder_bytes(sizes, device);
  return list_bytes(slots * sizes.ranks) + decoder + sum + counts + word_bytes(sizes.selected) +
         coding_error_bytes(sizes, 0);
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "allgather",
     .summary = "every worker gathers all selections (TopkA) and sums them in rank order",
     .source = "gTop-k (Shi et al., ICDCS 2019) algorithm 1; batched decoding: DRAGONN (ICML 2022) section 4.3",
     .settings = {SettingSpec::text(
                      "layout", "auto",
                      "message layout; fixed: k slots, no counts; padded: to the largest count; unpadded: each list at "
                      "its own length; auto: fixed if the sparsifier never selects more than k entries, values only if "
                      "all ranks select the same indices, else unpadded",
                      choice_names<Layout>()),
                  SettingSpec::text("route", "ring",
                                    "way of lists of varying sizes; ring: each worker passes on what it gets; direct: "
                                    "each sends its own list to every other one, as compression.share = \"by_link\" "
                                    "wants it",
                                    choice_names<GatherRoute>()),
                  SettingSpec::text("decode", "sparse",
                                    "form of the sum: a sparse list, or a dense vector; both by batched decoding",
                                    {"sparse", "dense"})}},
    refuses,
    /*make=*/
    [](const Settings& settings, std::size_t numel) { return std::make_unique<Allgather>(settings, numel); },
    predict,
    memory,
    SumSize::kUnion,
    /*traffic=*/"2 k (P-1)",
    CodedValues::kLists,
    /*resize=*/{},
    lists_shared_indices,
    /*sum_forecast=*/nullptr,
    Senders::kCounted}};

}  // namespace
}  // namespace dragonn::comm
