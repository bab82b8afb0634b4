// SPDX-License-Identifier: MIT
/// Files of one exchange, in NumPy's format: what went in and what came out, for another implementation to check.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::bench {

/// All arrays are float32 of one dimension and of one length.
struct ExchangeFiles {
  std::string input;  ///< each rank's accumulated gradient: a path with "{rank}" in it; empty: none
  std::string dump;   ///< folder of the outcome, made if needed; empty: none
};

/// The path of one rank. @throws ConfigError if `pattern` does not hold "{rank}".
std::filesystem::path input_path(const std::string& pattern, int rank);
/// Length of the array, from the file of rank 0. @throws as read_input.
std::size_t input_numel(const std::string& pattern);
/// Collective. This rank's array. @throws AgreedError on all ranks if a file is missing, is no array of `numel` float32
/// in one dimension, or holds NaN or infinity.
std::vector<float> read_input(comm::Communicator& communicator, const std::string& pattern, std::size_t numel);

/// What one rank has after an exchange.
struct ExchangeDump {
  std::span<const float> accumulated;  ///< acc that went in
  const comm::SparseReduction& reduction;
  View<const float> residual;  ///< after settle; empty: nothing stays behind
};
/// Collective. Writes acc_{rank}.npy and residual_{rank}.npy of every rank, and sum.npy, the exchanged sum over ranks.
/// @throws AgreedError on all ranks if a file cannot be written.
void write_dump(comm::Communicator& communicator, const std::string& folder, const ExchangeDump& dump);

}  // namespace dragonn::bench
