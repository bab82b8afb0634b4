// SPDX-License-Identifier: MIT
// Cases of conservation: the promises of every sparse collective, in each of its modes.
#include <array>
#include <cmath>

#include "core/hash.h"
#include "core/rng.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

std::vector<Variant> variants() {
  std::vector<Variant> all{{"allgather", {{"decode", "dense"}}},
                           {"dsa", {{"switch", 0.0}}},
                           {"dsa", {{"switch", 1.0}}},
                           {"gtopk", {{"put_back", "exact"}}},
                           {"gtopk", {{"put_back", "naive"}}},
                           {"oktopk", {{"balance", "always"}, {"global_period", 2}, {"repartition_period", 3}}}};
  for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names()) all.push_back({name});
  return all;
}

void every_collective_conserves(Communicator& communicator) {
  for (const Variant& variant : variants()) {
    for (const Selection& selection : selections()) {
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kFusedSteps = 2;  // one that computes what later ones reuse, and one of those
#else
constexpr std::uint64_t kFusedSteps = 5;
#endif

/// An index codec as another project may register one: gaps of indices in groups of 7 bits.
class GapCodec final : public codec::IndexCodec {
 public:
  std::size_t max_bytes(std::size_t indices) const override { return kLongest * (indices + 1); }

  std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const override {
    std::size_t end = put(static_cast<std::uint32_t>(indices.size()), code, 0);
    std::uint32_t next = 0;
    for (const std::uint32_t index : indices) {
      end = put(index - next, code, end);
      next = index + 1;
    }
    return end;
  }

  std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const override {
    std::size_t position = 0;
    const std::size_t count = get(code, position);
    if (count > code.size()) throw DataError("more indices than bytes");
    indices.resize_discard(count);
    std::uint32_t next = 0;
    for (std::uint32_t& index : indices.host()) {
      index = next + get(code, position);
      next = index + 1;
    }
    return code.subspan(position);
  }

  double expected_bits(double, double) const override { return 16; }

 private:
  static constexpr std::size_t kLongest = 5;  // bytes of 32 bits

  static std::size_t put(std::uint32_t value, std::span<std::byte> code, std::size_t at) {
    for (; value >= 128; value >>= 7) code[at++] = static_cast<std::byte>(value | 128);
    code[at++] = static_cast<std::byte>(value);
    return at;
  }
  static std::uint32_t get(std::span<const std::byte> code, std::size_t& at) {
    std::uint32_t value = 0;
    for (unsigned shift = 0; at < code.size() && shift < 35; shift += 7) {
      const auto byte = static_cast<std::uint32_t>(code[at++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw DataError("a number without an end");
  }
};

const Registration<codec::IndexCodecEntry> registration{
    {{.name = "test_gaps", .summary = "gaps of indices in groups of 7 bits"},
     /*is_exact=*/false,
     /*make=*/[](const Settings&) -> std::unique_ptr<codec::IndexCodec> { return std::make_unique<GapCodec>(); }}};

/// Buckets of one rank, exchanged alone and together.
class Fused {
 public:
  Fused(Communicator& communicator, const Variant& variant, const Selection& selection,
        const codec::CodecChoice& coding)
      : communicator_(communicator),
        selection_(selection),
        is_raw_(coding.is_raw()),
        alone_(communicator),
        together_(communicator, coding) {
    for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) {
      for (auto* collectives : {&collectives_alone_, &collectives_together_})
        collectives->push_back(make_collective(variant.collective, kSizes[bucket], variant.settings));
    }
  }

  void step(std::uint64_t step) {
    std::array<SparseReduction, kSizes.size()> expected, found;
    std::array<ReduceContext, kSizes.size()> contexts;
    std::array<std::vector<float>, kSizes.size()> acc;
    std::array<SparseVector, kSizes.size()> selected;
    std::vector<ReducePart> parts;
    std::uint64_t max_messages = 0, all_messages = 0, bytes = 0;
    for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) {
      const std::size_t numel = kSizes[bucket], k = 1 + numel / 9;
      contexts[bucket] = {.step = step, .k = k, .density = 0.1, .selection = selection_.traits};
      acc[bucket] = rounding_gradient(numel, step + 100 * bucket, unsigned_rank(communicator_));
      selected[bucket] = selection_.select(communicator_, step + bucket % 2, acc[bucket], k);
      const TrafficMeter meter(communicator_, Phase::kExchange);
      alone_.run({collectives_alone_[bucket].get(), &contexts[bucket], std::span<const float>(acc[bucket]),
                  &selected[bucket], &expected[bucket]});
      const Traffic moved = meter.moved();
      max_messages = std::max(max_messages, moved.messages_sent);
      all_messages += moved.messages_sent;
      bytes += moved.bytes_sent;
      parts.push_back({collectives_together_[bucket].get(), &contexts[bucket], std::span<const float>(acc[bucket]),
                       &selected[bucket], &found[bucket]});
    }
    const TrafficMeter meter(communicator_, Phase::kExchange);
    together_.run(parts);
    const Traffic moved = meter.moved();
    for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) expect_same(expected[bucket], found[bucket], bucket);
    if (!is_raw_) return;
    expect(moved.messages_sent >= max_messages && (moved.messages_sent < all_messages || all_messages == max_messages),
           "the messages of one bucket, not of all");
    expect(moved.bytes_sent >= bytes && moved.bytes_sent <= bytes + 4 * kSizes.size() * moved.messages_sent,
           "all bytes, and a word for each list of a message at most");
  }

 private:
  static constexpr std::array<std::size_t, 4> kSizes{61, 1, 203, 9};

  static void expect_same(const SparseReduction& a, const SparseReduction& b, std::size_t bucket) {
    expect(sum_of(a, kSizes[bucket]) == sum_of(b, kSizes[bucket]), "the same sum, bit for bit");
    expect(a.is_dense == b.is_dense && entries_of(a.sum) == entries_of(b.sum), "the same entries");
    expect(indices_of(a.contributed.view()) == indices_of(b.contributed.view()), "the same has left");
    expect(indices_of(a.masked()) == indices_of(b.masked()), "the same mask");
    expect(entries_of(a.returned) == entries_of(b.returned), "the same came back");
    expect(a.statistics.selected_counts == b.statistics.selected_counts &&
               a.statistics.owned_counts == b.statistics.owned_counts,
           "the same counts");
  }

  Communicator& communicator_;
  const Selection& selection_;
  bool is_raw_;  // so that the bytes are known
  GroupReduce alone_, together_;
  std::vector<std::unique_ptr<SparseCollective>> collectives_alone_, collectives_together_;
};

void together_is_alone(Communicator& communicator, const codec::CodecChoice& coding) {
  std::vector<Variant> all = variants();
  all.push_back({"dense", {{"algorithm", "rabenseifner"}}});
  all.push_back({"gtopk", {{"put_back", "paper"}}});
  for (const char* layout : {"fixed", "padded", "unpadded"}) all.push_back({"allgather", {{"layout", layout}}});
  all.push_back({"allgather", {{"layout", "unpadded"}, {"route", "direct"}}});
  for (const Variant& variant : all) {
    for (const Selection& selection : selections()) {
      if (!accepts(variant, selection.traits)) continue;
      const bool is_fixed =
          variant.settings.contains("layout") && variant.settings.at("layout") == SettingValue("fixed");
      if (is_fixed && !selection.traits.fits_k_slots()) continue;
      Fused fused(communicator, variant, selection, coding);
      for (std::uint64_t step = 0; step < kFusedSteps; ++step) fused.step(step);
    }
  }
}

void buckets_together_are_buckets_alone(Communicator& communicator) {
  together_is_alone(communicator, {});
}

void codecs_change_bytes_alone(Communicator& communicator) {
  for (const std::string& indices : Registry<codec::IndexCodecEntry>::instance().names()) {
    if (indices != codec::kRawIndices) together_is_alone(communicator, coding_of(indices));
  }
}

/// Returns the registered codecs of values that do not give back what they got.
std::vector<std::string> lossy_codecs() {
  const auto& registry = Registry<codec::ValueCodecEntry>::instance();
  std::vector<std::string> names = registry.names();
  std::erase_if(names, [&](const std::string& name) { return !registry.at(name).lossy; });
  return names;
}

bool loses_by_definition(const Variant& variant) {
  return variant.settings.contains("put_back") && variant.settings.at("put_back") == SettingValue("paper");
}

/// Steps with error feedback, whose lists are coded.
void conserves_coded(Communicator& communicator, const Variant& variant, const Selection& selection,
                     const std::string& values, std::size_t numel) {
  GroupReduce group(communicator, coding_of("rice", values));
  const auto collective = make_collective(variant.collective, numel, variant.settings);
  std::vector<float> residual(numel);
  SparseReduction out;
  for (std::uint64_t step = 0; step < kFusedSteps; ++step) {
    std::vector<float> acc = rounding_gradient(numel, step, unsigned_rank(communicator));
    for (std::size_t i = 0; i < numel; ++i) acc[i] += residual[i];
    const ReduceContext context{.step = step, .k = 1 + numel / 9, .density = 0.1, .selection = selection.traits};
    const SparseVector selected = selection.select(communicator, step, acc, context.k);
    group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
    expect_well_formed(communicator, out, numel);
    expect_conservation_to_rounding(communicator, acc, out);
    residual = residual_after(acc, out);
  }
}

void lossy_codecs_lose_nothing(Communicator& communicator) {
  for (const std::string& values : lossy_codecs()) {
    for (const Variant& variant : variants()) {
      const auto& entry = Registry<SparseCollectiveEntry>::instance().at(variant.collective);
      const bool is_sent = entry.sends(Registry<codec::ValueCodecEntry>::instance().at(values));
      if (!is_sent || loses_by_definition(variant)) continue;
      for (const Selection& selection : selections()) {
        if (!accepts(variant, selection.traits)) continue;
        for (const std::size_t numel : {std::size_t{1}, std::size_t{61}})
          conserves_coded(communicator, variant, selection, values, numel);
      }
    }
  }
}

/// Values of every size, a quarter of all elements: most codecs take the smallest ones beside the largest to 0.
std::vector<float> scattered_values(std::size_t numel, std::uint64_t step, std::size_t rank) {
  Rng rng(29, "scattered values", {step, rank});
  std::vector<float> values(numel);
  for (float& value : values) {
    const auto exponent = static_cast<int>(rng.below(18));
    const float size = rng.below(9) == 0 ? 1e-42f : std::ldexp(1 + rng.uniform(), 10 - 3 * exponent);
    if (rng.below(4) == 0) value = rng.below(2) == 0 ? size : -size;
  }
  return values;
}

/// Exchanges values in a code: a step that computes what later ones reuse, and one of those. Returns the number of this
/// rank's entries of which nothing left.
std::uint64_t momentum_goes_on(Communicator& communicator, const Variant& variant, const Selection& selection,
                               const std::string& values) {
  constexpr std::size_t kNumel = 203;
  GroupReduce group(communicator, coding_of("rice", values));
  const auto collective = make_collective(variant.collective, kNumel, variant.settings);
  SparseReduction out;
  std::uint64_t stayed = 0;
  for (std::uint64_t step = 0; step < 2; ++step) {
    const std::vector<float> acc = scattered_values(kNumel, step, unsigned_rank(communicator));
    const ReduceContext context{.step = step, .k = 90, .density = 0.44, .selection = selection.traits};
    const SparseVector selected = selection.select(communicator, step, acc, context.k);
    group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
    const std::vector<float> kept = residual_after(acc, out), sum = sum_of(out, kNumel);
    const Indices masked = indices_of(out.masked()), contributed = indices_of(out.contributed.view());
    for (const std::uint32_t i : contributed) {
      const bool is_masked = std::ranges::binary_search(masked, i);
      if (acc[i] != 0 && kept[i] == acc[i]) {
        expect(!is_masked, "momentum goes on where nothing left");
        ++stayed;
      } else if (acc[i] != 0 && kept[i] == 0 && sum[i] != 0) {
        expect(is_masked, "momentum stops where all has left");
      }
    }
  }
  return stayed;
}

/// Returns whether a code takes one of these values to 0.
bool makes_zeros(const std::string& values) {
  const std::vector<float> small = scattered_values(203, 0, 0);
  const codec::CodecChoice coding = coding_of("raw32", values);
  const auto codec = Registry<codec::ValueCodecEntry>::instance().at(values).make(coding.values.settings);
  std::vector<std::byte> code(codec->code_bytes(small.size()));
  codec->encode(std::span(small), {}, std::span(code));
  Buffer<float> buffer;
  const auto decoded = codec->decode(code, small.size(), buffer);
  for (std::size_t i = 0; i < small.size(); ++i) {
    if (small[i] != 0 && decoded[i] == 0) return true;
  }
  return false;
}

void nothing_left_keeps_momentum(Communicator& communicator) {
  if (communicator.size() > 5) return;  // trees of three rounds and rings with a rest are enough
  std::vector<Variant> all = variants();
  all.push_back({"gtopk", {{"put_back", "paper"}}});
  for (const std::string& values : lossy_codecs()) {
    for (const Variant& variant : all) {
      const auto& entry = Registry<SparseCollectiveEntry>::instance().at(variant.collective);
      if (!entry.sends(Registry<codec::ValueCodecEntry>::instance().at(values))) continue;
      std::uint64_t stayed = 0;
      for (const Selection& selection : selections()) {
        if (!accepts(variant, selection.traits)) continue;
        stayed += momentum_goes_on(communicator, variant, selection, values);
      }
      communicator.allreduce_sum(std::span<std::uint64_t>(&stayed, 1));
      const bool sums_anew =
          variant.settings.contains("put_back") && variant.settings.at("put_back") == SettingValue("exact");
      const bool may_stay =
          communicator.size() > 1 && entry.sum != SumSize::kDense && !sums_anew && makes_zeros(values);
      expect(!may_stay || stayed > 0, "there are such entries");
    }
  }
}

/// Two ranks, int4: 1 beside 100 is sent as 0 by rank 0 and comes back whole, so its momentum goes on.
void small_beside_large_keeps_momentum(Communicator& communicator) {
  if (communicator.size() != 2) return;
  const auto expect_kept = [&](const Variant& variant, const Entries& others) {
    const bool first = communicator.rank() == 0;
    const SparseVector selected = sparse(first ? Entries{{0, 100.0f}, {1, 1.0f}} : others);
    std::vector<float> acc(64);
    for (const auto& [index, value] : entries_of(selected)) acc[index] = value;
    GroupReduce group(communicator, coding_of("rice", "int4"));
    const auto collective = make_collective(variant.collective, acc.size(), variant.settings);
    const ReduceContext context{.k = 2, .density = 0.03};
    SparseReduction out;
    group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
    if (!first) return;
    expect(residual_after(acc, out)[1] == 1, "all of it came back");
    expect(indices_of(out.masked()) == Indices{0}, "momentum stops at the other entry alone");
  };
  const Entries apart{{50, 50.0f}, {51, 40.0f}}, shared{{1, 60.0f}, {51, 40.0f}};
  for (const char* collective : {"allgather", "dsa"}) expect_kept({collective}, apart);
  expect_kept({"allgather"}, shared);
  expect_kept({"gtopk", {{"put_back", "naive"}}}, shared);
}

constexpr std::array kCases{
    Case{"every sparse collective conserves mass, step after step, whatever is selected", every_collective_conserves},
    Case{"every sparse collective takes empty selections", every_collective_takes_nothing},
    Case{"several buckets in one exchange get what each would get alone", buckets_together_are_buckets_alone},
    Case{"lists in a code of any length are what they are without", codecs_change_bytes_alone},
    Case{"what a lossy code of values leaves behind comes back to its rank", lossy_codecs_lose_nothing},
    Case{"momentum goes on at entries of which nothing left, with every lossy code", nothing_left_keeps_momentum},
    Case{"momentum goes on at a small entry that was sent as 0 beside a large one", small_beside_large_keeps_momentum},
};

}  // namespace

namespace {

/// Hashes the sums of steps in each code of values, so that every rounding, and every remainder, counts.
std::uint64_t coded_digest(Communicator& communicator, std::uint64_t digest) {
  constexpr std::size_t kNumel = 203;
  const std::size_t rank = unsigned_rank(communicator);
  for (const std::string& values : lossy_codecs()) {
    GroupReduce group(communicator, coding_of("smallest", values));
    for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names()) {
      const auto& entry = Registry<SparseCollectiveEntry>::instance().at(name);
      const SelectionTraits traits{.partitioned = name == "exdyna"};
      if (!entry.sends(Registry<codec::ValueCodecEntry>::instance().at(values))) continue;
      const auto collective = make_collective(name, kNumel);
      std::vector<float> residual(kNumel);
      SparseReduction out;
      for (std::uint64_t step = 0; step < 2; ++step) {
        std::vector<float> acc = rounding_gradient(kNumel, step, rank);
        for (std::size_t i = 0; i < kNumel; ++i) acc[i] += residual[i];
        const ReduceContext context{.step = step, .k = 20, .density = 0.1, .selection = traits};
        const auto partitioned = [](const Selection& selection) { return selection.traits.partitioned; };
        const Selection& selection = *std::ranges::find(selections(), traits.partitioned, partitioned);
        const SparseVector selected = selection.select(communicator, step, acc, context.k);
        group.run({collective.get(), &context, std::span<const float>(acc), &selected, &out});
        residual = residual_after(acc, out);
        const std::vector<float> sum = sum_of(out, kNumel);
        const std::array<std::uint64_t, 2> both{digest, hash_bytes(std::as_bytes(std::span(sum)))};
        digest = hash_bytes(std::as_bytes(std::span(both)));
      }
    }
  }
  return digest;
}

}  // namespace

std::uint64_t sparse_digest(Communicator& communicator) {
  constexpr std::size_t kNumel = 203;
  std::uint64_t digest = 0;
  for (const Variant& variant : variants()) {
    for (const Selection& selection : selections()) {
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
  return coded_digest(communicator, digest);
}

std::span<const Case> conservation_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
