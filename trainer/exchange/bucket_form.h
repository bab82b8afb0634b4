// SPDX-License-Identifier: MIT
/// BucketForm: the form in which one bucket's gradient travels. Dense or compressed, behind one interface.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "comm/sparse/sparse_collective.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/archive.h"
#include "core/component.h"

namespace dragonn::trainer {

/// One object per bucket. For every step: plan, (the memory runs the pass), propose and agree, select, rounds,
/// (settlement goes to the memory), observe.
class BucketForm {
 public:
  virtual ~BucketForm() = default;

  /// Says what the pass over the gradient should compute.
  virtual kernels::PassRequest plan(const compress::SelectContext& /*context*/) { return {}; }
  /// Returns what rank 0 proposes to all ranks before they select, where they must agree on a number; on all ranks or
  /// on none.
  virtual std::optional<float> propose(const compress::SelectContext& /*context*/, View<const float> /*acc*/) {
    return std::nullopt;
  }
  virtual void agree(float /*proposal*/) {}
  /// Decides what of acc leaves this rank. Local.
  virtual void select(const compress::SelectContext& /*context*/, const kernels::PassResult& /*pass*/,
                      View<const float> /*acc*/) {}
  /// Exchanges what was selected. The arguments must stay until it is done.
  virtual comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context,
                              View<const float> acc, comm::SparseReduction& out) = 0;
  /// Says what left this rank and what came back. @param outcome the result of the exchange, where gradients live.
  virtual compress::Settlement settlement(const comm::SparseReduction& outcome) const = 0;
  /// Adapts to what all ranks know of the exchange.
  virtual void observe(const compress::ExchangeOutcome& /*outcome*/) {}
  /// Returns the magnitude threshold of the last selection, NaN if there is none.
  virtual float threshold() const { return std::numeric_limits<float>::quiet_NaN(); }

  virtual void save(Archive& /*archive*/, const std::string& /*prefix*/) const {}
  virtual void load(const Archive& /*archive*/, const std::string& /*prefix*/) {}
};

/// Returns what collectives know of a sparsifier with these settings.
SelectionTraits selection_traits(const Component& sparsifier);

/// A place says where one bucket's memory is.
struct BucketPlace {
  std::size_t numel = 0;
  Device gradients;      ///< where the gradient, acc and the update are
  MemoryPlace messages;  ///< where lists and sums of the exchange are: host memory, or the same
};

/// Sends all of acc, summed by the collective `dense`.
std::unique_ptr<BucketForm> make_dense_form(const Component& dense, const BucketPlace& place);
/// Sends what the sparsifier selects, summed by the collective. With a quantizer the sparsifier is `all`, and what
/// travels is the quantizer's code of acc.
std::unique_ptr<BucketForm> make_sparse_form(const Component& sparsifier, const Component& quantizer,
                                             const Component& collective, const BucketPlace& place);

/// This is the collective of quantizers, unless a config names another that sums codes.
inline constexpr const char* kCodeCollective = "allgather";
/// This is what `compression.quantizer` says where lists of entries travel.
inline constexpr const char* kNoQuantizer = "none";
/// Returns the length of a quantizer's code of `numel` elements, 0 of kNoQuantizer.
std::size_t code_bytes(const Component& quantizer, std::size_t numel);

}  // namespace dragonn::trainer
