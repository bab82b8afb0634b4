// SPDX-License-Identifier: MIT
#include "tests/comm/sparse_support.h"

#include <array>
#include <cmath>
#include <numeric>

#include "core/hash.h"
#include "core/rng.h"
#include "tests/comm/cases.h"

namespace dragonn::comm::test {

namespace {

SparseVector exact(const Communicator&, std::uint64_t, std::span<const float> acc, std::size_t k) {
  return largest_entries(acc, k);
}

/// Another number on every rank and step; nothing on every third rank.
SparseVector uneven(const Communicator& communicator, std::uint64_t step, std::span<const float> acc, std::size_t k) {
  const std::size_t place = unsigned_rank(communicator) + step;
  return largest_entries(acc, place % 3 == 0 ? 0 : k * (place % 5) / 2);
}

SparseVector leaders(const Communicator& communicator, std::uint64_t step, std::span<const float> acc, std::size_t k) {
  const bool leads = step % unsigned_size(communicator) == unsigned_rank(communicator);
  return largest_entries(acc, leads ? k : 0);
}

/// The largest of the rank's own range; ranges are disjoint and move.
SparseVector partitions(const Communicator& communicator, std::uint64_t step, std::span<const float> acc,
                        std::size_t k) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t part = (unsigned_rank(communicator) + step) % ranks;
  std::vector<float> own(acc.size());
  for (std::size_t i = acc.size() * part / ranks; i < acc.size() * (part + 1) / ranks; ++i) own[i] = acc[i];
  return largest_entries(own, k);
}

SparseVector drawn(std::uint64_t key, std::uint64_t step, std::span<const float> acc, std::size_t k) {
  Rng rng(3, "drawn", {key, step});
  std::vector<float> order(acc.size());
  for (float& value : order) value = 1.0f + rng.uniform();
  return entries_at(acc, indices_of(largest_entries(order, k).indices.view()));
}

SparseVector shared_draw(const Communicator&, std::uint64_t step, std::span<const float> acc, std::size_t k) {
  return drawn(0, step, acc, k);
}

SparseVector private_draw(const Communicator& communicator, std::uint64_t step, std::span<const float> acc,
                          std::size_t k) {
  return drawn(1 + unsigned_rank(communicator), step, acc, k);
}

const std::array kSelections{
    Selection{{}, exact},
    Selection{{}, uneven},
    Selection{{.at_most_k = true}, exact},
    Selection{{.leader_only = true}, leaders},
    Selection{{.partitioned = true}, partitions},
    Selection{{.fixed_size = true, .shared_indices = true}, shared_draw},
    Selection{{.fixed_size = true}, private_draw},
};

}  // namespace

std::span<const Selection> selections() {
  return kSelections;
}

bool accepts(const Variant& variant, const SelectionTraits& traits) {
  return Registry<SparseCollectiveEntry>::instance().at(variant.collective).refuses(traits).empty();
}

codec::CodecChoice coding_of(const std::string& indices, const std::string& values) {
  using codec::IndexCodecEntry, codec::ValueCodecEntry;
  return {{indices, Settings(Registry<IndexCodecEntry>::instance().at(indices).settings)},
          {values, Settings(Registry<ValueCodecEntry>::instance().at(values).settings)}};
}

std::vector<float> rounding_gradient(std::size_t numel, std::uint64_t step, std::size_t rank) {
  Rng rng(23, "rounding gradient", {step, rank});
  std::vector<float> gradient(numel);
  for (float& value : gradient) value = rng.normal();
  return gradient;
}

SparseVector entries_at(std::span<const float> acc, const Indices& indices) {
  Entries entries;
  for (const std::uint32_t index : indices) entries.emplace_back(index, acc[index]);
  return sparse(entries);
}

SparseVector largest_entries(std::span<const float> acc, std::size_t k) {
  Indices indices;
  for (std::uint32_t i = 0; i < acc.size(); ++i) {
    if (acc[i] != 0) indices.push_back(i);
  }
  std::ranges::stable_sort(indices, std::greater<>(), [&](std::uint32_t i) { return std::fabs(acc[i]); });
  indices.resize(std::min(k, indices.size()));
  std::ranges::sort(indices);
  return entries_at(acc, indices);
}

Indices indices_of(View<const std::uint32_t> indices) {
  return {indices.host().begin(), indices.host().end()};
}

Outcome exchange(Communicator& communicator, SparseCollective& collective, const ReduceContext& context,
                 std::span<const float> acc, const SparseVector& selected) {
  Outcome outcome;
  const TrafficMeter payload(communicator, Phase::kExchange);
  const TrafficMeter header(communicator, Phase::kHeader);
  reduce(communicator, collective, context, acc, selected, outcome.reduction);
  outcome.payload = payload.moved();
  outcome.header = header.moved();
  return outcome;
}

