// SPDX-License-Identifier: MIT
/// GradientExchange: compensate, select, exchange, settle. The one place where compress and comm meet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/timer.h"
#include "exchange/bucket_form.h"
#include "exchange/buckets.h"
#include "exchange/exchange_rules.h"
#include "exchange/exchange_staging.h"
#include "exchange/resize.h"
#include "exchange/run_verb.h"
#include "optim/optimizer.h"

namespace dragonn::exchange {

/// The schedules' values for one step.
struct ExchangeStep {
  std::uint64_t step = 0;
  double density = 1.0;          ///< target, in (0, 1]
  double learning_rate = 0.0;    ///< used by the folded accumulator
  float gradient_scale = 1.0f;   ///< local clipping
  View<float> accumulated = {};  ///< [dump_size()]: receives acc, before select; empty: not wanted
  bool aligned = false;          ///< all ranks begin to exchange at the same time, so that none times another's work
};

/// A gate between backward and exchange. It is asked before each group of buckets, in ascending order, and told after.
class GroupGate {
 public:
  virtual ~GroupGate() = default;
  /// Waits until the group's gradient is final. @throws the error that kept it from becoming so.
  virtual void open(std::size_t group) = 0;
  /// Learns that the group is settled, on a GPU too.
  virtual void close(std::size_t group) = 0;
};

/// Counts of one step over the sparsified buckets of this rank; the counts per rank are known on every rank.
struct ExchangeCounts {
  std::size_t numel = 0;                ///< elements of the buckets that were to be sparsified in this step
  double target = 0;                    ///< requested entries of a rank, mean over ranks (see count)
  std::vector<std::uint64_t> selected;  ///< by rank
  std::uint64_t global = 0;             ///< entries of the exchanged sums
  float threshold = 0;                  ///< mean over the buckets whose sparsifier has one, else NaN
  double lost_mass = 0;                 ///< sum over the buckets whose collective loses some by definition, else NaN
  /// The number of entries of all ranks, if every bucket's lists were as long as its longest.
  std::uint64_t padded = 0;
  /// The number of entries that the ranks bring to the sums if they share a bucket among them; and the same as
  /// `padded`.
  std::uint64_t owned = 0, owned_padded = 0;
  comm::ListCounts lists = {};  ///< of this rank's messages
};

/// Owns memory and form of every bucket of one rank. Every bucket has its own selection and state; the selections of a
/// group's buckets are sent in one exchange.
class GradientExchange {
 public:
  /// Takes an arena that must outlive the exchange. @throws ConfigError (see check_rules).
  GradientExchange(const ExchangeRules& rules, const ParameterArena& arena, comm::Communicator& communicator);

  /// Restricts sparsification from now on to the buckets of `choices`; the others are exchanged dense with the same
  /// memory. One choice for each density below 1 that will come, the same on every rank.
  void restrict_to(std::vector<BucketChoice> choices) { choices_ = std::move(choices); }

  /// Collective. Sends this rank's gradient ([arena.size()]) through all buckets; afterwards the sums are held for
  /// apply(). The order of the buckets is the same with and without a gate, through which each passes if there is one.
  /// A bucket whose acc is not finite on this rank takes part, with nothing selected (see non_finite_bucket).
  /// @throws what the gate throws.
  void run(const ExchangeStep& step, View<const float> gradient, StepTimers& timers, GroupGate* gate = nullptr);

  /// Returns the Euclidean norm of the mean gradient, over all buckets, in double: for clipping the aggregated
  /// gradient.
  double mean_gradient_norm() const;
  /// Feeds the sums to the optimizer, as means over the ranks times `scale`.
  void apply(optim::Optimizer& optimizer, float scale, StepTimers& timers);

  /// The first bucket whose acc held NaN or infinity on this rank in the last run. The ranks must agree on it before
  /// they use the sums, which may have no meaning then.
  std::optional<std::size_t> non_finite_bucket() const { return non_finite_bucket_; }

