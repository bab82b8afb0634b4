// SPDX-License-Identifier: MIT
// What every sparse collective promises, in each of its modes.
#include <array>

#include "core/hash.h"
#include "core/rng.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// A collective with settings that are not its defaults.
struct Variant {
  const char* collective;
  Overrides settings = {};
};

std::vector<Variant> variants() {
  std::vector<Variant> all{{"allgather", {{"decode", "dense"}}},
                           {"dsa", {{"switch", 0.0}}},
                           {"dsa", {{"switch", 1.0}}},
                           {"gtopk", {{"put_back", "exact"}}},
                           {"gtopk", {{"put_back", "naive"}}},
                           {"oktopk", {{"balance", "always"}, {"global_period", 2}, {"repartition_period", 3}}}};
  for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names()) {
    all.push_back({Registry<SparseCollectiveEntry>::instance().at(name).name.c_str()});
  }
  return all;
}

bool accepts(const Variant& variant, const SelectionTraits& traits) {
  return Registry<SparseCollectiveEntry>::instance().at(variant.collective).refuses(traits).empty();
}

/// Selections of one kind, with the traits that describe them.
struct Selection {
  SelectionTraits traits;
  SparseVector (*select)(const Communicator&, std::uint64_t step, std::span<const float> acc, std::size_t k);
};

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

void every_collective_conserves(Communicator& communicator) {
  for (const Variant& variant : variants()) {
    for (const Selection& selection : kSelections) {
      if (!accepts(variant, selection.traits)) continue;
      for (const std::size_t numel : {std::size_t{1}, std::size_t{3}, std::size_t{61}}) {
        FeedbackRank rank(communicator, variant.collective, variant.settings, numel);
        for (std::uint64_t step = 0; step < 7; ++step) {
          const ReduceContext context{.step = step, .k = 1 + numel / 9, .density = 0.1, .selection = selection.traits};
          rank.step(
              context, integer_gradient(numel, step, unsigned_rank(communicator)),
              [&](std::span<const float> acc, std::size_t k) { return selection.select(communicator, step, acc, k); });
        }
      }
    }
  }
}

void every_collective_takes_nothing(Communicator& communicator) {
  const std::vector<float> zeros(7, 0.0f);
  for (const Variant& variant : variants()) {
    const auto collective = make_collective(variant.collective, zeros.size(), variant.settings);
    for (const std::size_t k : {std::size_t{0}, std::size_t{3}}) {
      for (const bool bounded : {false, true}) {
        const ReduceContext context{.k = k, .density = 0.5, .selection = {.at_most_k = bounded}};
        const Outcome outcome = exchange(communicator, *collective, context, zeros, SparseVector());
        expect(outcome.reduction.is_dense || outcome.reduction.sum.empty(), "an empty sum");
        expect(outcome.reduction.contributed.size() == 0, "nothing left");
        expect(sum_of(outcome.reduction, zeros.size()) == zeros, "of no value");
      }
    }
  }
}

void every_collective_tells_of_a_nan(Communicator& communicator) {
  constexpr std::size_t kNumel = 61;
  const std::size_t me = unsigned_rank(communicator);
  for (const Variant& variant : variants()) {
    for (const Selection& selection : kSelections) {
      if (!accepts(variant, selection.traits)) continue;
      for (std::size_t flagged : {std::size_t{0}, unsigned_size(communicator) - 1, unsigned_size(communicator)}) {
        const std::vector<float> acc = integer_gradient(kNumel, 0, me);
        const bool mine = flagged == me || flagged == unsigned_size(communicator);  // the last: all ranks at once
        const ReduceContext context{.k = 5, .density = 0.1, .non_finite = mine, .selection = selection.traits};
        const auto collective = make_collective(variant.collective, kNumel, variant.settings);
        const Outcome outcome =
            exchange(communicator, *collective, context, acc, selection.select(communicator, 0, acc, 5));
        expect(outcome.reduction.non_finite, "all ranks learn of one rank's NaN");
        const bool gave = outcome.reduction.contributed_all || outcome.reduction.contributed.size() > 0;
        expect(!mine || !gave || outcome.reduction.is_dense, "that rank gave nothing");
      }
    }
  }
}

/// Floats whose sums depend on the order of additions.
std::vector<float> rounding_gradient(std::size_t numel, std::uint64_t step, std::size_t rank) {
  Rng rng(23, "rounding gradient", {step, rank});
  std::vector<float> gradient(numel);
  for (float& value : gradient) value = rng.normal();
  return gradient;
}

constexpr std::array kCases{
    Case{"every sparse collective conserves mass, step after step, whatever is selected", every_collective_conserves},
    Case{"every sparse collective takes empty selections", every_collective_takes_nothing},
    Case{"every sparse collective tells all ranks of one rank's NaN", every_collective_tells_of_a_nan},
};

}  // namespace

std::uint64_t sparse_digest(Communicator& communicator) {
  constexpr std::size_t kNumel = 203;
  std::uint64_t digest = 0;
  for (const Variant& variant : variants()) {
    for (const Selection& selection : kSelections) {
      if (!accepts(variant, selection.traits)) continue;
      FeedbackRank rank(communicator, variant.collective, variant.settings, kNumel);
      for (std::uint64_t step = 0; step < 4; ++step) {
        const ReduceContext context{.step = step, .k = 20, .density = 0.1, .selection = selection.traits};
        const Outcome outcome = rank.step(
            context, rounding_gradient(kNumel, step, unsigned_rank(communicator)),
            [&](std::span<const float> acc, std::size_t k) { return selection.select(communicator, step, acc, k); },
            /*conserves=*/false);  // to rounding
        const std::vector<float> sum = sum_of(outcome.reduction, kNumel);
        const std::array<std::uint64_t, 2> both{digest, hash_bytes(std::as_bytes(std::span(sum)))};
        digest = hash_bytes(std::as_bytes(std::span(both)));
      }
    }
  }
  return digest;
}

std::span<const Case> conservation_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
