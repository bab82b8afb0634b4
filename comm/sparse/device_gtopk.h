// SPDX-License-Identifier: MIT
/// DeviceGlobalTopk: selections merged along a tree of ranks, in the memory of a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/sparse/counts.h"
#include "comm/sparse/device_gather.h"
#include "comm/sparse/device_lists.h"
#include "comm/sparse/put_back.h"
#include "comm/sparse/sparse_collective.h"
#include "kernels/devices.h"
#include "kernels/gradient_pass.h"
#include "kernels/magnitude.h"

namespace dragonn::comm {

/// The collective gtopk where the ranks have a DeviceTransport: the same sum and the same shares as of messages. Sizes
/// travel with the communicator, as a header and a word ahead of each list.
class DeviceGlobalTopk {
 public:
  DeviceGlobalTopk(PutBack put_back, std::size_t numel)
      : put_back_(put_back), numel_(numel), gather_(numel, /*decode_dense=*/false) {}

  /// Collective. 8 bytes per entry of a list: one up, and down as a gather from rank 0 (kNaive: as DeviceGather).
  /// @param selected on the device that out was made for.
  void run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
           SparseReduction& out);

 private:
  /// Buffers on the device of the first call.
  struct Room {
    Room(std::size_t numel, const Device& device);
    DeviceLists lists;
    kernels::MagnitudeScratch ranking;
    kernels::PassResult pass;
    SparseVector current, other, merged, dropped;
    Buffer<float> negated, dense;
  };

  void merge_up(Communicator& communicator, std::size_t k, const SparseVector& selected, SparseReduction& out);
  void send_current(Communicator& communicator, int destination);
  void receive_other(Communicator& communicator, int source);
  void merge(const Clock& clock, std::size_t k, SparseReduction& out);
  void broadcast_result(Communicator& communicator, SparseReduction& out);
  void settle(Communicator& communicator, const SparseVector& selected, SparseReduction& out);
  void values_at_result(const SparseVector& selected, const SparseVector& result, View<float> values);
  double measure_loss(Communicator& communicator, const SparseVector& selected, const SparseVector& sum);

  PutBack put_back_;
  std::size_t numel_;
  CountExchange counts_;
  DeviceGather gather_;
  std::optional<Room> room_;
  std::array<kernels::HostMirror<float>, 2> mirrors_;
  std::vector<View<std::byte>> parts_;
  std::vector<double> given_;
};

}  // namespace dragonn::comm
