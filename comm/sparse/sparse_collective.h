// SPDX-License-Identifier: MIT
/// SparseCollective: sums the ranks' selected entries of one bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/list_codec.h"
#include "comm/communicator.h"
#include "comm/prediction.h"
#include "comm/sparse/list_operations.h"
#include "comm/sparse/list_transport.h"
#include "core/archive.h"
#include "core/clock.h"
#include "core/component_traits.h"
#include "core/registry.h"
#include "core/sparse_vector.h"
#include "core/timeline.h"

namespace dragonn::comm {

/// The data of a bucket's exchange that all ranks have.
struct ReduceContext {
  std::uint64_t step = 0;  ///< committed exchanges of the bucket so far
  std::size_t k = 0;       ///< target entries per rank
  double density = 1.0;    ///< target
  /// Whether the collective dense may send its sum in a lossy code of values.
  bool codes_dense = true;
  /// The sparsifier's traits: collectives send less if the size or the indices of all selections are known.
  SelectionTraits selection = {};
  /// Whether a collective that counts senders (Senders::kCounted) divides each entry of the sum by their number.
  bool averages_senders = false;
};

/// The statistics of one exchange, besides its result.
struct ReductionStatistics {
  /// The number of entries selected by each rank.
  std::vector<std::uint64_t> selected_counts;
  /// The number of entries of the sum that each rank brings, if the ranks share the bucket (owners of regions,
  /// partitions); otherwise empty.
  std::vector<std::uint64_t> owned_counts;
  /// The mass that methods lose by definition: sum over indices of |values that left the ranks - values in the sum|.
  /// Otherwise NaN.
  double lost_mass = std::numeric_limits<double>::quiet_NaN();
  /// The local time, without messages, of adding up the received lists.
  double decode_seconds = 0;
};

/// The result of one exchange on one rank. Buffers are reused from step to step.
struct SparseReduction {
  SparseReduction() = default;
  /// Makes buffers in memory of `place`; by default they are host memory, where messages are.
  explicit SparseReduction(const MemoryPlace& place)
      : sum(place),
        dense_sum(0, place),
        contributed(0, place),
        applied(0, place),
        returned(place),
        remainder(0, place) {}

  /// The sum over ranks. Ascending unique indices, same bytes on every rank. Unused when `is_dense`.
  SparseVector sum;
  /// The sum over ranks as n floats, if the collective decodes by itself (dense allreduce, dense decoding).
  Buffer<float> dense_sum;
  bool is_dense = false;
  /// Whether each entry of the sum is divided by the number of ranks that sent it (ReduceContext::averages_senders).
  bool is_mean = false;
  /// The entries of this rank's acc that left it (C_w of the specification); all of them if `contributed_all`.
  Buffer<std::uint32_t> contributed;
  bool contributed_all = false;
  /// The contributed entries whose momentum is masked, if those are not all (`is_partly_applied`): others are not in
  /// the sum, or nothing of them left.
  Buffer<std::uint32_t> applied;
  bool is_partly_applied = false;
  /// The mass handed back to this rank's residual (dropped in a merge tree, or by a lossy code).
  SparseVector returned;
  /// The part of acc that a dense exchange in a lossy code left behind, n floats: the residual. Empty if nothing was.
  Buffer<float> remainder;
  /// One byte for each element of the remainder: whether nothing was sent of this rank's partial sum, which is not 0.
  Buffer<std::uint8_t> stayed;
  ReductionStatistics statistics;

  /// The entries where momentum is masked.
  View<const std::uint32_t> masked() const { return is_partly_applied ? applied.view() : contributed.view(); }
  /// Empties everything and makes room for `ranks` counts.
  void reset(int ranks);
};

/// Adds the time of a scope to ReductionStatistics::decode_seconds, by the communicator's clock.
class ScopedSeconds {
 public:
  ScopedSeconds(const Clock& clock, double& seconds) : clock_(clock), seconds_(seconds), start_(clock.now()) {}
  ~ScopedSeconds() { seconds_ += clock_.now() - start_; }
  ScopedSeconds(const ScopedSeconds&) = delete;
  ScopedSeconds& operator=(const ScopedSeconds&) = delete;

