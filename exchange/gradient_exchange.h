// SPDX-License-Identifier: MIT
/// GradientExchange: compensate, select, exchange, settle, in two phases. The one place where compress and comm meet.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/archive.h"
#include "core/timer.h"
#include "exchange/bucket_form.h"
#include "exchange/bucket_sum.h"
#include "exchange/buckets.h"
#include "exchange/exchange_rules.h"
#include "exchange/resize.h"
#include "exchange/run_part.h"

namespace dragonn::exchange {

/// The schedules' values for one step.
struct ExchangeStep {
  std::uint64_t step = 0;                    ///< of the run, from 0: for errors
  double density = 1.0;                      ///< target, in (0, 1]
  double learning_rate = 0.0;                ///< used by the folded accumulator
  double rate_share = 1.0;                   ///< of the base rate (compress::Settlement::rate_share)
  float gradient_scale = 1.0f;               ///< local clipping
  View<float> accumulated = {};              ///< [dump_size()]: receives acc, before select; empty: not wanted
  std::span<const std::size_t> groups = {};  ///< to be exchanged, ascending, the same on every rank; empty: all
  bool aligned = false;  ///< all ranks begin to exchange at the same time, so that none times another's work
  /// Whether revert() can follow: the memories keep what a pass changes of them, as many bytes once more.
  bool revertible = false;
  /// Views of each bucket's gradient until commit() or revert(); empty: it is at its place in the whole gradient, as
  /// all are without this list. A view that a gate may still change is read when it has let the bucket's group pass.
  std::span<const View<const float>> gradients = {};
};

/// A gate between backward and exchange. It is asked before each group of buckets, in their order, and told after.
class GroupGate {
 public:
  virtual ~GroupGate() = default;
  /// Waits until the group's gradient is final. @throws the error that kept it from becoming so.
  virtual void open(std::size_t group) = 0;
  /// Learns that the group is exchanged, on a GPU too.
  virtual void close(std::size_t group) = 0;
};

class NodeSums;  // exchange/node_sums.h

/// Counts of one exchange over the sparsified buckets of this rank; the counts per rank are known on every rank.
struct ExchangeCounts {
  std::size_t numel = 0;                ///< elements of the buckets that were to be sparsified
  double target = 0;                    ///< requested entries of a rank, mean over ranks (see count)
  std::vector<std::uint64_t> selected;  ///< by rank, or with two levels by node
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
///
/// An exchange has two phases: run(), then commit(), abandon() or revert(). run() adds the gradient to the memories and
/// sums what the ranks select; nothing leaves a memory before commit(). So the ranks can agree on a step before it
/// counts, and an exchange that failed, or on which they do not agree, loses nothing. The steps that methods count (a
/// leader, periods, keys of random streams) are a bucket's committed exchanges.
///
/// With two levels (ExchangeRules::nodes) a rank owns memory and form only of the buckets that it has in its node
/// (exchange/node_sums.h). What is said of ranks below then is true of nodes, whose gradient is the mean over their
/// workers.
class GradientExchange {
 public:
  /// Takes an arena that must outlive the exchange. @throws ConfigError (see check_rules).
  GradientExchange(const ExchangeRules& rules, const ParameterArena& arena, comm::Communicator& communicator);
  ~GradientExchange();

  /// Restricts sparsification from now on to the buckets of `choices`; the others are exchanged dense with the same
  /// memory. One choice for each density below 1 that will come, the same on every rank.
  void restrict_to(std::vector<BucketChoice> choices) { choices_ = std::move(choices); }
  /// Exchanges the buckets in these groups and in their order from now on, the same on every rank. Each bucket is in
  /// one group. The bits do not depend on it.
  void regroup(std::vector<BucketGroup> groups);

