// SPDX-License-Identifier: MIT
#include "comm/sparse/device_gtopk.h"

#include <cmath>
#include <limits>
#include <utility>

#include "comm/device_transport.h"
#include "comm/room.h"
#include "comm/sparse/device_bytes.h"
#include "comm/sparse/scoped_seconds.h"
#include "comm/tags.h"
#include "kernels/elementwise.h"
#include "kernels/select.h"

namespace dragonn::comm {

DeviceGlobalTopk::Room::Room(std::size_t numel, const Device& device)
    : lists(numel, device),
      ranking(device),
      pass(device),
      current(device),
      other(device),
      merged(device),
      dropped(device),
      negated(0, device),
      dense(0, device) {}

void DeviceGlobalTopk::run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                           SparseReduction& out) {
  if (!room_) room_.emplace(numel_, selected.device());
  if (put_back_ == PutBack::kNaive && communicator.size() > 1) {
    gather_.run(communicator, context, selected, out);
    if (out.non_finite) return;
    kernels::filter_threshold(out.sum, std::numeric_limits<float>::denorm_min(), room_->merged);
    kernels::keep_largest(room_->merged, context.k, room_->ranking, out.sum);
  } else {
    out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
    if (out.non_finite) return;
    merge_up(communicator, context.k, selected, out);
    broadcast_result(communicator, out);
  }
  settle(communicator, selected, out);
}

/// After the round with ranks at distance 2^i each multiple of 2^(i+1) stands for the ranks up to the next one.
void DeviceGlobalTopk::merge_up(Communicator& communicator, std::size_t k, const SparseVector& selected,
                                SparseReduction& out) {
  copy_list(selected, room_->current);
  const int rank = communicator.rank();
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  for (int distance = 1; distance < communicator.size(); distance *= 2) {
    if (rank % (2 * distance) != 0) return send_current(communicator, rank - distance);
    if (rank + distance >= communicator.size()) continue;
    receive_other(communicator, rank + distance);
    merge(communicator.clock(), k, out);
  }
}

void DeviceGlobalTopk::send_current(Communicator& communicator, int destination) {
  const std::uint64_t size = room_->current.size();
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kHeader);
    communicator.send(destination, kTagMerge, Communicator::as_bytes(std::span<const std::uint64_t>(&size, 1)));
  }
  const OutgoingBytes lists[] = {{destination, bytes_of(std::as_const(room_->current.indices))},
                                 {destination, bytes_of(std::as_const(room_->current.values))}};
  communicator.device_transport()->exchange(lists, {});
}

void DeviceGlobalTopk::receive_other(Communicator& communicator, int source) {
  std::uint64_t size = 0;
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kHeader);
    communicator.recv_exactly(source, kTagMerge, Communicator::as_writable_bytes(std::span<std::uint64_t>(&size, 1)));
  }
  resize_with_room(room_->other, size);
  const IncomingBytes lists[] = {{source, bytes_of(room_->other.indices)}, {source, bytes_of(room_->other.values)}};
  communicator.device_transport()->exchange({}, lists);
}

void DeviceGlobalTopk::merge(const Clock& clock, std::size_t k, SparseReduction& out) {
  const ScopedSeconds decoding(clock, out.decode_seconds);
  Room& room = *room_;
  room.lists.add(room.current);
  room.lists.add(room.other);
  room.lists.finish_nonzero(room.merged);
  kernels::keep_largest(room.merged, k, room.ranking, room.current);
  if (put_back_ == PutBack::kMerger && room.current.size() < room.merged.size()) {
    // What is merged less what is kept: exact, since every value is there with both signs or alone.
    resize_with_room(room.negated, room.current.size());
    kernels::accumulate_scaled({}, room.current.values.view(), -1.0f, room.negated.view(), room.pass);
    room.lists.add(room.merged);
    room.lists.add(room.current.indices.view(), room.negated.view());
    room.lists.finish_nonzero(room.dropped);
    room.lists.add(out.returned);
    room.lists.add(room.dropped);
    room.lists.finish_nonzero(out.returned);
  }
  kernels::synchronize(room.current.device());
}

/// Of rank 0's list, which is everybody's sum.
void DeviceGlobalTopk::broadcast_result(Communicator& communicator, SparseReduction& out) {
  const bool is_root = communicator.rank() == 0;
  const SparseVector& current = room_->current;
  std::uint64_t size = current.size();
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kHeader);
    communicator.broadcast_value(0, size);
  }
  resize_with_room(out.sum, size);
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  const auto from_root = [&](auto& whole, const auto& mine) {
    parts_.assign(out.selected_counts.size(), bytes_of(whole).subview(0, 0));
    parts_[0] = bytes_of(whole);
    communicator.device_transport()->gather(is_root ? bytes_of(mine) : no_bytes_of(mine), parts_);
  };
  from_root(out.sum.indices, current.indices);
  from_root(out.sum.values, current.values);
}

void DeviceGlobalTopk::settle(Communicator& communicator, const SparseVector& selected, SparseReduction& out) {
  if (put_back_ == PutBack::kMerger) {
    copy_indices(selected, out.contributed);
    out.is_partly_applied = true;
    return room_->lists.common_indices(selected.indices.view(), out.sum.indices.view(), out.applied);
  }
  room_->lists.common_indices(selected.indices.view(), out.sum.indices.view(), out.contributed);
  if (communicator.size() == 1) return;
  if (put_back_ == PutBack::kExact) {
    values_at_result(selected, out.sum, out.sum.values.view());
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.device_transport()->allreduce_sum(out.sum.values.view());
  } else if (put_back_ == PutBack::kPaper) {
    out.lost_mass = measure_loss(communicator, selected, out.sum);
  }
}

/// values[i] <- what was selected at the result's i-th index, 0 where nothing was.
void DeviceGlobalTopk::values_at_result(const SparseVector& selected, const SparseVector& result, View<float> values) {
  Buffer<float>& dense = room_->dense;
  if (dense.size() != numel_) {
    dense.resize_discard(numel_);
    kernels::fill(0.0f, dense.view());
  }
  kernels::scatter_add(selected, dense.view());
  kernels::gather(dense.view(), result.indices.view(), values);
  kernels::scatter_zero(selected.indices.view(), dense.view());
}

/// What was selected at the result's indices and is not in its values. Not the method's own traffic.
double DeviceGlobalTopk::measure_loss(Communicator& communicator, const SparseVector& selected,
                                      const SparseVector& sum) {
  resize_with_room(room_->negated, sum.size());
  values_at_result(selected, sum, room_->negated.view());
  const std::span<const float> mine = mirrors_[0].of(room_->negated.view());
  const std::span<const float> applied = mirrors_[1].of(sum.values.view());
  given_.assign(mine.begin(), mine.end());
  const ScopedPhase phase(communicator.traffic(), Phase::kMetrics);
  communicator.allreduce_sum(std::span<double>(given_));
  double loss = 0;
  for (std::size_t i = 0; i < given_.size(); ++i) loss += std::abs(given_[i] - static_cast<double>(applied[i]));
  return loss;
}

}  // namespace dragonn::comm
