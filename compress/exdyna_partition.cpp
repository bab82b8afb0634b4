// SPDX-License-Identifier: MIT
#include "compress/exdyna_partition.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::compress {
namespace {

constexpr std::size_t kBlockMultiple = 32;

}  // namespace

ExdynaPartition::ExdynaPartition(const ExdynaPartitionRules& rules, std::size_t numel, std::size_t ranks)
    : rules_(rules), numel_(numel), lengths_(ranks), positions_(ranks), counts_(ranks) {
  const std::size_t wanted = std::max(rules.blocks, ranks);
  block_size_ = numel / wanted / kBlockMultiple * kBlockMultiple;
  if (block_size_ > 0) {
    // Rounding down leaves more than a block over, so there are as many blocks as fit.
    blocks_ = numel / block_size_;
  } else {
    blocks_ = std::max(ranks, numel / kBlockMultiple);
    block_size_ = std::max<std::size_t>(1, numel / blocks_);
  }
  for (std::size_t p = 0; p < ranks; ++p) lengths_[p] = blocks_ / ranks + (p < blocks_ % ranks ? 1 : 0);
  std::exclusive_scan(lengths_.begin(), lengths_.end(), positions_.begin(), std::uint64_t{0});
}

ExdynaPartition::Range ExdynaPartition::range(std::size_t partition) const {
  const std::size_t begin = std::min(numel_, positions_[partition] * block_size_);
  if (partition + 1 == ranks()) return {begin, numel_};
  return {begin, std::min(numel_, (positions_[partition] + lengths_[partition]) * block_size_)};
}

void ExdynaPartition::adjust(std::span<const std::uint64_t> counts, std::uint64_t step) {
  DRAGONN_CHECK(counts.size() == ranks(), "counts of {} ranks for {} partitions", counts.size(), ranks());
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  if (total == 0) return;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    counts_[partition_of(rank, step)] = static_cast<double>(counts[rank]);
  }
  const double mean = total / static_cast<double>(ranks());
  const double fewest_blocks = static_cast<double>(blocks_) / (4 * static_cast<double>(ranks()));
  // A move takes along this many entries, if they are spread evenly.
  const double moved = static_cast<double>(rules_.block_move * block_size_) * (total / static_cast<double>(numel_));
  const auto may_give = [&](std::size_t partition) {
    return static_cast<double>(lengths_[partition]) - static_cast<double>(rules_.block_move) >= fewest_blocks;
  };
  for (std::size_t left = 0; left + 1 < ranks(); ++left) {
    const std::size_t right = left + 1;
    const double left_load = counts_[left] / mean, right_load = counts_[right] / mean;
    if (left_load > rules_.alpha && right_load < 1 / rules_.alpha && may_give(left)) {
      lengths_[left] -= rules_.block_move;
      lengths_[right] += rules_.block_move;
      positions_[right] -= rules_.block_move;
      counts_[left] -= moved;
      counts_[right] += moved;
    } else if (left_load < 1 / rules_.alpha && right_load > rules_.alpha && may_give(right)) {
      lengths_[left] += rules_.block_move;
      lengths_[right] -= rules_.block_move;
      positions_[right] += rules_.block_move;
      counts_[left] += moved;
      counts_[right] -= moved;
    }
  }
}

void ExdynaPartition::save(Archive& archive, const std::string& prefix) const {
  archive.put_array(prefix + "lengths", std::span<const std::uint64_t>(lengths_));
  archive.put_array(prefix + "positions", std::span<const std::uint64_t>(positions_));
}

void ExdynaPartition::load(const Archive& archive, const std::string& prefix) {
  archive.get_array(prefix + "lengths", std::span<std::uint64_t>(lengths_));
  archive.get_array(prefix + "positions", std::span<std::uint64_t>(positions_));
  std::uint64_t end = 0;
  bool divides = true;
  for (std::size_t p = 0; p < ranks() && divides; ++p) {
    divides = positions_[p] == end && lengths_[p] <= blocks_ - end;
    end += lengths_[p];
  }
  if (!divides || end != blocks_) {
    throw DataError(fmt::format("the checkpoint's fields '{0}lengths' and '{0}positions' do not divide {1} blocks",
                                prefix, blocks_));
  }
}

}  // namespace dragonn::compress
