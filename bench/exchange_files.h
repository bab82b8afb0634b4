// SPDX-License-Identifier: MIT
/// Exchange files: input and outcome of one exchange in NumPy's format, for another implementation to check.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::bench {

/// The files of an exchange. All arrays are float32 of one dimension and of one length.
struct ExchangeFiles {
  std::string input;  ///< each rank's accumulated gradient: a path with "{rank}" in it; empty: none
  std::string dump;   ///< folder of the outcome, made if needed; empty: none
};

/// Returns the path of one rank. @throws ConfigError if `pattern` does not hold "{rank}".
std::filesystem::path input_path(const std::string& pattern, int rank);
/// Returns the length of the array, from the file of rank 0. @throws as read_input.
std::size_t input_numel(const std::string& pattern);
/// Collective. Returns this rank's array. @throws AgreedError on all ranks if a file is missing, is no array of `numel`
/// float32 in one dimension, or holds NaN or infinity.
std::vector<float> read_input(comm::Communicator& communicator, const std::string& pattern, std::size_t numel);

/// The arrays of one rank after an exchange.
struct ExchangeDump {
  std::span<const float> accumulated;  ///< the acc that went in
  const comm::SparseReduction& reduction;
  View<const float> residual;  ///< after settle; empty if nothing stays behind
};
/// Collective. Writes acc_{rank}.npy and residual_{rank}.npy of every rank, and sum.npy, the exchanged sum over ranks.
/// @throws AgreedError on all ranks if a file cannot be written.
void write_dump(comm::Communicator& communicator, const std::string& folder, const ExchangeDump& dump);

}  // namespace dragonn::bench
