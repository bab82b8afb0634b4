// SPDX-License-Identifier: MIT
/// GradientDump: writes the values from which a rank's sparsifiers select, at the steps of logging.dump_gradients.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "core/view.h"

namespace dragonn::trainer {

/// Writes one file per step and rank, FOLDER/step-00000120-rank-0000.npy: [numel] float32, acc after compensate and
/// before select. Costs numel floats of memory if some step is named, and a copy and a file at those steps.
class GradientDump {
 public:
  /// @param steps count from 1.  @param numel elements of the exchanged buckets that are dumped
  /// (GradientExchange::dump_size).
  GradientDump(std::filesystem::path folder, std::vector<std::int64_t> steps, std::size_t numel);

  /// Returns the place where the exchange of step `step` puts acc: [numel], or empty if that step is not named.
  View<float> target(std::uint64_t step);
  /// Collective. Writes the content of target(step); does nothing if the step is not named.
  /// @throws comm::CollectiveError on every rank if some rank cannot write its file (full disk).
  void write(comm::Communicator& communicator, std::uint64_t step);

 private:
  bool is_named(std::uint64_t step) const;

  std::filesystem::path folder_;
  std::vector<std::int64_t> steps_;
  Buffer<float> accumulated_;
};

}  // namespace dragonn::trainer
