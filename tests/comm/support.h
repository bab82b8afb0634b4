// SPDX-License-Identifier: MIT
/// Helpers of the cases: element formulas, and byte counts of a scope.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/sparse/sparse_collective.h"
#include "tests/support/text.h"

namespace dragonn::comm::test {

inline std::size_t unsigned_rank(const Communicator& communicator) {
  return static_cast<std::size_t>(communicator.rank());
}

inline std::size_t unsigned_size(const Communicator& communicator) {
  return static_cast<std::size_t>(communicator.size());
}

/// Counts a rank's traffic in one phase while the object lives.
class TrafficMeter {
 public:
  TrafficMeter(const Communicator& communicator, Phase phase)
      : communicator_(communicator), phase_(phase), before_(communicator.traffic()[phase]) {}
  Traffic moved() const { return communicator_.traffic()[phase_] - before_; }

 private:
  const Communicator& communicator_;
  Phase phase_;
  Traffic before_;
};

inline SparseVector sparse(const std::vector<std::pair<std::uint32_t, float>>& entries) {
  SparseVector result;
  result.resize_discard(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    result.indices.host()[i] = entries[i].first;
    result.values.host()[i] = entries[i].second;
  }
  return result;
}

inline std::vector<std::pair<std::uint32_t, float>> entries_of(const SparseVector& vector) {
  std::vector<std::pair<std::uint32_t, float>> result;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    result.emplace_back(vector.indices.host()[i], vector.values.host()[i]);
  }
  return result;
}

using dragonn::test::contains;

using Overrides = std::map<std::string, SettingValue>;

/// A registered collective with settings that differ from the defaults.
inline std::unique_ptr<SparseCollective> make_collective(const std::string& name, std::size_t numel,
                                                         const Overrides& overrides = {}) {
  const SparseCollectiveEntry& entry = Registry<SparseCollectiveEntry>::instance().at(name);
  Settings settings(entry.settings);
  for (const auto& [key, value] : overrides) settings.set(key, value);
  return comm::make_collective(name, settings, numel);
}

/// One exchange of one bucket.
inline void reduce(Communicator& communicator, SparseCollective& collective, const ReduceContext& context,
                   std::span<const float> acc, const SparseVector& selected, SparseReduction& out) {
  GroupReduce(communicator).run({&collective, &context, acc, &selected, &out});
}

}  // namespace dragonn::comm::test