 private:
  const Clock& clock_;
  double& seconds_;
  double start_;
  Span span_{Track::kExchange, "decode"};
};

/// A collective for one bucket: some methods keep state. Knows nothing of sparsifiers. Made by make_collective,
/// run by run_rounds().
class SparseCollective : public RoundsOwner {
 public:
  virtual ~SparseCollective() = default;

  /// The rounds of one exchange. `acc` is this rank's accumulated gradient (n elements, on any device). `selected` is
  /// its selection; it and the lists of `out` are where the ListTransport's lists are.
  Rounds rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                const SparseVector& selected, SparseReduction& out) {
    Rounds rounds = do_rounds(communicator, context, acc, selected, out);
    rounds.set_name(name_);
    return rounds;
  }

  /// Sets the registered name, for errors. @param name outlives the collective.
  void set_name(const char* name) { name_ = name; }
  /// Sets other operations than those of the lists' device: a simulator's (comm/sparse/sized_lists.h).
  void set_operations(std::unique_ptr<ListOperations> operations) { operations_ = std::move(operations); }
  /// Saves state that outlives a step below `prefix`. Most collectives have none.
  virtual void save(Archive&, const std::string& /*prefix*/) const {}
  virtual void load(const Archive&, const std::string& /*prefix*/) {}

 protected:
  virtual Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                           const SparseVector& selected, SparseReduction& out) = 0;

  /// Computes sum <- the lists of a bucket of `numel` elements, added up in their order. The time counts as decoding.
  void sum_lists(const Clock& clock, std::span<const ListView> lists, std::size_t numel, SparseVector& sum,
                 ReductionStatistics& statistics);

  /// Returns the operations for buckets of `numel` elements whose lists are on `device`; made by the first call.
  ListOperations& operations(std::size_t numel, const Device& device) {
    if (!operations_) operations_ = make_list_operations(numel, device);
    return *operations_;
  }

 private:
  const char* name_ = "a sparse collective";
  std::unique_ptr<ListOperations> operations_;
};

/// One bucket's part in an exchange.
struct ReducePart {
  SparseCollective* collective = nullptr;
  const ReduceContext* context = nullptr;
  View<const float> acc;
  const SparseVector* selected = nullptr;
  SparseReduction* out = nullptr;
};

/// Sums the selections of all ranks, for several buckets in one exchange. The buckets' collectives are of one kind,
/// with the same settings. Keeps its buffers from step to step.
class GroupReduce {
 public:
  /// Exchanges over a communicator, which must outlive it. Lists are where its DeviceTransport has them, else in host
  /// memory.
  explicit GroupReduce(Communicator& communicator, const codec::CodecChoice& coding = {})
      : transport_(make_list_transport(communicator, coding)) {}
  explicit GroupReduce(std::unique_ptr<ListTransport> transport) : transport_(std::move(transport)) {}

  /// Collective. @param parts the same buckets in the same order on all ranks; may be empty. Each bucket gets, bit for
  /// bit, the result that it would get alone.
  /// @throws CommError that names the collective (see Communicator).
  void run(std::span<const ReducePart> parts);
  void run(const ReducePart& part) { run(std::span(&part, 1)); }
  ListTransport& transport() { return *transport_; }

 private:
  std::unique_ptr<ListTransport> transport_;
  std::vector<Rounds> rounds_;
};

/// The sizes of an exchange that was made or is expected: entries by rank and of the sum.
struct ExchangeSizes {
  std::size_t numel = 0;
  std::size_t k = 0;  ///< target entries per rank
  int ranks = 1;
  double selected = 0;  ///< by a rank, mean
  double largest = 0;   ///< by a rank, maximum
  double global = 0;    ///< of the sum
  SelectionTraits selection = {};
  /// Whether it is one of the steps in which a reused threshold is computed; empty: the mean over all steps.
  std::optional<bool> computes_threshold = {};
  codec::ListEstimate coding = {};  ///< of lists
  bool averages_senders = false;    ///< ReduceContext::averages_senders

  /// Returns the bytes of a list of that many entries of the bucket, and of its indices alone.
  double list_bytes(double entries) const { return coding.bytes(entries, static_cast<double>(numel)); }
  double index_bytes(double entries) const { return coding.index_bytes(entries, static_cast<double>(numel)); }
  /// Returns the bytes of that many values of a partial sum.
  double sum_bytes(double values) const { return coding.sum_bytes() * values; }
  /// Returns the bytes of P lists, one for each P-th of the bucket, that have this many entries together.
  double part_bytes(double entries) const {
    return ranks * coding.bytes(entries / ranks, static_cast<double>(numel) / ranks);
  }
};

