// SPDX-License-Identifier: MIT
/// ExdynaPartition: one range of a vector per rank, whose cuts move until the ranks select equally many entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/archive.h"

namespace dragonn::compress {

struct ExdynaPartitionRules {
  std::size_t blocks = 0;      ///< wanted number of blocks; there is one for every rank at least
  std::size_t block_move = 0;  ///< blocks that change owner at a time
  double alpha = 0;            ///< above 1: a partition with more than alpha times the mean count gives blocks away
};

/// Partitions of whole blocks, disjoint and covering the vector; the last one has the remainder too. A block has a
/// multiple of 32 elements, unless the vector has fewer than 32 for each. Ranks take the partitions in turn, so that a
/// partition with many large entries is not always the same rank's.
/// All decisions are in integers and doubles in one order, the same on all ranks. Source: ExDyna, algorithms 2 and 3.
class ExdynaPartition {
 public:
  struct Range {
    std::size_t begin, end;
  };

  /// Makes a partition for no ranks.
  ExdynaPartition() = default;
  /// @param ranks at least 1.
  ExdynaPartition(const ExdynaPartitionRules& rules, std::size_t numel, std::size_t ranks);

  std::size_t ranks() const { return lengths_.size(); }
  /// Returns the partition that `rank` searches in `step`.
  std::size_t partition_of(std::size_t rank, std::uint64_t step) const { return (step + rank) % ranks(); }
  /// Returns the elements of a partition; empty if there are fewer elements than ranks.
  Range range(std::size_t partition) const;
  std::size_t block_size() const { return block_size_; }
  /// The blocks of each partition, and below the first block of each.
  std::span<const std::uint64_t> lengths() const { return lengths_; }
  std::span<const std::uint64_t> positions() const { return positions_; }

  /// Moves blocks between neighbours. @param counts entries that each rank selected in `step`. O(ranks).
  void adjust(std::span<const std::uint64_t> counts, std::uint64_t step);

  void save(Archive& archive, const std::string& prefix) const;
  /// Loads the cuts. @throws DataError unless the saved partition had as many ranks, and its cuts divide the blocks.
  void load(const Archive& archive, const std::string& prefix);

 private:
  ExdynaPartitionRules rules_;
  std::size_t numel_ = 0, blocks_ = 0, block_size_ = 0;
  std::vector<std::uint64_t> lengths_, positions_;
  std::vector<double> counts_;  // by partition: scratch of adjust
};

}  // namespace dragonn::compress
