// SPDX-License-Identifier: MIT
/// GradientDump: writes what a rank's sparsifiers choose from, at the steps that logging.dump_gradients names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "core/view.h"

namespace dragonn::trainer {

/// One file per step and rank, FOLDER/step-00000120-rank-0000.npy: [numel] float32, acc after compensate and before
/// select. Costs numel floats of memory where some step is named, and a copy and a file at those steps.
class GradientDump {
 public:
  /// `steps` count from 1. `numel`: elements of the exchanged buckets that are dumped (GradientExchange::dump_size).
  GradientDump(std::filesystem::path folder, std::vector<std::int64_t> steps, std::size_t numel);

  /// Where the exchange of step `step` puts acc: [numel], or empty where that step is not named.
  View<float> target(std::uint64_t step);
  /// Collective. Writes what is in target(step); does nothing where the step is not named.
  /// @throws comm::AgreedError on every rank if some rank cannot write its file (full disk).
  void write(comm::Communicator& communicator, std::uint64_t step);

 private:
  bool is_named(std::uint64_t step) const;

  std::filesystem::path folder_;
  std::vector<std::int64_t> steps_;
  Buffer<float> accumulated_;
};

}  // namespace dragonn::trainer
