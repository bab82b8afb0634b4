// SPDX-License-Identifier: MIT
/// SelectionStaging and OutcomeStaging: copies between gradients on a GPU and messages in host memory.
#pragma once

#include "comm/sparse/sparse_collective.h"
#include "core/sparse_vector.h"

namespace dragonn::exchange {

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

}  // namespace dragonn::exchange
