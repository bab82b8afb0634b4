// SPDX-License-Identifier: MIT
/// CostModel: decides whether sparsifying a tensor saves time on a network (DRAGONN section 4.1, docs/algorithms.md
/// 4.1). Profile: the times of selecting and decoding on a machine, by tensor size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/network_model.h"
#include "comm/prediction.h"
#include "core/parameter.h"
#include "exchange/buckets.h"
#include "exchange/exchange_plan.h"
#include "layers/network.h"
#include "trainer/config/config.h"

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

/// The expected seconds of a tensor in one exchange, in both forms. Latencies are its group's.
struct TensorCost {
  std::size_t numel = 0;
  double full_seconds = 0;    ///< T_full: its bytes in a dense allreduce, and adding them up
  double encode_seconds = 0;  ///< T_enc
  double decode_seconds = 0;  ///< T_dec
  double sparse_seconds = 0;  ///< T_spr: its bytes in a sparse exchange, headers included
  std::size_t group = 0;      ///< index of its GroupCost
  bool is_sparse = false;     ///< the decision (choose_sparse)

  double sparsified_seconds() const { return encode_seconds + decode_seconds + sparse_seconds; }
};

/// The latencies that the tensors of a group pay together, because they are sent in the same messages.
struct GroupCost {
  double full_seconds = 0;    ///< of its dense exchange
  double sparse_seconds = 0;  ///< of its sparse exchange, headers included
  bool always_dense = false;  ///< it also holds buckets that are never sparsified: its dense exchange is made anyway
};

/// The costs of all tensors at one density.
struct DensityCosts {
  double density = 1;
  std::vector<TensorCost> tensors = {};
  std::vector<GroupCost> groups = {};
};

/// Predicts the times of exchanges. All times are of one rank.
struct CostModel {
  comm::NetworkModel network;
  const exchange::ExchangeRules& rules;
  int world_size = 1;
  std::optional<comm::AssumedCounts> counts = {};  ///< of sparse exchanges; empty: the expected ones (predict_bucket)

  /// Returns the costs of those buckets that may be sparsified, decided by choose_sparse().
  /// @param curve times of the sparsifier at this density.
  DensityCosts costs(std::span<const exchange::Bucket> buckets, const CostCurve& curve, double density) const;
};

/// Decides for every tensor so that its group takes the least time: every tensor takes its cheaper form, unless all in
/// one form take less time because that saves one of the group's two exchanges.
void choose_sparse(std::span<TensorCost> tensors, std::span<const GroupCost> groups);

/// Buckets that are sent together, and their computing.
struct ExchangeStage {
  double ready = 1;  ///< share of backward after which their gradients are final
  double local_seconds = 0;
  comm::Prediction messages = {};
};

/// Returns the time that the stages, one after the other, add to a step. With a backward time each begins as soon as
/// its gradients are final, during backward; without one all begin after it.
double exposed_seconds(std::span<const ExchangeStage> stages, const comm::NetworkModel& network,
                       std::optional<double> backward_seconds = {});

/// Returns, by bucket, the share of backward after which its gradient is final, as far as the layers' operations tell.
std::vector<double> ready_shares(std::span<const layers::LayerSummary> layers,
                                 std::span<const exchange::Bucket> buckets);

/// Returns why no bucket of the run can be exchanged before backward has ended, in words for the user; empty if one
/// can. @param buckets that are sent together, each group as one (group_slices).
std::string overlap_obstacle(const Config& config, const ParameterArena& arena,
                             std::span<const exchange::Bucket> buckets);

/// The share of a round of local steps up to which an exchange is told to cost next to nothing.
inline constexpr double kRoundShare = 0.05;
/// Returns the time of an exchange that takes that share of a round: `steps` of computing, and the exchange.
constexpr double affordable_seconds(std::uint64_t steps, double step_seconds) {
  return kRoundShare / (1 - kRoundShare) * static_cast<double>(steps) * step_seconds;
}

/// The shortest and the longest time that exchanges may take.
struct SecondsRange {
  double low = 0;
  double high = 0;

  bool is_exact() const { return low == high; }
  bool holds(double seconds) const { return low < seconds && seconds < high; }
};

/// The advice to a run before it starts: the faster form of exchange, and a better setting.
struct StepAdvice {
  /// Added to a step by the fastest dense exchanges, in the buckets of PyTorch DDP; a lower bound.
  double dense_seconds = 0;
  std::string dense_setting = {};  ///< the algorithm that makes them, as a setting, if it is not the run's; or empty
  double ring_seconds = 0;         ///< by a ring, as PyTorch DDP over gloo makes them
  double sparse_seconds = 0;       ///< by the exchanges that the run makes, sparsified or quantized; expected
  SecondsRange sparse_range = {};  ///< of these, as far as the number of selected entries is known
  SecondsRange first_range = {};   ///< of the first steps, before that number has settled
  std::uint64_t first_steps = 0;   ///< 0: it has from the beginning
  bool dense_overlaps = false;
  bool sparse_overlaps = false;
  /// The bandwidth at which the other form becomes faster, at the network's latency; empty if there is none.
  std::optional<double> break_even_gbps = {};
  /// The settings that make the run's exchanges fastest, if they are clearly faster than the run's: "key = value",
  /// separated by ", "; or empty.
  std::string remedy = {};
  double remedy_seconds = 0;  ///< added to a step with these settings
  std::uint64_t steps_per_exchange = 1;
  /// The bandwidth at which an exchange takes kRoundShare of a round of several steps, at the network's latency; above
  /// it takes less. Empty if no backward time is known, or latencies and computing alone take more.
  std::optional<double> round_gbps = {};

  bool sparse_is_faster() const { return sparse_seconds < dense_seconds; }
  /// Returns whether the other form may be faster, as the run may select more or fewer entries.
  bool is_uncertain() const {
    return sparse_range.holds(dense_seconds) || (first_steps > 0 && first_range.holds(dense_seconds));
  }
  /// Returns whether exchanges with the remedy are faster than dense ones.
  bool remedy_beats_dense() const { return !remedy.empty() && remedy_seconds < dense_seconds; }
};

}  // namespace dragonn::trainer