std::vector<float> residual_after(std::span<const float> acc, const SparseReduction& out) {
  std::vector<float> residual(acc.begin(), acc.end());
  if (out.contributed_all) std::ranges::fill(residual, 0.0f);
  if (out.remainder.size() > 0) std::ranges::copy(out.remainder.host(), residual.begin());
  for (const std::uint32_t index : out.contributed.host()) residual[index] = 0;
  for (const auto& [index, value] : entries_of(out.returned)) residual[index] += value;
  return residual;
}

std::vector<float> sum_of(const SparseReduction& out, std::size_t numel) {
  if (out.is_dense) return {out.dense_sum.host().begin(), out.dense_sum.host().end()};
  std::vector<float> sum(numel);
  for (const auto& [index, value] : entries_of(out.sum)) sum[index] = value;
  return sum;
}

void expect_conservation(Communicator& communicator, std::span<const float> acc, const SparseReduction& out) {
  std::vector<double> total(acc.begin(), acc.end());
  const std::vector<float> kept = residual_after(acc, out);
  std::vector<double> accounted(kept.begin(), kept.end());
  communicator.allreduce_sum(std::span<double>(total));
  communicator.allreduce_sum(std::span<double>(accounted));
  const std::vector<float> sum = sum_of(out, acc.size());
  for (std::size_t i = 0; i < acc.size(); ++i) accounted[i] += sum[i];
  expect(total == accounted, "no mass is lost");
}

void expect_conservation_to_rounding(Communicator& communicator, std::span<const float> acc,
                                     const SparseReduction& out) {
  const std::size_t numel = acc.size();
  const std::vector<float> kept = residual_after(acc, out);
  std::vector<double> accounts(2 * numel);  // what is missing, and the magnitudes that were added
  for (std::size_t i = 0; i < numel; ++i) {
    accounts[i] = double{acc[i]} - double{kept[i]};
    accounts[numel + i] = 2 * std::abs(double{acc[i]}) + std::abs(double{kept[i]});
  }
  communicator.allreduce_sum(std::span<double>(accounts));
  const std::vector<float> sum = sum_of(out, numel);
  const double roundings = (2 * communicator.size() + 4) * double{std::numeric_limits<float>::epsilon()};
  for (std::size_t i = 0; i < numel; ++i) {
    const double size = accounts[numel + i] + std::abs(double{sum[i]});
    expect(std::abs(accounts[i] - double{sum[i]}) <= roundings * size, "no mass is lost but by rounding");
  }
}

void expect_well_formed(Communicator& communicator, const SparseReduction& out, std::size_t numel) {
  const auto indices = out.sum.indices.host();
  expect(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end(), "indices ascend");
  expect(indices.empty() || indices.back() < numel, "indices are of the bucket");
  const auto contributed = out.contributed.host();
  expect(std::ranges::adjacent_find(contributed, std::greater_equal<>()) == contributed.end(), "so do those that left");
  const std::vector<float> sum = sum_of(out, numel);
  const auto owned = std::span(out.statistics.owned_counts);
  const auto brought = std::accumulate(owned.begin(), owned.end(), std::uint64_t{0});
  expect(owned.empty() || (owned.size() == unsigned_size(communicator) && brought >= indices.size()),
         "the ranks bring every entry of the sum");
  const std::array<std::uint64_t, 4> mine{hash_bytes(std::as_bytes(std::span(sum))), hash_bytes(std::as_bytes(indices)),
                                          hash_bytes(std::as_bytes(std::span(out.statistics.selected_counts))),
                                          hash_bytes(std::as_bytes(owned))};
  std::vector<std::uint64_t> all(mine.size() * unsigned_size(communicator));
  communicator.allgather_values(std::span<const std::uint64_t>(mine), std::span(all));
  for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == mine[i % mine.size()], "all ranks hold the same bits");
}

std::vector<float> integer_gradient(std::size_t numel, std::uint64_t step, std::size_t rank) {
  Rng rng(17, "integer gradient", {step, rank});
  std::vector<float> gradient(numel);
  for (float& value : gradient) value = rng.below(3) == 0 ? 0.0f : static_cast<float>(rng.below(17)) - 8.0f;
  return gradient;
}

Outcome FeedbackRank::step(const ReduceContext& context, std::span<const float> gradient, const Select& select,
                           bool conserves) {
  std::vector<float> acc(residual_);
  for (std::size_t i = 0; i < acc.size(); ++i) acc[i] += gradient[i];
  const SparseVector selected = select(acc, context.k);
  Outcome outcome = exchange(communicator_, *collective_, context, acc, selected);
  expect_well_formed(communicator_, outcome.reduction, acc.size());
  if (conserves) expect_conservation(communicator_, acc, outcome.reduction);
  residual_ = residual_after(acc, outcome.reduction);
  return outcome;
}

}  // namespace dragonn::comm::test
