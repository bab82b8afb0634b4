// SPDX-License-Identifier: MIT
#include "exchange/exchange_staging.h"

#include "kernels/devices.h"

namespace dragonn::exchange {
namespace {

/// Starts a copy. Until the GPU has been waited for, the source must stay and the target must not be read.
template <class T>
void start_copy(const Buffer<T>& source, Buffer<T>& target) {
  resize_with_slack(target, source.size());
  kernels::start_transfer(source.view(), target.view());
}

void start_copy(const SparseVector& source, SparseVector& target) {
  start_copy(source.indices, target.indices);
  start_copy(source.values, target.values);
}

}  // namespace

bool SelectionStaging::start(const SparseVector& selected) {
  if (selected.device() == outgoing_.device()) return false;
  start_copy(selected, outgoing_);
  return true;
}

const SparseVector& SelectionStaging::outgoing(const SparseVector& selected) const {
  return selected.device() == outgoing_.device() ? selected : outgoing_;
}

const comm::SparseReduction& OutcomeStaging::to_device(const comm::SparseReduction& reduction) {
  if (reduction.sum.device() == on_device_.sum.device()) return reduction;
  on_device_.is_dense = reduction.is_dense;
  on_device_.contributed_all = reduction.contributed_all;
  on_device_.is_partly_applied = reduction.is_partly_applied;
  start_copy(reduction.sum, on_device_.sum);
  start_copy(reduction.dense_sum, on_device_.dense_sum);
  start_copy(reduction.contributed, on_device_.contributed);
  start_copy(reduction.applied, on_device_.applied);
  start_copy(reduction.returned, on_device_.returned);
  start_copy(reduction.remainder, on_device_.remainder);
  return on_device_;
}

}  // namespace dragonn::exchange