  /// Collective. Sends this rank's gradient ([arena.size()], unchanged until commit() or abandon()) through the buckets
  /// of the step's groups. Returns their sums, in the order of the groups, valid from commit() until the next run(): a
  /// memory turns what was exchanged into what the optimizer takes (compress::Memory::to_gradient). The order of the
  /// buckets is the same with and without a gate, through which each group passes if there is one.
  /// A bucket whose acc is not finite on this rank takes part, with nothing selected (see non_finite_bucket).
  /// @throws CommError; what the gate throws. abandon() then keeps the gradient.
  std::span<const BucketSum> run(const ExchangeStep& step, View<const float> gradient, StepTimers& timers,
                                 GroupGate* gate = nullptr);
  /// Settles the memories of the exchanged buckets, and lets sparsifiers observe. On all ranks or on none; local, but
  /// with two levels collective in the node, where sums and counts are shared out.
  void commit(StepTimers& timers);
  /// Local, on all ranks or on none. Gives up the exchange, also one that threw: the residual of its buckets becomes
  /// acc, which the next exchange sends. The gradient, final by now, is added where run() did not come to. With
  /// momentum correction u and v stay as accumulated: u = m u + g, v = v + u, nothing masked. Memory `none`, that of
  /// dense buckets, too, and `ef21` drop the step. Where acc held NaN or infinity, the residual does. A collective's
  /// own state (thresholds, regions), the same on all ranks, stays as it was computed. With two levels a gradient that
  /// run() has not handed over in the node is dropped. Does nothing if no exchange is open.
  void abandon();
  /// Local, on all ranks or on none. Takes back a revertible exchange, also one that threw: memories and methods are as
  /// before run(). Does nothing if no exchange is open.
  void revert();

  /// The first bucket whose acc held NaN or infinity on this rank in the last run. The ranks must agree on it before
  /// they commit: the sums may have no meaning then.
  std::optional<std::size_t> non_finite_bucket() const { return non_finite_bucket_; }

  /// Returns the counts of the last exchange that was committed.
  const ExchangeCounts& counts() const { return counts_; }
  /// Returns the elements that ExchangeStep::accumulated receives: this rank's sparsified buckets one after the other,
  /// or all of its buckets if nothing is sparsified.
  std::size_t dump_size() const;
  /// Returns the norm of all residuals of this rank. O(n).
  double residual_norm() const;
  /// Returns the sum of all residuals of this rank, and that of their magnitudes. O(n).
  std::pair<double, double> residual_mass() const;
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<BucketGroup>& groups() const { return groups_; }
  /// Returns whether this rank keeps the state of a bucket: always, but for two levels.
  bool has(std::size_t bucket) const { return states_[bucket].is_mine(); }
  /// Returns the number of terms of a sum: ranks, or with two levels nodes.
  int terms() const { return static_cast<int>(counts_.selected.size()); }
  /// Returns the nodes of the ranks; each rank has one of its own where the exchange has one level.
  comm::Nodes nodes() const;
  /// Returns the tensors in buckets that are sparsified at this density.
  std::size_t sparse_tensors(double density) const;
  /// Returns the memory of one of this rank's buckets, with its residual ([size], or empty).
  const compress::Memory& memory(std::size_t bucket) const { return *states_[bucket].memory; }
  /// Returns, for tests, a bucket's last exchanged sum, in the memory of messages, or where a quantizer decoded it.
  const comm::SparseReduction& reduction(std::size_t bucket) const { return states_[bucket].reduction; }

  /// Saves the state of this rank. Not between run() and commit() or abandon().
  void save(Archive& archive) const;
  /// Restores such a state, of the same nodes.
  void load(const Archive& archive);
  /// Saves what says how state is shared out among the ranks: the nodes, if there are two levels.
  void save_shared(Archive& model) const;
  /// Local. Takes over state that a rank of another number of workers saved, by the rules that the parts declare;
  /// called on a fresh exchange, once for each rank whose state this rank takes. @throws ConfigError (see reshards).
  /// Takes nothing of a bucket that the archive lacks, because another rank of its node had it.
  void reshard_from(const Archive& archive, const ReshardedParts& what);
  /// Returns whose state this rank takes over from a group on these nodes.
  std::vector<RankToTake> ranks_to_take(const comm::Nodes& saved) const;
  /// Returns whether a field that save() writes belongs to a memory of this rank alone, which reshard_from() takes with
  /// ReshardedParts::memories only.
  bool is_residual(const std::string& field) const { return bucket_of_residual(field).has_value(); }
  /// Returns the bucket of such a field; none for any other field.
  std::optional<std::size_t> bucket_of_residual(const std::string& field) const;
  /// Adds such fields, of another rank of a group as large as any, to this rank's memories (compress::Memory::add).
  void add_residuals(const Archive& archive);
  /// Returns these rules for a log line: "memory 'residual' is added up, ...", one for each part that has state.
  std::vector<std::string> describe_resharding() const;

 private:
  /// The state of one bucket.
  struct BucketState {
    /// @param sums the place of the exchange's sums.
    BucketState(const Device& gradients, const MemoryPlace& sums) : reduction(sums), staging(gradients) {}
    bool is_mine() const { return memory != nullptr; }

