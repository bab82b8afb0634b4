// SPDX-License-Identifier: MIT
#include "comm/sparse/list_transport.h"

#include <algorithm>
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
    void operator()(const SumCountsVerb&) const { transport.sum_counts(batch); }
    void operator()(const SumMetricsVerb&) const { transport.sum_metrics(batch); }
    void operator()(const GatherListsVerb&) const { transport.gather_lists(batch); }
    void operator()(const GatherPartsVerb&) const { transport.gather_parts(batch); }
    void operator()(const GatherCodesVerb&) const { transport.gather_codes(batch); }
    void operator()(const AllreduceVerb&) const { transport.allreduce(batch); }
    void operator()(const BroadcastIndicesVerb&) const { transport.broadcast_indices(batch); }
    void operator()(const BroadcastListVerb&) const { transport.broadcast_lists(batch); }
    void operator()(const SwapVerb&) const { transport.swap_lists(batch); }
  };
  std::visit(Dispatch{*this, batch}, *batch.front());
}

void ListTransport::gather_words(std::span<const std::uint32_t> mine, std::vector<std::uint32_t>& all) {
  const ScopedPhase phase(communicator_.traffic(), Phase::kHeader);
  all.resize(mine.size() * ranks());
  communicator_.allgather_values(mine, std::span<std::uint32_t>(all));
}

void ListTransport::counts(VerbBatch batch) {
  mine_.clear();
  for (const ListVerb* verb : batch) {
    const std::uint64_t count = std::get<CountsVerb>(*verb).mine;
    DRAGONN_CHECK(count < std::numeric_limits<std::uint32_t>::max(), "{} entries: a bucket holds fewer than 2^32 - 1",
                  count);
    mine_.push_back(static_cast<std::uint32_t>(count));
  }
  gather_words(mine_, words_);
  for (std::size_t bucket = 0; bucket < batch.size(); ++bucket) {
    const std::span<std::uint64_t> all = std::get<CountsVerb>(*batch[bucket]).all;
    for (std::size_t from = 0; from < ranks(); ++from) all[from] = words_[from * batch.size() + bucket];
  }
}

namespace {

/// Sums the values of all verbs as one array.
template <class Verb, class T>
void sum_together(Communicator& communicator, VerbBatch batch, std::vector<T>& values) {
  values.clear();
  for (const ListVerb* verb : batch) {
    const auto& own = std::get<Verb>(*verb).values;
    values.insert(values.end(), own.begin(), own.end());
  }
  communicator.allreduce_sum(std::span<T>(values));
  auto from = values.begin();
  for (const ListVerb* verb : batch) {
    const auto& own = std::get<Verb>(*verb).values;
    std::copy_n(from, own.size(), own.begin());
    from += static_cast<std::ptrdiff_t>(own.size());
  }
}

}  // namespace

void ListTransport::sum_counts(VerbBatch batch) {
  const ScopedPhase phase(communicator_.traffic(), Phase::kHeader);
  sum_together<SumCountsVerb>(communicator_, batch, integers_);
}

void ListTransport::sum_metrics(VerbBatch batch) {
  const ScopedPhase phase(communicator_.traffic(), Phase::kMetrics);
  sum_together<SumMetricsVerb>(communicator_, batch, doubles_);
}

std::unique_ptr<ListTransport> make_list_transport(Communicator& communicator, const codec::ListCoding& coding) {
  if (communicator.device_transport() == nullptr) {
    return make_message_lists(communicator, codec::make_list_codec(coding));
  }
  if (!coding.is_raw()) {
    throw ConfigError(
        fmt::format("codec {} needs messages in host memory: between GPUs lists travel as they are; valid: {}",
                    coding.name(), codec::ListCoding{}.name()));
  }
  return make_device_lists(communicator);
}

}  // namespace dragonn::comm