  const ExchangeCounts& counts() const { return counts_; }
  /// Returns the elements that ExchangeStep::accumulated receives: the sparsified buckets one after the other, or all
  /// buckets if nothing is sparsified.
  std::size_t dump_size() const;
  /// Returns the norm of all residuals of this rank. O(n).
  double residual_norm() const;
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<BucketGroup>& groups() const { return groups_; }
  /// Returns the tensors in buckets that are sparsified at this density.
  std::size_t sparse_tensors(double density) const;
  /// Returns the memory of a bucket, with its residual ([size], or empty).
  const compress::Memory& memory(std::size_t bucket) const { return *states_[bucket].memory; }
  /// Returns, for tests, a bucket's last exchanged sum, in the memory of messages, or where a quantizer decoded it.
  const comm::SparseReduction& reduction(std::size_t bucket) const { return states_[bucket].reduction; }

  void save(Archive& archive) const;
  void load(const Archive& archive);
  /// Local. Takes over state that a rank of another number of workers saved, by the rules that the parts declare;
  /// called on a fresh exchange, once for each rank whose state this rank takes. @throws ConfigError (see reshards).
  void reshard_from(const Archive& archive, const ReshardedParts& what);
  /// Returns these rules for a log line: "memory 'residual' is added up, ...", one for each part that has state.
  std::vector<std::string> describe_resharding() const;

 private:
  /// The state of one bucket.
  struct BucketState {
    /// @param sums the place of the exchange's sums.
    BucketState(const Device& gradients, const MemoryPlace& sums) : reduction(sums), staging(gradients) {}

    std::unique_ptr<compress::Memory> memory;
    std::unique_ptr<BucketForm> dense;
    std::unique_ptr<BucketForm> compressed;  // null: always dense
    comm::SparseReduction reduction;
    OutcomeStaging staging;
    optim::Slice slice;
    std::size_t dump_offset = 0;  // of this bucket in ExchangeStep::accumulated

    // The fields below are of the current step.
    BucketForm* form = nullptr;
    compress::SelectContext select;
    comm::ReduceContext reduce;
    kernels::PassResult* pass = nullptr;
    bool selects_in_pass = false;
    const comm::SparseReduction* outcome = nullptr;  // the reduction where gradients live
  };

  void make_state(const Bucket& bucket, const MemoryPlace& messages);
  const compress::MemoryEntry& memory_of(const Bucket& bucket) const;
  /// Checks that the archive has this bucket. @throws ConfigError.
  void require_bucket(const Archive& archive, std::size_t index) const;
  void run_group(const BucketGroup& group, const ExchangeStep& step, View<const float> gradient, StepTimers& timers);
  void begin(std::size_t index, const ExchangeStep& step);
  void compensate(std::size_t index, const ExchangeStep& step, View<const float> gradient, StepTimers& timers);
  /// Finishes the passes of all buckets of a group, with one wait for a GPU.
  void finish_passes(const BucketGroup& group);
  /// Collective. Sends rank 0's proposals to all ranks, if sparsifiers have some.
  void share_proposals(const BucketGroup& group);
  void select(std::size_t index, StepTimers& timers);
  void exchange(const BucketGroup& group, StepTimers& timers);
  void settle(std::size_t index, const ExchangeStep& step, StepTimers& timers);
  bool is_dumped(const Bucket& bucket) const { return bucket.sparse || !any_sparse_; }
  bool is_sparse(std::size_t index, double density) const;
  /// Counts a bucket. Every rank is asked for k entries, or all together are if they share the bucket (partitions, a
  /// leader).
  void count(const BucketState& state, const Bucket& bucket, std::size_t k);
  /// Returns the mean threshold of the buckets that have one, NaN if none has. Called when a GPU's work is done: to ask
  /// some methods waits for it.
  float mean_threshold() const;

  ExchangeRules rules_;
  comm::Communicator& communicator_;
  Device device_;
  VerbTimes times_;
  SelectionTraits selection_;
  std::vector<Bucket> buckets_;
  std::vector<BucketChoice> choices_;  // empty: all buckets that may be sparsified are
  std::vector<BucketState> states_;
  std::vector<BucketGroup> groups_;
  std::unique_ptr<comm::ListTransport> transport_;
  std::vector<comm::Rounds> rounds_;  // of a group, as are the proposals and their buckets
  std::vector<float> proposals_;
  std::vector<BucketState*> proposing_;
  bool any_sparse_ = false;  // some bucket has a sparsifier
  std::optional<std::size_t> non_finite_bucket_;
  ExchangeCounts counts_;
};

}  // namespace dragonn::exchange
