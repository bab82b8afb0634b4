// SPDX-License-Identifier: MIT
/// Tests of the collectives that use a DeviceTransport, over one of host memory.
#include "comm/device_transport.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// A DeviceTransport that sends host memory by the communicator.
class HostTransport final : public DeviceTransport {
 public:
  explicit HostTransport(Communicator& communicator) : communicator_(communicator) {
    communicator_.set_device_transport(this);
  }
  ~HostTransport() override { communicator_.set_device_transport(nullptr); }

  Device device() const override { return {}; }
  void allreduce_sum(std::span<const View<float>> vectors) override {
    ++calls;
    for (const View<float>& values : vectors) communicator_.allreduce_sum(values);
  }
  void gather(std::span<const DeviceGather> gathers) override {
    ++calls;
    for (const auto& [mine, parts] : gathers) {
      std::vector<std::size_t> sizes;
      std::size_t total = 0;
      for (const View<std::byte>& part : parts) total += sizes.emplace_back(part.size());
      std::vector<std::byte> all(total);
      communicator_.allgather_variable(mine, sizes, std::span<std::byte>(all));
      const std::byte* from = all.data();
      for (const View<std::byte>& part : parts) {
        if (!part.empty()) std::memcpy(part.data(), from, part.size());
        from += part.size();
      }
    }
  }
  void exchange(std::span<const OutgoingBytes> outgoing, std::span<const IncomingBytes> incoming) override {
    ++calls;
    std::vector<Request> requests;
    for (const auto& [source, bytes] : incoming)
      if (!bytes.empty()) requests.push_back(communicator_.irecv(source, /*tag=*/0, bytes));
    for (const auto& [destination, bytes] : outgoing)
      if (!bytes.empty()) requests.push_back(communicator_.isend(destination, /*tag=*/0, bytes));
    for (Request& request : requests) communicator_.wait(request);
  }
  void finish() override {}

  int calls = 0;

 private:
  Communicator& communicator_;
};

constexpr std::size_t kNumel = 300;

/// Numbers whose sum shows the order of the additions.
std::vector<float> gradient_of(const Communicator& communicator) {
  std::vector<float> acc(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i)
    acc[i] = 1.0f / static_cast<float>(1 + (i * 7 + 13 * unsigned_rank(communicator)) % 101);
  return acc;
}

/// Compares to rounding: terms may be added in another order.
bool same_or_both_nan(double a, double b) {
  return std::abs(a - b) <= 1e-12 * std::abs(b) || (std::isnan(a) && std::isnan(b));
}

void sums_agree(Communicator& communicator, const std::string& name, const Overrides& settings,
                const ReduceContext& context, std::span<const float> acc, const SparseVector& selected) {
  const auto own = make_collective(name, kNumel, settings), over_transport = make_collective(name, kNumel, settings);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ReduceContext now = context;
    now.step = step;
    const Outcome expected = exchange(communicator, *own, now, acc, selected);
    HostTransport transport(communicator);
    const Outcome found = exchange(communicator, *over_transport, now, acc, selected);
    expect_well_formed(communicator, found.reduction, kNumel);
    expect(sum_of(found.reduction, kNumel) == sum_of(expected.reduction, kNumel), "the same sum, bit for bit");
    expect(residual_after(acc, found.reduction) == residual_after(acc, expected.reduction), "the same has left");
    expect(same_or_both_nan(found.reduction.statistics.lost_mass, expected.reduction.statistics.lost_mass),
           "the same is lost");
    expect(std::ranges::equal(found.reduction.masked().host(), expected.reduction.masked().host()), "the same mask");
    expect(found.reduction.statistics.selected_counts == expected.reduction.statistics.selected_counts,
           "the same counts");
    expect(found.reduction.statistics.owned_counts == expected.reduction.statistics.owned_counts, "the same owners");
    expect((transport.calls > 0 || communicator.size() == 1) && backend_name(communicator) == "nccl",
           "the transport was used");
  }
}

void sums_of_lists_agree(Communicator& communicator, const std::string& name, const Overrides& settings) {
  const std::vector<float> acc = gradient_of(communicator);
  // Lists of different lengths, an empty one among them.
  const SparseVector selected = largest_entries(acc, 20 * (unsigned_rank(communicator) % 3));
  sums_agree(communicator, name, settings, {.step = 1, .k = 40, .density = 0.1}, acc, selected);
}

