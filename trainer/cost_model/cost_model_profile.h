// SPDX-License-Identifier: MIT
/// Profile: the times of selecting and decoding on a machine, by tensor size.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/network_model.h"

namespace dragonn::trainer {

/// The properties besides the size that times depend on.
struct ProfileKey {
  std::string sparsifier;  ///< or the quantizer
  std::string memory;      ///< the memory whose pass selects
  std::string decode;      ///< "sparse" or "dense"
  double density = 1;      ///< in (0, 1]
  int ranks = 1;           ///< number of lists that are decoded
  int threads = 1;
  std::string device = "cpu";  ///< type of device that selects: "cpu", "cuda"
};

/// The times of one size: medians over `runs`.
struct ProfileRow {
  ProfileKey key;
  std::size_t numel = 0;
  int runs = 0;
  double encode_seconds = 0;  ///< compensate, select and settle on one rank
  double decode_seconds = 0;  ///< the lists of all ranks into one sum
  double dense_seconds = 0;   ///< a dense exchange of the same size, without the network; 0 if it was not measured
  /// The list of one rank into a code, and the codes of all ranks into lists; empty if it was not measured.
  std::optional<double> coding_seconds = {};
};

/// The rows of a file.
struct Profile {
  std::vector<ProfileRow> rows;
  /// The network of a run's profile.json, for which its decisions were made.
  std::optional<comm::NetworkModel> network;
  /// The time of a worker's backward pass in a run's profile.json, mean over the steps of that run.
  std::optional<double> backward_seconds = {};
};

/// Returns one JSON object on one line, as in the files (docs/formats.md).
std::string to_json(const ProfileRow& row);
/// Parses the output of dragonn-bench profile or of a run. @throws DataError naming `name`, row and key.
Profile parse_profile(const std::string& text, const std::string& name);

/// Returns the rows of the key's device, sparsifier, density and ranks. If some of them also have its memory, decode
/// and threads, it returns only those: these properties matter less, and a machine is rarely profiled for all. Empty if
/// there are none.
std::vector<ProfileRow> rows_of(const Profile& profile, const ProfileKey& key);

/// The times of any size from the rows of one key: linear in the logarithm of the size between two of them, linear in
/// the size beyond the ends and never negative; proportional to the size if there is only one.
class CostCurve {
 public:
  /// @param rows in any order. @throws ConfigError if there are none, or two of one size.
  explicit CostCurve(std::vector<ProfileRow> rows);

  double encode_seconds(std::size_t numel) const {
    return at(numel, [](const ProfileRow& row) { return row.encode_seconds; });
  }
  double decode_seconds(std::size_t numel) const {
    return at(numel, [](const ProfileRow& row) { return row.decode_seconds; });
  }
  double dense_seconds(std::size_t numel) const {
    return at(numel, [](const ProfileRow& row) { return row.dense_seconds; });
  }
  /// Returns whether all rows have the time of a codec of lists.
  bool knows_coding() const;
  /// Returns the time of a codec of lists; rows that lack it count as 0.
  double coding_seconds(std::size_t numel) const {
    return at(numel, [](const ProfileRow& row) { return row.coding_seconds.value_or(0); });
  }

 private:
  double at(std::size_t numel, double (*seconds)(const ProfileRow& row)) const;

  std::vector<ProfileRow> rows_;  // sizes ascend
};

}  // namespace dragonn::trainer
