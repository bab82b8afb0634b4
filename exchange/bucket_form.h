// SPDX-License-Identifier: MIT
/// BucketForm: the form in which one bucket's gradient is sent. Dense, sparse or quantized, behind one interface.
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
#include "core/settings.h"

namespace dragonn::exchange {

/// The form of one bucket. For every step: plan, (the memory runs the pass), propose and accept_proposal, select,
/// stage, rounds, (settlement goes to the memory), observe.
class BucketForm {
 public:
  virtual ~BucketForm() = default;

  /// Returns the request for the pass over the gradient.
  virtual kernels::PassRequest plan(const compress::SelectContext& /*context*/) { return {}; }
  /// Returns rank 0's proposal to all ranks before they select, if they must agree on a number; on all ranks or on
  /// none.
  virtual std::optional<float> propose(const compress::SelectContext& /*context*/, View<const float> /*acc*/) {
    return std::nullopt;
  }
  virtual void accept_proposal(float /*proposal*/) {}
  /// Decides which part of acc leaves this rank. Local.
  virtual void select(const compress::SelectContext& /*context*/, kernels::PassResult& /*pass*/,
                      View<const float> /*acc*/) {}
  /// Starts copying the selection to the memory of messages, if it is elsewhere. Returns whether the thread has to wait
  /// for the device before rounds().
  virtual bool stage() { return false; }
  /// Exchanges the selection. The arguments must stay until it is done.
  virtual comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context,
                              View<const float> acc, comm::SparseReduction& out) = 0;
  /// Returns the entries that left this rank and those that came back. @param outcome the result of the exchange, on
  /// the gradient's device.
  virtual compress::Settlement settlement(const comm::SparseReduction& outcome) const {
    return {.contributed = outcome.contributed.view(),
            .contributed_all = outcome.contributed_all,
            .remainder = outcome.remainder.view(),
            .masked = outcome.masked(),
            .returned = &outcome.returned};
  }
  /// Adapts to the outcome that all ranks know.
  virtual void observe(const compress::ExchangeOutcome& /*outcome*/) {}
  /// Returns the magnitude threshold of the last selection, NaN if there is none.
  virtual float threshold() const { return std::numeric_limits<float>::quiet_NaN(); }

  virtual void save(Archive& /*archive*/, const std::string& /*prefix*/) const {}
  virtual void load(const Archive& /*archive*/, const std::string& /*prefix*/) {}
  /// Takes over the state of a rank of another number of workers, where the parts' rules say so (reshards).
  virtual void reshard_from(const Archive& /*archive*/, const std::string& /*prefix*/) {}
};

// One object per bucket. Data that is already where its reader needs it is passed on: on the CPU nothing is copied. The
// copies run back to back, those of all buckets of a group too, and nothing here waits for them.

/// Copies selections to the memory of messages. A copy costs 8 bytes of each memory per entry.
class SelectionStaging {
 public:
  /// @param messages the place of messages: host memory, or the gradient's device.
  explicit SelectionStaging(const MemoryPlace& messages) : outgoing_(messages) {}
  /// Starts the copy of a selection, which must stay as it is. The thread waits for the device before outgoing().
  /// Returns whether there is something to wait for.
  bool start(const SparseVector& selected);
  /// Returns the selection in the memory of messages; valid until the next start().
  const SparseVector& outgoing(const SparseVector& selected) const;

 private:
  SparseVector outgoing_;
};

/// Copies results to the gradients' device. A copy costs 8 bytes of each memory per entry, 4 per element of a dense
/// sum.
class OutcomeStaging {
 public:
  /// @param gradients the device of the bucket's gradient.
  explicit OutcomeStaging(const Device& gradients) : on_device_(gradients) {}
  /// Returns the parts of an outcome that settle and the optimizer use, on the gradients' device, for later work of
  /// this thread there; valid until the next call. Counts and metrics stay with the argument, which must not change
  /// until the device has been waited for.
  const comm::SparseReduction& to_device(const comm::SparseReduction& reduction);

 private:
  comm::SparseReduction on_device_;
};

/// Returns the traits that a sparsifier with these settings states for collectives.
SelectionTraits selection_traits(const Component& sparsifier);

/// The places of one bucket's memory.
struct BucketPlace {
  std::size_t numel = 0;
  Device gradients;      ///< device of the gradient, acc and the update
  MemoryPlace messages;  ///< place of the exchange's lists and sums: host memory, or the same
};

/// Sends all of acc, summed by the collective `dense`.
std::unique_ptr<BucketForm> make_dense_form(const Component& dense, const BucketPlace& place);
/// Sends the sparsifier's selection, summed by the collective.
std::unique_ptr<BucketForm> make_sparse_form(const Component& sparsifier, const Component& collective,
                                             const BucketPlace& place);
/// Sends the quantizer's code of all of acc: no list of the entries is made, and none of their indices travels.
std::unique_ptr<BucketForm> make_quantized_form(const Component& quantizer, const BucketPlace& place);

/// The collective of quantizers.
inline constexpr const char* kCodeCollective = "allgather";
/// The value of `compression.quantizer` if lists of entries are sent.
inline constexpr const char* kNoQuantizer = "none";
/// Returns the length of a quantizer's code of `numel` elements.
std::size_t code_bytes(const Component& quantizer, std::size_t numel);

}  // namespace dragonn::exchange
