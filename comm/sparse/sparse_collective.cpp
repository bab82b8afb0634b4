// SPDX-License-Identifier: MIT
#include "comm/sparse/sparse_collective.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dragonn::comm {
namespace {

std::string refusal(const SparseCollectiveEntry& entry, const SelectionTraits& traits) {
  return entry.refuses ? entry.refuses(traits) : std::string();
}

}  // namespace

void SparseReduction::reset(int ranks) {
  sum.clear();
  dense_sum.resize_discard(0);
  is_dense = false;
  is_mean = false;
  contributed.resize_discard(0);
  contributed_all = false;
  applied.resize_discard(0);
  is_partly_applied = false;
  returned.clear();
  remainder.resize_discard(0);
  stayed.resize_discard(0);
  statistics.selected_counts.assign(static_cast<std::size_t>(ranks), 0);
  statistics.owned_counts.clear();
  statistics.lost_mass = std::numeric_limits<double>::quiet_NaN();
  statistics.decode_seconds = 0;
}

void SparseCollective::sum_lists(const Clock& clock, std::span<const ListView> lists, std::size_t numel,
                                 SparseVector& sum, ReductionStatistics& statistics) {
  const ScopedSeconds decoding(clock, statistics.decode_seconds);
  operations(numel, sum.device()).sum(lists, sum);
  operations(numel, sum.device()).finish();
}

void GroupReduce::run(std::span<const ReducePart> parts) {
  if (parts.empty()) return;
  Communicator& communicator = transport_->communicator();
  rounds_.clear();  // of a call that ended before its rounds began
  for (const ReducePart& part : parts) {
    rounds_.push_back(part.collective->rounds(communicator, *part.context, part.acc, *part.selected, *part.out));
  }
  run_rounds(*transport_, rounds_);
}

std::unique_ptr<SparseCollective> make_collective(const std::string& name, const Settings& settings,
                                                  std::size_t numel) {
  const SparseCollectiveEntry& entry = Registry<SparseCollectiveEntry>::instance().at(name);
  std::unique_ptr<SparseCollective> collective = entry.make(settings, numel);
  collective->set_name(entry.name.c_str());
  return collective;
}

void check_pair(const SelectionTraits& traits, const std::string& sparsifier, const std::string& collective) {
  const auto& registry = Registry<SparseCollectiveEntry>::instance();
  const std::string reason = refusal(registry.at(collective), traits);
  if (reason.empty()) return;
  std::vector<std::string> fitting;
  for (const std::string& name : registry.names()) {
    if (refusal(registry.at(name), traits).empty()) fitting.push_back(name);
  }
  throw ConfigError(fmt::format("sparsifier '{}' does not go with collective '{}': {}; valid: {}", sparsifier,
                                collective, reason, fmt::join(fitting, ", ")));
}

}  // namespace dragonn::comm
