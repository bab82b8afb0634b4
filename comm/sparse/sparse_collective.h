// SPDX-License-Identifier: MIT
/// SparseCollective: sums the ranks' selected entries of one bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codec/value_codec.h"
#include "comm/communicator.h"
#include "comm/prediction.h"
#include "comm/sparse/list_operations.h"
#include "comm/sparse/list_transport.h"
#include "core/archive.h"
#include "core/registry.h"
#include "core/selection_traits.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

/// What all ranks know about this exchange of this bucket.
struct ReduceContext {
  std::uint64_t step = 0;  ///< from 0
  std::size_t k = 0;       ///< target entries per rank
  double density = 1.0;    ///< target
  /// There is no acc, and nobody looks at the outcome: for measuring traffic of clusters that are too large to be held
  /// in full. What is as large as the bucket, or the lists of all ranks together, travels as a size alone
  /// (ScopedHollow); the sum has its number of entries where the method knows it, without content, and nothing is
  /// contributed.
  bool payload_only = false;
  /// All of acc, where it travels in a code (SparseCollectiveEntry::sums_codes); else there is none.
  codec::Code code = {};
  /// Of the sparsifier: collectives send less where the size or the indices of all selections are known.
  SelectionTraits selection = {};
};

/// What one exchange says of itself, beside its result.
struct ReductionStatistics {
  /// Entries selected by each rank.
  std::vector<std::uint64_t> selected_counts;
  /// Entries of the sum that each rank brings, where ranks share the bucket among them (owners of regions, partitions);
  /// empty elsewhere.
  std::vector<std::uint64_t> owned_counts;
  /// Metric of methods that lose gradient mass by definition: sum over indices of |what left the ranks - what is in the
  /// sum|. NaN elsewhere.
  double lost_mass = std::numeric_limits<double>::quiet_NaN();
  /// Local time, without messages, that went into adding up what came.
  double decode_seconds = 0;
};

/// The result of one exchange on one rank. Buffers are reused from step to step.
struct SparseReduction {
  SparseReduction() = default;
  /// With buffers in memory of `place`; else they are host memory, where messages are.
  explicit SparseReduction(const MemoryPlace& place)
      : sum(place), dense_sum(0, place), contributed(0, place), applied(0, place), returned(place) {}

  /// Sum over ranks. Ascending unique indices, same bytes on every rank. Unused when `is_dense`.
  SparseVector sum;
  /// Sum over ranks as n floats, where the collective decodes by itself (dense allreduce, dense decoding).
  Buffer<float> dense_sum;
  bool is_dense = false;
  /// Entries of this rank's acc that left it (C_w of the specification); all of them if `contributed_all`.
  Buffer<std::uint32_t> contributed;
  bool contributed_all = false;
  /// The contributed entries that are in the sum too, where those are not all (`is_partly_applied`): momentum
  /// masking stops at them.
  Buffer<std::uint32_t> applied;
  bool is_partly_applied = false;
  /// Mass handed back to this rank's residual (dropped in a merge tree).
  SparseVector returned;
  ReductionStatistics statistics;

  /// Where momentum is masked.
  View<const std::uint32_t> masked() const { return is_partly_applied ? applied.view() : contributed.view(); }
  /// Empties everything and makes room for `ranks` counts.
  void reset(int ranks);
};

/// One object per bucket: some methods keep state. Knows nothing of sparsifiers. Made by make_collective
/// (comm/sparse/registry.h), run by reduce().
class SparseCollective : public RoundsOwner {
 public:
  virtual ~SparseCollective() = default;

  /// The rounds of one exchange. `acc` is this rank's accumulated gradient (n elements, on any device), `selected` its
  /// choice, where lists live (ListTransport), as is what `out` receives.
  Rounds rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                const SparseVector& selected, SparseReduction& out) {
    Rounds rounds = do_rounds(communicator, context, acc, selected, out);
    rounds.set_name(name_);
    return rounds;
  }

  /// The registered name, for errors. A text that lasts.
  void set_name(const char* name) { name_ = name; }
  /// State that outlives a step, below `prefix`. Most have none.
  virtual void save(Archive&, const std::string& /*prefix*/) const {}
  virtual void load(const Archive&, const std::string& /*prefix*/) {}

 protected:
  virtual Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                           const SparseVector& selected, SparseReduction& out) = 0;

  /// For buckets of `numel` elements whose lists live on `device`: made by the first call.
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

/// Sums what all ranks selected, of several buckets in one exchange. The buckets' collectives are of one kind, with the
/// same settings. Keeps its buffers from step to step.
class GroupReduce {
 public:
  /// The communicator must outlive it; lists live where its DeviceTransport says, else in host memory.
  /// @param codec of lists. @throws ConfigError if it does not go with where they live (make_list_transport).
  explicit GroupReduce(Communicator& communicator, const std::string& codec = codec::kRawCodec)
      : transport_(make_list_transport(communicator, codec)) {}

  /// Collective. @param parts the same buckets in the same order on all ranks; none is fine. What each gets is, bit for
  /// bit, what it would get alone.
  /// @throws CommError that names the collective (see Communicator).
  void run(std::span<const ReducePart> parts);
  void run(const ReducePart& part) { run(std::span(&part, 1)); }
  ListTransport& transport() { return *transport_; }

 private:
  std::unique_ptr<ListTransport> transport_;
  std::vector<Rounds> rounds_;
};

/// An exchange as it was made, or is expected to be: entries by rank and of the sum.
struct ExchangeSizes {
  std::size_t numel = 0;
  std::size_t k = 0;  ///< target entries per rank
  int ranks = 1;
  double selected = 0;         ///< by a rank, mean
  double largest = 0;          ///< by a rank, maximum
  double global = 0;           ///< of the sum
  std::size_t code_bytes = 0;  ///< of a rank's code, where all of acc travels in one: entries then do not count
  SelectionTraits selection = {};
  bool computes_threshold = false;  ///< one of the steps in which a reused threshold is computed
};

/// What the sum holds where every rank selects as many entries as it is asked for (expected_sizes).
enum class SumSize {
  kUnion,   ///< every index that some rank selected
  kTarget,  ///< k entries at any number of ranks
  kDense,   ///< all elements
};

/// What an exchange costs is stated here and nowhere else: by `predict` and `memory`.
struct SparseCollectiveEntry : RegistryEntry {
  static constexpr const char* kKind = "collective";
  /// Empty if the pair is fine, otherwise why not.
  std::function<std::string(const SelectionTraits&)> refuses;
  std::function<std::unique_ptr<SparseCollective>(const Settings&, std::size_t numel)> make;
  /// Bytes, and the messages that follow one after the other, of an exchange of these sizes. Exact where every rank
  /// selects `selected` entries, and all regions or blocks hold equal shares.
  std::function<Prediction(const Settings&, const ExchangeSizes&)> predict;
  /// Bytes that a rank holds for one bucket from step to step, messages and results included. @param device where
  /// messages and results live: the CPU unless the ranks have a DeviceTransport.
  std::function<std::size_t(const Settings&, const ExchangeSizes&, const Device& device)> memory;
  SumSize sum = SumSize::kUnion;
  /// Words of 4 bytes that a worker sends, mean over workers, when every worker selects k of n entries at P workers:
  /// `predict` as a formula, for `dragonn-train --list`. Factors stand side by side: "2 k (P-1) / P".
  std::string traffic = {};
  bool sums_codes = false;  ///< takes ReduceContext::code in place of a selection
};

}  // namespace dragonn::comm
