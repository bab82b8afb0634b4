// SPDX-License-Identifier: MIT
#include "trainer/cost_model/cost_model_profile.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::trainer {
namespace {

/// Returns whether two densities are the same up to printing and the order of computing.
bool same_density(double a, double b) {
  constexpr double kTolerance = 1e-9;
  return std::abs(a - b) <= kTolerance * std::max(a, b);
}

/// Drops the rows without the property, unless no row has it.
template <class Property>
void prefer(std::vector<ProfileRow>& rows, Property property) {
  if (std::ranges::any_of(rows, property)) std::erase_if(rows, [&](const ProfileRow& row) { return !property(row); });
}

}  // namespace

std::vector<ProfileRow> rows_of(const Profile& profile, const ProfileKey& key) {
  std::vector<ProfileRow> rows;
  std::ranges::copy_if(profile.rows, std::back_inserter(rows), [&](const ProfileRow& row) {
    return row.key.device == key.device && row.key.sparsifier == key.sparsifier && row.key.ranks == key.ranks &&
           same_density(row.key.density, key.density);
  });
  prefer(rows, [&](const ProfileRow& row) { return row.key.memory == key.memory; });
  prefer(rows, [&](const ProfileRow& row) { return row.key.decode == key.decode; });
  prefer(rows, [&](const ProfileRow& row) { return row.key.threads == key.threads; });
  return rows;
}

CostCurve::CostCurve(std::vector<ProfileRow> rows) : rows_(std::move(rows)) {
  std::ranges::sort(rows_, {}, &ProfileRow::numel);
  if (rows_.empty()) throw ConfigError("a profile without rows: expected one row or more");
  const auto twice = std::ranges::adjacent_find(rows_, {}, &ProfileRow::numel);
  if (twice == rows_.end()) return;
  throw ConfigError(
      fmt::format("a profile with two rows of sparsifier '{}', density {}, {} ranks and {} elements: "
                  "expected one of each size",
                  twice->key.sparsifier, twice->key.density, twice->key.ranks, twice->numel));
}

bool CostCurve::knows_coding() const {
  return std::ranges::all_of(rows_, [](const ProfileRow& row) { return row.coding_seconds.has_value(); });
}

double CostCurve::at(std::size_t numel, double (*seconds)(const ProfileRow& row)) const {
  const double size = static_cast<double>(numel);
  if (rows_.size() == 1) return seconds(rows_[0]) * size / static_cast<double>(rows_[0].numel);
  // Takes the pair of rows around the size, or at the end that it lies beyond.
  const auto above = std::ranges::lower_bound(rows_.begin() + 1, rows_.end() - 1, numel, {}, &ProfileRow::numel);
  const ProfileRow &low = *(above - 1), &high = *above;
  const double low_size = static_cast<double>(low.numel), high_size = static_cast<double>(high.numel);
  const bool between = numel >= low.numel && numel <= high.numel;
  const double share =
      between ? std::log(size / low_size) / std::log(high_size / low_size) : (size - low_size) / (high_size - low_size);
  return std::max(0.0, seconds(low) + share * (seconds(high) - seconds(low)));
}

}  // namespace dragonn::trainer
