// SPDX-License-Identifier: MIT
#include "comm/sparse/list_transport.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

namespace dragonn::comm {

namespace {

/// Returns whether two verbs can be carried out as one.
bool are_one_kind(const ListVerb& a, const ListVerb& b) {
  if (a.index() != b.index()) return false;
  if (const auto* allreduce = std::get_if<AllreduceVerb>(&a)) {
    const auto& other = std::get<AllreduceVerb>(b);
    return allreduce->algorithm == other.algorithm && (allreduce->remainder == nullptr) == (other.remainder == nullptr);
  }
  if (const auto* broadcast = std::get_if<BroadcastIndicesVerb>(&a))
    return broadcast->root == std::get<BroadcastIndicesVerb>(b).root;
  if (const auto* gather = std::get_if<GatherListsVerb>(&a))
    return gather->has_values == std::get<GatherListsVerb>(b).has_values;
  if (const auto* parts = std::get_if<GatherPartsVerb>(&a)) return parts->equal == std::get<GatherPartsVerb>(b).equal;
  return true;
}

}  // namespace

void run_rounds(ListTransport& transport, std::vector<Rounds>& rounds) {
  struct Cleared {
    std::vector<Rounds>& rounds;
    ~Cleared() { rounds.clear(); }
  } const cleared{rounds};
  for (Rounds& bucket : rounds) {
    bucket.set_lossy(transport.is_lossy());
    bucket.resume();
  }
  for (;;) {
    const auto first = std::ranges::find_if(rounds, [](const Rounds& bucket) { return !bucket.done(); });
    if (first == rounds.end()) return;
    transport.joined_.clear();
    transport.batch_.clear();
    for (Rounds& bucket : rounds) {
      if (bucket.done() || !are_one_kind(first->pending(), bucket.pending())) continue;
      transport.joined_.push_back(&bucket);
      transport.batch_.push_back(&bucket.pending());
    }
    {
      const ScopedOperation operation = transport.communicator().operation(first->name());
      transport.execute(transport.batch_);
    }
    for (Rounds* bucket : transport.joined_) bucket->resume();
  }
}

void ListTransport::execute(VerbBatch batch) {
  struct Dispatch {
    ListTransport& transport;
    VerbBatch batch;
    void operator()(const CountsVerb&) const { transport.counts(batch); }
    void operator()(const SumBoundariesVerb&) const { transport.sum_boundaries(batch); }
    void operator()(const SumMetricsVerb&) const { transport.sum_metrics(batch); }
    void operator()(const GatherListsVerb&) const { transport.gather_lists(batch); }
    void operator()(const GatherPartsVerb&) const { transport.gather_parts(batch); }
    void operator()(const AllreduceVerb&) const { transport.allreduce(batch); }
    void operator()(const BroadcastIndicesVerb&) const { transport.broadcast_indices(batch); }
    void operator()(const BroadcastListVerb&) const { transport.broadcast_lists(batch); }
    void operator()(const SwapVerb&) const { transport.swap_lists(batch); }
  };
  std::visit(Dispatch{*this, batch}, *batch.front());
}

template <class T>
void ListTransport::gather_header(std::span<const T> mine, std::vector<T>& all) {
  const ScopedPhase phase(communicator_.traffic(), Phase::kHeader);
  all.resize(mine.size() * ranks());
  communicator_.allgather_values(mine, std::span<T>(all));
}
template void ListTransport::gather_header(std::span<const std::uint32_t> mine, std::vector<std::uint32_t>& all);

void ListTransport::check_count(std::uint64_t count, const ListBounds& bounds, int source, const Route& route) const {
  if (count >= bounds.min && count <= bounds.max) return;
  throw communicator_.bad_data(source, route,
                               bounds.min == bounds.max
                                   ? fmt::format("{} entries, and {} were announced", count, bounds.max)
                                   : fmt::format("{} entries, and there are at most {}", count, bounds.max));
}

void ListTransport::counts(VerbBatch batch) {
  mine_.clear();
  for (const ListVerb* verb : batch) {
    const std::uint64_t count = std::get<CountsVerb>(*verb).mine;
    DRAGONN_CHECK(count < std::numeric_limits<std::uint32_t>::max(), "{} entries: a bucket holds fewer than 2^32 - 1",
                  count);
    mine_.push_back(static_cast<std::uint32_t>(count));
  }
  gather_header<std::uint32_t>(mine_, words_);
  for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
    const auto& [mine, all, numel] = std::get<CountsVerb>(*batch[bucket]);
    for (std::size_t from = 0; from < ranks(); ++from) {
      all[from] = words_[from * batch.size() + bucket];
      if (from != rank()) check_count(all[from], {.max = numel}, static_cast<int>(from), header_route(mine_));
    }
  }
}

void ListTransport::sum_boundaries(VerbBatch batch) {
  proposed_.clear();
  for (const ListVerb* verb : batch) {
    const auto& values = std::get<SumBoundariesVerb>(*verb).values;
    proposed_.insert(proposed_.end(), values.begin(), values.end());
  }
  gather_header<std::uint64_t>(proposed_, proposals_);
  for (std::size_t from = 0; from < ranks(); ++from) {
    auto theirs = std::span<const std::uint64_t>(proposals_).subspan(from * proposed_.size(), proposed_.size());
    for (const ListVerb* verb : batch) {
      const auto& [sums, numel] = std::get<SumBoundariesVerb>(*verb);
      const auto proposal = theirs.first(sums.size());
      theirs = theirs.subspan(sums.size());
      if (!std::ranges::is_sorted(proposal) || (!proposal.empty() && proposal.back() > numel)) {
        throw communicator_.bad_data(
            static_cast<int>(from), header_route(proposed_),
            fmt::format("boundaries {} of a bucket of {} elements: they do not decrease, and none is larger",
                        fmt::join(proposal, ", "), numel));
      }
      if (from == 0) std::ranges::fill(sums, 0);
      std::ranges::transform(sums, proposal, sums.begin(), std::plus<>());
    }
  }
}

void ListTransport::sum_metrics(VerbBatch batch) {
  const ScopedPhase phase(communicator_.traffic(), Phase::kMetrics);
  doubles_.clear();
  for (const ListVerb* verb : batch) {
    const auto& own = std::get<SumMetricsVerb>(*verb).values;
    doubles_.insert(doubles_.end(), own.begin(), own.end());
  }
  communicator_.allreduce_sum(std::span(doubles_));
  auto from = doubles_.begin();
  for (const ListVerb* verb : batch) {
    const auto& own = std::get<SumMetricsVerb>(*verb).values;
    std::copy_n(from, own.size(), own.begin());
    from += static_cast<std::ptrdiff_t>(own.size());
  }
}

std::unique_ptr<ListTransport> make_list_transport(Communicator& communicator, const codec::CodecChoice& coding) {
  if (communicator.device_transport() == nullptr) {
    return make_message_lists(communicator, codec::make_list_codec(coding));
  }
  if (!coding.is_raw()) {
    throw ConfigError(
        fmt::format("codec {} needs messages in host memory: between GPUs lists travel as they are; valid: {}",
                    coding.name(), codec::CodecChoice{}.name()));
  }
  return make_device_lists(communicator);
}

}  // namespace dragonn::comm
