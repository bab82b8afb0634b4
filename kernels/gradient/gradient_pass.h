// SPDX-License-Identifier: MIT
/// The gradient pass: one pass over (memory, gradient) accumulates and computes what the sparsifier needs next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/rng.h"
#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels {

/// Returns a slot in [0, slots): the high bits of a keyed mixer times the number of slots. Neighbouring indices, as
/// hits often are, spread as well as any others.
struct KeyedSlot {
  std::uint64_t salt = 0;
  std::size_t slots = 1;
  constexpr std::size_t operator()(std::uint32_t index) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(static_cast<Wide>(mix64(salt + index)) * slots >> 64);
  }
};

/// Returns a random key per index. The higher of two keys wins their slot, so that no index is favoured for its place.
struct SlotPriority {
  std::uint64_t salt = 0;
  /// Returns a key that no other index has.
  constexpr std::uint64_t operator()(std::uint32_t index) const { return mix64(mix64(salt) ^ index); }
};

/// The hash of hits, and the rule for several hits in one slot.
struct HashRule {
  KeyedSlot slot = {};
  bool by_priority = false;  ///< the higher of two random keys stays; otherwise the larger index
};

struct HashScratch;

/// A choice by a hash table, and its memory (kernels/gradient/hash_select.h). Without memory there is no choice.
struct HashChoice {
  HashRule rule = {};
  HashScratch* scratch = nullptr;
};

/// The request for what a pass computes besides the accumulated gradient acc.
struct PassRequest {
  enum class Kind {
    kNone,              ///< accumulate only
    kThreshold,         ///< entries with |acc| >= threshold and acc != 0 in [begin, end)
    kSampledThreshold,  ///< the same, with the threshold from `sample` of acc
    kMoments,           ///< moments of all of acc; `begin` and `end` are not used
  };
  Kind kind = Kind::kNone;
  float threshold = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  SamplePlan sample = {};  ///< used by kSampledThreshold
  HashChoice hash = {};    ///< the choice of a later hash_select, if any: the pass may hash entries as it finds them
  /// The host does not wait for a GPU's pass: the result is there after a wait and finish_pass(). No effect on the CPU.
  bool deferred = false;
  /// Whether revert_pass() can follow: the result keeps what the pass overwrites. 4 bytes more per element and array,
  /// and on the CPU no more sweeps over memory.
  bool revertible = false;
};

/// Returns whether a pass selects entries.
inline bool selects(const PassRequest& request) {
  return request.kind == PassRequest::Kind::kThreshold || request.kind == PassRequest::Kind::kSampledThreshold;
}

/// An array that a revertible pass has overwritten.
struct Overwritten {
  explicit Overwritten(const Device& device = {}) : before(0, device) {}

  View<float> place = {};  ///< empty: the pass had no such array, or is not revertible
  Buffer<float> before;    ///< its content before the pass
};

/// Results of a pass, reused from step to step.
struct PassResult {
  PassResult() = default;
  /// Makes results on `device`.
  explicit PassResult(const Device& device)
      : selected(device), sample(device), acc(device), state(device), report(std::size_t{0}, host_memory_for(device)) {}

  const Device& device() const { return selected.device(); }

  PassRequest request;
  bool non_finite = false;  ///< acc holds a NaN or an infinity: the gradient did, or the sum overflowed
  float threshold = 0;      ///< the threshold that was compared with, given or sampled
  SparseVector selected;    ///< for kThreshold and kSampledThreshold: ascending; NaN is never in it
  Moments moments;          ///< for kMoments
  SampleScratch sample;     ///< the sampled magnitudes, in the order of their places
  Overwritten acc, state;   ///< of a revertible pass

  const float* unfinished = nullptr;  ///< acc of a deferred pass that finish_pass() has not seen yet; else null
  Buffer<std::byte> report;           ///< page-locked memory that a GPU writes the outcome of a deferred pass to

  /// Makes room for selections of `numel` elements (kernels/gradient/select.h, reserve_selection).
  void reserve(std::size_t numel);
};

/// Error feedback: acc = decay * residual + scale * gradient.
struct ResidualRule {
  float scale = 1;
  float decay = 1;
};

/// Momentum correction with g = scale * gradient. Heavy ball: u = momentum * u + g, v = v + u. Nesterov: u = momentum *
/// (u + g), v = v + u + g.
struct MomentumRule {
  float scale = 1;
  float momentum = 0;
  bool nesterov = false;
};

/// Filters what the last exchange left of acc into a state: state = keep * state + take * acc; then acc = out * state +
/// scale * gradient, less an estimate of the gradient if there is one.
struct FilterRule {
  float scale = 1;
  float keep = 1;
  float take = 1;
  float out = 1;
};

// All passes: [n] float32 views of equal length on one device, which do not overlap. One sweep over memory; on the CPU
// OpenMP threads as omp_get_max_threads() says, and the result does not depend on their number, nor on the vector
// width. acc and what is selected have the same bits on every device; moments agree to rounding.
// @throws ShapeError if the lengths differ, DeviceError for memory of several devices, or of one without a row
// (kernels/gradient/gradient_pass_sweep.h).

/// Accumulates residual <- acc, in place. 12 bytes per element.
void accumulate_residual(const PassRequest& request, View<const float> gradient, const ResidualRule& rule,
                         View<float> residual, PassResult& result);

/// Updates u and v by momentum correction (arXiv:1712.01887, section 3.2); acc is v. 20 bytes per element.
void accumulate_momentum(const PassRequest& request, View<const float> gradient, const MomentumRule& rule,
                         View<float> u, View<float> v, PassResult& result);

/// Updates acc and state by the rule. @param estimate read only; empty: there is none. 20 bytes per element, 24 with an
/// estimate.
void accumulate_filtered(const PassRequest& request, View<const float> gradient, const FilterRule& rule,
                         View<const float> estimate, View<float> state, View<float> acc, PassResult& result);

/// Computes acc <- scale * gradient - estimate. 12 bytes per element.
void accumulate_difference(const PassRequest& request, View<const float> gradient, float scale,
                           View<const float> estimate, View<float> acc, PassResult& result);

/// Updates u = momentum * u + g with g = scale * gradient; acc <- u - estimate, Nesterov: momentum * u + g - estimate.
/// 20 bytes per element.
void accumulate_momentum_difference(const PassRequest& request, View<const float> gradient, const MomentumRule& rule,
                                    View<const float> estimate, View<float> u, View<float> acc, PassResult& result);

/// Computes acc <- scale * gradient. 8 bytes per element.
void accumulate_scaled(const PassRequest& request, View<const float> gradient, float scale, View<float> acc,
                       PassResult& result);

/// Runs the request on an existing acc. Reads 4 bytes per element, writes none.
void examine(const PassRequest& request, View<const float> acc, PassResult& result);

/// Finishes a deferred pass, whose acc has not changed, after the calling thread has waited for the device. So the
/// passes over several buckets take one wait. If a selection did not fit its memory, it is made again, with a wait.
/// Nothing to do if the pass was not deferred.
void finish_pass(PassResult& result);

/// Takes a revertible pass back: acc and the state have the bits that they had before. On a GPU the pass need not be
/// finished.
void revert_pass(PassResult& result);

/// Returns how many elements the passes over whole gradients (and samples of them) have read that this thread started
/// so far. Work on entries that were selected before does not count.
std::uint64_t swept_elements();
/// Counts a pass. Every pass calls it once, on the thread that starts it: returning counts instead would pass through
/// the interface of every sparsifier and memory.
void count_swept(std::size_t elements);

}  // namespace dragonn::kernels
