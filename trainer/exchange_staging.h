// SPDX-License-Identifier: MIT
/// ExchangeStaging: between gradients on a GPU and messages in host memory.
#pragma once

#include "comm/sparse/sparse_collective.h"
#include "core/sparse_vector.h"

namespace dragonn::trainer {

/// One object per bucket. What is where its reader needs it already is handed through: on the CPU nothing is copied.
/// Copies cost 8 bytes of each memory per entry, 4 per element of a dense sum. The copies of one call run back to back,
/// and it waits for the GPU once, at its end.
class ExchangeStaging {
 public:
  /// @param gradients where the bucket's gradient lives.  @param messages where messages do: host memory, or the same.
  ExchangeStaging(const Device& gradients, const MemoryPlace& messages) : outgoing_(messages), on_device_(gradients) {}

  /// The selection where messages live; valid until the next call.
  const SparseVector& outgoing(const SparseVector& selected);
  /// What settle and the optimizer need of an outcome, where the gradients live; valid until the next call. Counts and
  /// metrics stay with the argument.
  const comm::SparseReduction& to_device(const comm::SparseReduction& reduction);

 private:
  SparseVector outgoing_;
  comm::SparseReduction on_device_;
};

}  // namespace dragonn::trainer
