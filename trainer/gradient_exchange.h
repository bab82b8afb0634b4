// SPDX-License-Identifier: MIT
/// GradientExchange: compensate, select, exchange, settle. The one place where compress and comm meet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/sparse/sparse_collective.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/timer.h"
#include "optim/optimizer.h"
#include "trainer/buckets.h"
#include "trainer/component.h"
#include "trainer/exchange_staging.h"
#include "trainer/quantized_exchange.h"

namespace dragonn::trainer {

/// How gradients travel. Names are resolved in the registries; the parts must fit (check_rules below).
struct ExchangeRules {
  BucketRules buckets;
  Component sparsifier;             ///< unused without compression and with a quantizer
  Component quantizer{"none", {}};  ///< unless "none": buckets are quantized, not sparsified, at any density
  Component collective;
  Component memory;
  Component dense;     ///< the collective of dense buckets and of dense phases
  float momentum = 0;  ///< the optimizer's, for memories that own it
  bool nesterov = false;
  bool folded = false;             ///< lr-folded accumulator: acc = residual + learning_rate * gradient
  bool bypass_density_one = true;  ///< exchange dense where k reaches n, instead of running the sparsifier
  std::uint64_t seed = 1;

  bool quantizes() const { return buckets.compress && quantizer.name != "none"; }
};

/// What the schedules say of one step.
struct ExchangeStep {
  std::uint64_t step = 0;
  double density = 1.0;          ///< target, in (0, 1]
  double learning_rate = 0.0;    ///< used by the folded accumulator
  float gradient_scale = 1.0f;   ///< local clipping
  View<float> accumulated = {};  ///< [dump_size()]: receives acc, before select; empty: not wanted
  bool aligned = false;          ///< all ranks begin to exchange at the same time, so that none times another's work
};

/// Where the gradient becomes final while it is exchanged: asked before each bucket, in ascending order, and told
/// after.
class BucketGate {
 public:
  virtual ~BucketGate() = default;
  /// Returns when the bucket's gradient is final. @throws what kept it from becoming so.
  virtual void open(std::size_t bucket) = 0;
  /// The bucket is settled.
  virtual void close(std::size_t bucket) = 0;
};

/// Counts of one step over the sparsified buckets of this rank; the counts per rank are known on every rank.
struct ExchangeCounts {
  std::size_t numel = 0;                ///< elements of the buckets that were to be sparsified in this step
  double target = 0;                    ///< entries that a rank is asked for, mean over ranks (see count)
  std::vector<std::uint64_t> selected;  ///< by rank
  std::uint64_t global = 0;             ///< entries of the exchanged sums
  float threshold = 0;                  ///< mean over the buckets whose sparsifier has one, else NaN
  double lost_mass = 0;                 ///< sum over the buckets whose collective loses some by definition, else NaN
  /// Of all ranks, if every bucket's lists were as long as its longest.
  std::uint64_t padded = 0;
  /// Entries that the ranks bring to the sums where they share a bucket among them; and as `padded`.
  std::uint64_t owned = 0, owned_padded = 0;
};

/// What collectives know of a sparsifier with these settings.
comm::SelectionTraits selection_traits(const Component& sparsifier);

/// Refuses a sparsifier or quantizer, a memory and a collective that do not fit together. @throws ConfigError listing
/// what fits.
void check_rules(const ExchangeRules& rules);

/// Owns memory, sparsifier and collective, or quantizer, of every bucket of one rank.
class GradientExchange {
 public:
  /// The arena must outlive the exchange. @throws ConfigError (see check_rules).
  GradientExchange(const ExchangeRules& rules, const ParameterArena& arena, comm::Communicator& communicator);

  /// From now on buckets are sparsified only as `choices` say, the others exchanged dense with the same memory. One
  /// choice for each density below 1 that will come, the same on every rank.
  void restrict_to(std::vector<BucketChoice> choices) { choices_ = std::move(choices); }

