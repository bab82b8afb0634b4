// SPDX-License-Identifier: MIT
#include <array>
#include <cmath>

#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// One exchange of 2 elements, k = 1; ranks without an input of their own have zeros.
Outcome run(Communicator& communicator, const char* put_back, const std::vector<std::vector<float>>& inputs) {
  const std::size_t me = unsigned_rank(communicator);
  const std::vector<float> acc = me < inputs.size() ? inputs[me] : std::vector<float>(2);
  const auto collective = make_collective("gtopk", 2, {{"put_back", put_back}});
  return exchange(communicator, *collective, {.k = 1, .density = 0.5}, acc, largest_entries(acc, 1));
}

std::vector<float> residual(Communicator& communicator, const Outcome& outcome,
                            const std::vector<std::vector<float>>& inputs) {
  return residual_after(inputs[unsigned_rank(communicator)], outcome.reduction);
}

using Residuals = std::vector<std::vector<float>>;

/// Specification, section 3.4, test (a): B survives through the right half of the tree after the left half dropped it.
void example_of_four(Communicator& communicator) {
  if (communicator.size() != 4) return;
  const std::size_t me = unsigned_rank(communicator);
  const Residuals inputs{{5, 0}, {0, 4}, {0, 6}, {0, 1}};
  const auto expect_mode = [&](const char* mode, float sum, const Residuals& residuals) {
    const Outcome outcome = run(communicator, mode, inputs);
    expect(entries_of(outcome.reduction.sum) == Entries{{1, sum}}, "J = {B}");
    expect(residual(communicator, outcome, inputs) == residuals[me], mode);
    return outcome.reduction.statistics.lost_mass;
  };
  expect(std::isnan(expect_mode("merger", 7, {{5, 4}, {0, 0}, {0, 0}, {0, 0}})), "a sum of 5 + 4 + 7 = 16: no loss");
  expect(std::isnan(expect_mode("exact", 11, {{5, 0}, {0, 0}, {0, 0}, {0, 0}})), "5 + 11 = 16");
  expect(std::isnan(expect_mode("naive", 11, {{5, 0}, {0, 0}, {0, 0}, {0, 0}})), "5 + 11 = 16");
  expect(expect_mode("paper", 7, {{5, 0}, {0, 0}, {0, 0}, {0, 0}}) == 4, "4 are lost");
}

/// Test (b): B is not in the result at all, so that the paper's rule is right too.
void example_of_three(Communicator& communicator) {
  if (communicator.size() != 3) return;
  const std::size_t me = unsigned_rank(communicator);
  const Residuals inputs{{5, 0}, {0, 4}, {0, 2}};
  const Residuals merger{{0, 6}, {0, 0}, {0, 0}};
  const Residuals paper{{0, 0}, {0, 4}, {0, 2}};
  for (const char* mode : {"merger", "paper"}) {
    const Outcome outcome = run(communicator, mode, inputs);
    expect(entries_of(outcome.reduction.sum) == Entries{{0, 5.0f}}, "J = {A}, u = 5");
    expect(residual(communicator, outcome, inputs) == (std::string(mode) == "merger" ? merger : paper)[me], mode);
    if (std::string(mode) == "paper") expect(outcome.reduction.statistics.lost_mass == 0, "no loss");
  }
}

void momentum_stops_in_the_sum_alone(Communicator& communicator) {
  // Rank 0's entry wins, the others' do not: all leave their ranks, only one is applied.
  const bool first = communicator.rank() == 0;
  const Outcome outcome =
      run(communicator, "merger", Residuals(unsigned_size(communicator), {first ? 100.0f : 0.0f, 1}));
  const Indices mine{first ? 0u : 1u};
  expect(indices_of(outcome.reduction.contributed.view()) == mine, "all that was selected left");
  expect(indices_of(outcome.reduction.masked()) == (first ? mine : Indices{}), "masking asks what was applied");
}

/// The naive mode is the definition: the k largest of the sum of all selections.
void exact_and_naive_keep_true_sums(Communicator& communicator) {
  constexpr std::size_t kNumel = 80;
  const std::size_t me = unsigned_rank(communicator);
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<float> total(kNumel);
    for (std::size_t rank = 0; rank < unsigned_size(communicator); ++rank) {
      const auto selected = largest_entries(integer_gradient(kNumel, step, rank), 5 + rank % 4);
      for (const auto& [index, value] : entries_of(selected)) total[index] += value;
    }
    const std::vector<float> acc = integer_gradient(kNumel, step, me);
    const SparseVector selected = largest_entries(acc, 5 + me % 4);
    const std::size_t k = communicator.size() == 1 ? kNumel : 6;  // one rank keeps what it selected
    const auto naive = make_collective("gtopk", kNumel, {{"put_back", "naive"}});
    const Outcome ranked = exchange(communicator, *naive, {.step = step, .k = k}, acc, selected);
    expect(entries_of(ranked.reduction.sum) == entries_of(largest_entries(total, k)), "naive: the largest sums");
    const auto exact = make_collective("gtopk", kNumel, {{"put_back", "exact"}});
    const Outcome merged = exchange(communicator, *exact, {.step = step, .k = k}, acc, selected);
    expect(merged.reduction.sum.size() <= k, "at most k entries");
    for (const auto& [index, value] : entries_of(merged.reduction.sum)) expect(value == total[index], "exact sums");
  }
}

/// The paper's rule loses mass from three ranks on, with residuals fed back for many steps; it reports exactly the mass
/// that is missing.
void paper_loses_what_it_reports(Communicator& communicator) {
  constexpr std::size_t kNumel = 20;
  const std::size_t me = unsigned_rank(communicator);
  const auto collective = make_collective("gtopk", kNumel, {{"put_back", "paper"}});
  std::vector<float> acc(kNumel);
  double total_loss = 0;
  for (std::uint64_t step = 0; step < 12; ++step) {
    const std::vector<float> gradient = integer_gradient(kNumel, step, me);
    for (std::size_t i = 0; i < kNumel; ++i) acc[i] += gradient[i];
    const Outcome outcome = exchange(communicator, *collective, {.step = step, .k = 4}, acc, largest_entries(acc, 4));
    const std::vector<float> kept = residual_after(acc, outcome.reduction);
    const std::vector<float> sum = sum_of(outcome.reduction, kNumel);
    std::vector<double> missing(kNumel);
    for (std::size_t i = 0; i < kNumel; ++i) missing[i] = static_cast<double>(acc[i]) - kept[i];
    communicator.allreduce_sum(std::span<double>(missing));
    double loss = 0;
    for (std::size_t i = 0; i < kNumel; ++i) loss += std::abs(missing[i] - sum[i]);
    const double reported = communicator.size() == 1 ? 0.0 : outcome.reduction.statistics.lost_mass;
    expect(loss == reported, "lost_mass is what is missing");
    total_loss += loss;
    acc = kept;
  }
  expect((total_loss > 0) == (communicator.size() > 2), "two ranks are safe, three and more are not");
}

constexpr std::array kCases{
    Case{"gtopk gives the sums and residuals of the specification's example of four ranks", example_of_four},
    Case{"gtopk gives the sums and residuals of the specification's example of three ranks", example_of_three},
    Case{"gtopk masks momentum only where an entry was applied", momentum_stops_in_the_sum_alone},
    Case{"gtopk's modes exact and naive keep true sums", exact_and_naive_keep_true_sums},
    Case{"gtopk's mode paper loses what it reports", paper_loses_what_it_reports},
};

}  // namespace

std::span<const Case> gtopk_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