/// Selections of the same indices, as the context says.
void sums_of_shared_agree(Communicator& communicator, const std::string& name) {
  const std::vector<float> acc = gradient_of(communicator);
  SparseVector selected;
  selected.resize_discard(40);
  for (std::uint32_t entry = 0; entry < 40; ++entry) {
    selected.indices.data()[entry] = 7 * entry;
    selected.values.data()[entry] = acc[7 * entry];
  }
  ReduceContext context{.step = 1, .k = 40, .density = 0.1};
  context.selection.shared_indices = true;
  sums_agree(communicator, name, {}, context, acc, selected);
}

/// Several buckets in one exchange over a transport get what each gets alone.
void buckets_share_a_transport(Communicator& communicator, const std::string& name, const Overrides& settings) {
  constexpr std::array<std::size_t, 3> kSizes{300, 7, 41};
  HostTransport transport(communicator);
  GroupReduce reduce(communicator);
  std::array<std::unique_ptr<SparseCollective>, kSizes.size()> alone, together;
  for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) {
    alone[bucket] = make_collective(name, kSizes[bucket], settings);
    together[bucket] = make_collective(name, kSizes[bucket], settings);
  }
  const std::vector<float> gradient = gradient_of(communicator);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    std::array<ReduceContext, kSizes.size()> contexts;
    std::array<SparseVector, kSizes.size()> selected;
    std::array<SparseReduction, kSizes.size()> expected, found;
    std::vector<ReducePart> parts;
    for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) {
      const std::span<const float> acc = std::span(gradient).first(kSizes[bucket]);
      contexts[bucket] = {.step = step, .k = 1 + kSizes[bucket] / 8, .density = 0.1};
      selected[bucket] = largest_entries(acc, (unsigned_rank(communicator) + bucket) % 3 * kSizes[bucket] / 16);
      reduce.run({alone[bucket].get(), &contexts[bucket], acc, &selected[bucket], &expected[bucket]});
      parts.push_back({together[bucket].get(), &contexts[bucket], acc, &selected[bucket], &found[bucket]});
    }
    reduce.run(parts);
    for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) {
      const std::span<const float> acc = std::span(gradient).first(kSizes[bucket]);
      expect(sum_of(found[bucket], acc.size()) == sum_of(expected[bucket], acc.size()), "the same sum, bit for bit");
      expect(residual_after(acc, found[bucket]) == residual_after(acc, expected[bucket]), "the same has left");
    }
  }
}

TEST_SUITE("comm") {
  TEST_CASE("buckets that share an exchange over a transport get what each gets alone") {
    for (const int ranks : {2, 3, 5}) {
      INFO(ranks, " ranks");
      CHECK_NOTHROW(run_local(ranks, {}, [](Communicator& communicator) {
        for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names())
          buckets_share_a_transport(communicator, name, {});
        buckets_share_a_transport(communicator, "gtopk", {{"put_back", std::string("exact")}});
        buckets_share_a_transport(communicator, "dsa", {{"switch", 0.0}});
        buckets_share_a_transport(communicator, "oktopk", {{"balance", std::string("always")}});
      }));
    }
  }

  TEST_CASE("sums over a transport are those of messages, bit for bit") {
    for (const int ranks : {1, 2, 3, 4, 5}) {
      INFO(ranks, " ranks");
      CHECK_NOTHROW(run_local(ranks, {}, [](Communicator& communicator) {
        for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names())
          sums_of_lists_agree(communicator, name, {});
        sums_of_lists_agree(communicator, "allgather", {{"decode", std::string("dense")}});
        for (const char* put_back : {"exact", "naive", "paper"})
          sums_of_lists_agree(communicator, "gtopk", {{"put_back", std::string(put_back)}});
        sums_of_lists_agree(communicator, "dsa", {{"switch", 0.0}});
        sums_of_lists_agree(communicator, "oktopk", {{"balance", std::string("always")}});
        for (const char* name : {"index_union", "cltk"}) sums_of_shared_agree(communicator, name);
      }));
    }
  }
}

}  // namespace
}  // namespace dragonn::comm::test