  /// Collective. Sends this rank's gradient ([arena.size()]) through all buckets; afterwards the sums are held for
  /// apply(). The order of the buckets is the same with and without a gate, through which each passes if there is one.
  /// A bucket whose acc is not finite on this rank takes part, with nothing selected (see non_finite_bucket).
  /// @throws what the gate throws.
  void run(const ExchangeStep& step, View<const float> gradient, StepTimers& timers, BucketGate* gate = nullptr);

  /// Euclidean norm of the mean gradient, over all buckets, in double: for clipping the aggregated gradient.
  double mean_gradient_norm() const;
  /// Feeds the sums to the optimizer, as means over the ranks times `scale`.
  void apply(optim::Optimizer& optimizer, float scale, StepTimers& timers);

  /// The first bucket whose acc held NaN or infinity on this rank in the last run. The ranks are to agree on it before
  /// they use the sums, which may have no meaning then.
  std::optional<std::size_t> non_finite_bucket() const { return non_finite_bucket_; }

  const ExchangeCounts& counts() const { return counts_; }
  /// Elements that ExchangeStep::accumulated receives: the sparsified buckets one behind the other, or all buckets
  /// where nothing is sparsified.
  std::size_t dump_size() const;
  /// Of all residuals of this rank. O(n).
  double residual_norm() const;
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Tensors in buckets that are sparsified at this density.
  std::size_t sparse_tensors(double density) const;
  /// For tests: the residual of a bucket ([size], or empty) and its last exchanged sum, where messages
  /// live, or where a quantizer decoded it.
  const compress::Memory& memory(std::size_t bucket) const { return *lanes_[bucket].memory; }
  const comm::SparseReduction& reduction(std::size_t bucket) const { return lanes_[bucket].reduction; }

  void save(Archive& archive) const;
  void load(const Archive& archive);

 private:
  /// What one bucket passes through.
  struct Lane {
    /// @param messages where they, and so what they bring, live: host memory, or where gradients do.
    Lane(const Device& gradients, const MemoryPlace& messages)
        : selected(gradients), reduction(messages), staging(gradients, messages) {}

    std::unique_ptr<compress::Memory> memory;
    std::unique_ptr<compress::Sparsifier> sparsifier;    // null: dense or quantized
    std::unique_ptr<comm::SparseCollective> collective;  // null: dense or quantized
    std::unique_ptr<QuantizedExchange> quantized;        // null: dense or sparse
    std::unique_ptr<comm::SparseCollective> dense;
    SparseVector selected;
    comm::SparseReduction reduction;
    ExchangeStaging staging;
    const comm::SparseReduction* outcome = nullptr;  // the reduction where gradients live
    optim::Slice slice;
    std::size_t dump_offset = 0;  // of this bucket in ExchangeStep::accumulated
  };

  void run_lane(std::size_t index, const ExchangeStep& step, View<const float> gradient, StepTimers& timers);
  /// Collective: rank 0's proposal to all, where the sparsifier has one.
  void agree(compress::Sparsifier& sparsifier, const compress::SelectContext& context, View<const float> acc);
  bool is_dumped(const Bucket& bucket) const { return bucket.sparse || !any_sparse_; }
  bool is_sparse(std::size_t index, double density) const;
  void exchange_dense(Lane& lane, const comm::ReduceContext& context, StepTimers& timers);
  void select(Lane& lane, const compress::SelectContext& context, const kernels::PassResult& pass);
  void exchange_selected(Lane& lane, const comm::ReduceContext& context, StepTimers& timers);
  /// Every rank is asked for k entries, or all together are, where they share the bucket (partitions, a leader).
  void count(const Lane& lane, const Bucket& bucket, std::size_t k);

  ExchangeRules rules_;
  comm::Communicator& communicator_;
  Device device_;
  comm::SelectionTraits selection_;
  std::vector<Bucket> buckets_;
  std::vector<BucketChoice> choices_;  // empty: all buckets that may be sparsified are
  std::vector<Lane> lanes_;
  bool any_sparse_ = false;  // some bucket has a sparsifier
  std::optional<std::size_t> non_finite_bucket_;
  ExchangeCounts counts_;
  std::size_t thresholds_seen_ = 0;
};

}  // namespace dragonn::trainer
