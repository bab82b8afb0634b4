// SPDX-License-Identifier: MIT
/// SelectionStaging and OutcomeStaging: between gradients on a GPU and messages in host memory.
#pragma once

#include "comm/sparse/sparse_collective.h"
#include "core/sparse_vector.h"

namespace dragonn::trainer {

// One object per bucket. What is where its reader needs it already is handed through: on the CPU nothing is copied. The
// copies of one call run back to back, and it waits for the GPU once, at its end.

/// Selections on their way out. A copy costs 8 bytes of each memory per entry.
class SelectionStaging {
 public:
  /// @param messages where messages are: host memory, or the gradient's device.
  explicit SelectionStaging(const MemoryPlace& messages) : outgoing_(messages) {}
  /// The selection where messages are; valid until the next call.
  const SparseVector& outgoing(const SparseVector& selected);

 private:
  SparseVector outgoing_;
};

/// Results on their way back. A copy costs 8 bytes of each memory per entry, 4 per element of a dense sum.
class OutcomeStaging {
 public:
  /// @param gradients where the bucket's gradient lives.
  explicit OutcomeStaging(const Device& gradients) : on_device_(gradients) {}
  /// What settle and the optimizer need of an outcome, where the gradients live; valid until the next call. Counts and
  /// metrics stay with the argument.
  const comm::SparseReduction& to_device(const comm::SparseReduction& reduction);

 private:
  comm::SparseReduction on_device_;
};

}  // namespace dragonn::trainer
