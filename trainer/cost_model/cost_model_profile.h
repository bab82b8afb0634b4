// SPDX-License-Identifier: MIT
/// Profile: how long selecting and decoding take on a machine, by tensor size.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/network_model.h"

namespace dragonn::trainer {

/// What a time depends on beside the size.
struct ProfileKey {
  std::string sparsifier;
  std::string memory;  ///< whose pass selects
  std::string decode;  ///< "sparse" or "dense"
  double density = 1;  ///< in (0, 1]
  int ranks = 1;       ///< lists that are decoded
  int threads = 1;
  std::string device = "cpu";  ///< type of device that selects: "cpu", "cuda"
};

/// Times of one size: medians over `runs`.
struct ProfileRow {
  ProfileKey key;
  std::size_t numel = 0;
  int runs = 0;
  double encode_seconds = 0;  ///< compensate, select and settle on one rank
  double decode_seconds = 0;  ///< the lists of all ranks into one sum
  double dense_seconds = 0;   ///< a dense exchange of the same size, without the network; 0 where it was not measured
};

/// A file of such times.
struct Profile {
  std::vector<ProfileRow> rows;
  /// In the profile.json of a run: the network that its decisions were made for.
  std::optional<comm::NetworkModel> network;
  /// There too: of a worker's backward pass, mean over the steps of that run.
  std::optional<double> backward_seconds = {};
};

/// One JSON object on one line, as in the files (docs/formats.md).
std::string to_json(const ProfileRow& row);
/// Reads what dragonn-bench profile or a run wrote. @throws DataError naming `name`, row and key.
Profile parse_profile(const std::string& text, const std::string& name);

/// The rows of the key's device, sparsifier, density and ranks. Of those only the ones with its memory, decode and
/// threads, where there are any: these weigh less, and a machine is rarely profiled for all. Empty if there are none.
std::vector<ProfileRow> rows_of(const Profile& profile, const ProfileKey& key);

/// Times of any size from the rows of one key: linear in the logarithm of the size between two of them, linear in the
/// size beyond the ends and never negative; proportional to the size where there is only one.
class CostCurve {
 public:
  /// @param rows in any order. @throws ConfigError if there are none, or two of one size.
  explicit CostCurve(std::vector<ProfileRow> rows);

  double encode_seconds(std::size_t numel) const { return at(numel, &ProfileRow::encode_seconds); }
  double decode_seconds(std::size_t numel) const { return at(numel, &ProfileRow::decode_seconds); }
  double dense_seconds(std::size_t numel) const { return at(numel, &ProfileRow::dense_seconds); }

 private:
  double at(std::size_t numel, double ProfileRow::*seconds) const;

  std::vector<ProfileRow> rows_;  // sizes ascend
};

}  // namespace dragonn::trainer
