// SPDX-License-Identifier: MIT
#include "trainer/exchange_staging.h"

#include "comm/room.h"
#include "kernels/devices.h"

namespace dragonn::trainer {
namespace {

template <class T>
void copy(const Buffer<T>& source, Buffer<T>& target) {
  comm::resize_with_room(target, source.size());
  kernels::transfer(source.view(), target.view());
}

void copy(const SparseVector& source, SparseVector& target) {
  copy(source.indices, target.indices);
  copy(source.values, target.values);
}

}  // namespace

const SparseVector& ExchangeStaging::outgoing(const SparseVector& selected) {
  if (selected.device() == outgoing_.device()) return selected;
  copy(selected, outgoing_);
  return outgoing_;
}

const comm::SparseReduction& ExchangeStaging::to_device(const comm::SparseReduction& reduction) {
  if (reduction.sum.device() == on_device_.sum.device()) return reduction;
  on_device_.is_dense = reduction.is_dense;
  on_device_.contributed_all = reduction.contributed_all;
  on_device_.is_partly_applied = reduction.is_partly_applied;
  copy(reduction.sum, on_device_.sum);
  copy(reduction.dense_sum, on_device_.dense_sum);
  copy(reduction.contributed, on_device_.contributed);
  copy(reduction.applied, on_device_.applied);
  copy(reduction.returned, on_device_.returned);
  return on_device_;
}

}  // namespace dragonn::trainer