    std::unique_ptr<compress::Memory> memory;
    std::unique_ptr<BucketForm> dense;
    std::unique_ptr<BucketForm> compressed;  // null: always dense
    comm::SparseReduction reduction;
    OutcomeStaging staging;
    BucketSum sum;
    std::size_t dump_offset = 0;  // of this bucket in ExchangeStep::accumulated
    std::uint64_t exchanges = 0;  // committed ones: the step that methods count

    // The fields below are of the current exchange.
    bool is_handed_over = false;  // the gradient is that of the node; always so with one level
    bool holds_gradient = false;  // the memory has the gradient
    Archive method_before;        // what run() changes of the method's state, of a revertible exchange
    BucketForm* form = nullptr;
    compress::SelectContext select;
    comm::ReduceContext reduce;
    kernels::PassResult* pass = nullptr;
    bool selects_in_pass = false;
    const comm::SparseReduction* outcome = nullptr;  // the reduction where gradients live
  };

  void make_state(const Bucket& bucket, const MemoryPlace& messages);
  void save_bucket(Archive& archive, std::size_t index) const;
  void load_bucket(const Archive& archive, std::size_t index);
  const compress::MemoryEntry& memory_of(const Bucket& bucket) const;
  /// Reads the number of exchanges of a bucket. @throws ConfigError if the archive does not have this bucket.
  void load_place(const Archive& archive, std::size_t index);
  std::span<BucketState> states_of(const BucketGroup& group) {
    return std::span(states_).subspan(group.begin, group.end - group.begin);
  }
  void hand_over(const BucketGroup& group, StepTimers& timers);
  void share_out(StepTimers& timers);
  void share_counts();
  void run_group(const BucketGroup& group, StepTimers& timers);
  void begin(std::size_t index);
  /// Returns the factor on a bucket's gradient.
  float scale_of(const BucketState& state) const;
  /// Returns the gradient of a bucket that this rank has: its own, or the node's.
  View<const float> gradient_of(std::size_t index) const;
  View<const float> own_gradient_of(std::size_t index) const;
  std::vector<View<const float>> own_gradients_of(const BucketGroup& group) const;
  void compensate(std::size_t index, StepTimers& timers);
  /// Finishes the passes of all buckets of a group, with one wait for a GPU.
  void finish_passes(const BucketGroup& group);
  /// Collective. Sends rank 0's proposals to all ranks, if sparsifiers have some.
  void share_proposals(const BucketGroup& group);
  void select(std::size_t index, StepTimers& timers);
  void exchange(const BucketGroup& group, StepTimers& timers);
  void settle(std::size_t index, BucketSum& sum, StepTimers& timers);
  bool is_dumped(std::size_t index) const {
    return states_[index].is_mine() && (buckets_[index].sparse || !any_sparse_);
  }
  bool is_sparse(std::size_t index, double density) const;
  /// Counts a bucket. Every rank is asked for k entries, or all together are if they share the bucket (partitions, a
  /// leader).
  void count(const BucketState& state, const Bucket& bucket, std::size_t k, std::size_t global);
  /// The thresholds of the buckets that have one.
  struct Thresholds {
    float sum = 0;
    std::size_t number = 0;
    float mean() const {
      return number == 0 ? std::numeric_limits<float>::quiet_NaN() : sum / static_cast<float>(number);
    }
  };
  /// Called when a GPU's work is done: to ask some methods waits for it.
  Thresholds thresholds() const;

  ExchangeRules rules_;
  Device device_;
  PartTimes times_;
  SelectionTraits selection_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<NodeSums> node_sums_;  // null with one level
  comm::Communicator& communicator_;     // of those that send to each other
  std::vector<BucketChoice> choices_;    // empty: all buckets that may be sparsified are
  std::vector<BucketState> states_;
  std::vector<BucketGroup> groups_;
  std::unique_ptr<comm::ListTransport> transport_;
  std::vector<comm::Rounds> rounds_;  // of a group, as are the proposals and their buckets
  std::vector<float> proposals_;
  std::vector<BucketState*> proposing_;
  bool any_sparse_ = false;  // some bucket has a sparsifier
  // The current exchange, or the last one.
  bool is_open_ = false;  // neither committed nor abandoned
  ExchangeStep step_;
  View<const float> gradient_;
  std::vector<std::size_t> chosen_;     // its buckets
  std::vector<std::size_t> exchanged_;  // those of them that are this rank's
  std::vector<BucketSum> sums_;
  std::optional<std::size_t> non_finite_bucket_;
  ExchangeCounts counts_;
};

}  // namespace dragonn::exchange
