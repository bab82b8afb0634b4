// SPDX-License-Identifier: MIT
#include "trainer/run/traffic_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dragonn::trainer {
namespace {

/// Returns the factor, at least 1, between two numbers of bytes.
double factor(double a, double b) {
  return std::max(a, b) / std::max(1.0, std::min(a, b));
}

}  // namespace

std::optional<SeenTraffic> TrafficCheck::add(comm::Communicator& communicator, const exchange::ExchangeCounts& counts,
                                             double bytes) {
  if (++steps_ + kWindow <= next_) return std::nullopt;
  bytes_ += bytes;
  sums_.numel += counts.numel;
  sums_.target += counts.target;
  sums_.padded += counts.padded;
  sums_.global += counts.global;
  selected_ += std::accumulate(counts.selected.begin(), counts.selected.end(), 0.0);
  if (steps_ < next_) return std::nullopt;
  communicator.allreduce_sum(std::span<double>(&bytes_, 1));
  const SeenTraffic seen{bytes_ / static_cast<double>(kWindow) / communicator.size(), seen_counts(communicator.size())};
  next_ *= 2;
  bytes_ = selected_ = 0;
  sums_ = {};
  const bool is_news = told_ ? factor(seen.bytes, *told_) >= kChange : is_off(seen.bytes);
  if (!is_news) return std::nullopt;
  told_ = seen.bytes;
  return seen;
}

bool TrafficCheck::is_off(double bytes) const {
  const bool is_inside = assumed_.low <= bytes && bytes <= assumed_.high;
  return factor(bytes, assumed_.expected) >= (is_inside ? kInRange : kOutside);
}

comm::AssumedCounts TrafficCheck::seen_counts(int ranks) const {
  const auto& collective = Registry<comm::SparseCollectiveEntry>::instance().at(rules_->collective.name);
  const double union_size = std::min(selected_, static_cast<double>(sums_.numel));
  const double sum_size = collective.sum == comm::SumSize::kTarget ? sums_.target : union_size;
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  return {.selected = share(selected_ / ranks, sums_.target),
          .longest = share(static_cast<double>(sums_.padded), selected_),
          .sum = share(static_cast<double>(sums_.global), sum_size)};
}

}  // namespace dragonn::trainer