/// The size of the sum if every rank selects its target number of entries (expected_sizes).
enum class SumSize {
  kUnion,    ///< every index that some rank selected
  kTarget,   ///< k entries at any number of ranks
  kOneRank,  ///< the selection of one rank
  kDense,    ///< all elements
};

/// The codes of values that a collective can send. What a lossy one leaves behind comes back to the rank that encoded.
enum class CodedValues {
  kLists,  ///< any code
  kSums,   ///< those that carry partial sums (ValueCodecEntry::carries_sums): there are no lists of values
};

/// The ranks that bring a value to an entry of the sum, as far as every rank can tell.
enum class Senders {
  kUnknown,  ///< any number of them
  kAll,
  kCounted,  ///< those that selected it: the collective counts them (ReduceContext::averages_senders)
};

/// A registered collective. Its `predict` and `memory` are the only statements of an exchange's cost.
struct SparseCollectiveEntry : RegistryEntry {
  static constexpr const char* kKind = "collective";
  /// Returns why the pair does not fit; empty if it does.
  std::function<std::string(const SelectionTraits&)> refuses;
  std::function<std::unique_ptr<SparseCollective>(const Settings&, std::size_t numel)> make;
  /// Returns the bytes, and the messages that follow one after the other, of an exchange of these sizes. Exact if every
  /// rank selects `selected` entries, and all regions or blocks hold equal shares.
  std::function<Prediction(const Settings&, const ExchangeSizes&)> predict;
  /// Returns the bytes that a rank holds for one bucket from step to step, messages and results included. @param device
  /// where messages and results are: the CPU unless the ranks have a DeviceTransport.
  std::function<std::size_t(const Settings&, const ExchangeSizes&, const Device& device)> memory;
  SumSize sum = SumSize::kUnion;
  /// The words of 4 bytes that a worker sends, mean over workers, when every worker selects k of n entries at P
  /// workers: `predict` as a formula, for `dragonn-train --list`. Factors stand side by side: "2 k (P-1) / P".
  std::string traffic = {};
  CodedValues codes = CodedValues::kSums;
  /// The rule for P' workers instead of P. kReshard: rank r loads the state of rank r modulo P.
  ResizeRule resize = {};
  /// Returns whether lists travel although all ranks select the same indices (SelectionTraits::shared_indices); null:
  /// never, only values do.
  std::function<bool(const Settings&)> lists_shared_indices = nullptr;
  /// Returns the entries of the sum on gradients of training, in shares of the size that `sum` states, between that
  /// many ranks; null: exactly that size.
  std::function<CountForecast(const Settings&, int ranks)> sum_forecast = nullptr;
  Senders senders = Senders::kUnknown;
  /// Returns whether values that left a rank can be missing in the sum and come back to no rank
  /// (ReductionStatistics::lost_mass); null: never.
  std::function<bool(const Settings&)> loses = nullptr;

  /// Returns whether indices of such a selection travel, so that their codec has an effect.
  bool sends_indices(const Settings& chosen, const SelectionTraits& selection) const {
    if (sum == SumSize::kDense) return false;
    return !selection.shared_indices || (lists_shared_indices && lists_shared_indices(chosen));
  }
  /// Returns whether values can travel in a code.
  bool sends(const codec::ValueCodecEntry& values) const {
    return !values.lossy || values.carries_sums || codes == CodedValues::kLists;
  }
};

/// Makes the collective `name`, which names itself in errors, for buckets of `numel` elements. @throws ConfigError if
/// it is unknown.
std::unique_ptr<SparseCollective> make_collective(const std::string& name, const Settings& settings, std::size_t numel);

/// Checks a pair. @param traits of the sparsifier `sparsifier`, with its settings applied.
/// @throws ConfigError if `collective` is unknown, or refuses such selections: with the reason and the collectives that
/// fit.
void check_pair(const SelectionTraits& traits, const std::string& sparsifier, const std::string& collective);

}  // namespace dragonn::comm
