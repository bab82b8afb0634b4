// SPDX-License-Identifier: MIT
/// Devices: the devices of this build and this machine, and copies between their memories.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "core/archive.h"
#include "core/buffer.h"
#include "core/device.h"
#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// The description of a GPU, for people and schedulers.
struct DeviceSummary {
  std::string name;      ///< "NVIDIA H200"
  std::string identity;  ///< identity of the hardware: the same in every process that sees it, whatever its index
  std::size_t memory_bytes = 0;
};

/// The functions that look for GPUs; a build with CUDA adds them.
struct DeviceSearch {
  int (*count)() noexcept = nullptr;
  std::string (*obstacle)() = nullptr;
};
void register_gpus(DeviceSearch search);
/// Returns the number of devices of this type that the process can use; 0 if the build has none.
int device_count(DeviceType type);
/// Returns why there is no device of this type, in a few words; empty if there is one.
std::string device_obstacle(DeviceType type);

/// Waits for all work that this thread started on `device`. Returns at once for the CPU.
/// @throws DeviceError if some of it failed.
extern Operation<void(const Device& device)> synchronize;
/// Describes a device, and starts nothing on it. @throws DeviceError if there is no such device, or it is the CPU,
/// whose memory the operating system manages.
extern Operation<DeviceSummary(const Device& device)> device_summary;
/// Returns the bytes that are free on the device now. @throws as device_summary.
extern Operation<std::size_t(const Device& device)> free_memory;

/// Copies bytes between any two devices, or on one. Returns when the source may be changed and, if the target is host
/// memory, when it may be read. @throws ShapeError if the sizes differ; DeviceError for a device without a row.
void transfer_bytes(View<const std::byte> source, View<std::byte> target);
/// Starts a copy between GPU and host memory without waiting for it. Later work of this thread on the GPU finds it
/// done. The host must keep both ends, change neither and read no target until it has waited with synchronize(). Host
/// memory that is not page-locked (host_memory_for) is copied correctly, but not in the background. All other copies,
/// and errors, are as in transfer_bytes.
void start_transfer_bytes(View<const std::byte> source, View<std::byte> target);
/// The rows start copies.
extern Operation<void(View<const std::byte>, View<std::byte>)> transfer_rows;

namespace detail {
template <class T>
auto as_bytes(View<T> values) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return View<Byte>(reinterpret_cast<Byte*>(values.data()), values.size() * sizeof(T), values.device());
}
}  // namespace detail

/// Copies elements of any type that may be copied as bytes.
template <class T>
void transfer(View<const T> source, View<T> target) {
  transfer_bytes(detail::as_bytes(source), detail::as_bytes(target));
}
template <class T>
void start_transfer(View<const T> source, View<T> target) {
  start_transfer_bytes(detail::as_bytes(source), detail::as_bytes(target));
}

/// Lets the host read values of any device: host memory directly, a device's through a copy that is reused from call to
/// call.
template <class T>
class HostMirror {
 public:
  HostMirror() = default;
  /// Prepares for values of `device` that are read in every step: the copy is page-locked.
  explicit HostMirror(const Device& device) : copy_(0, host_memory_for(device)) {}

  /// Returns the current values; valid until the next call.
  std::span<const T> of(View<const T> values) {
    if (values.device().is_cpu()) return values.host();
    copy_.resize_discard(values.size());
    transfer(values, copy_.view());
    return copy_.host();
  }

 private:
  Buffer<T> copy_;
};

/// Puts the values of `view` into the archive.
template <class T>
void put_view(Archive& archive, const std::string& name, View<const T> view) {
  HostMirror<T> mirror;
  archive.put_array<T>(name, mirror.of(view));
}

/// Reads a field of view.size() values into `view`. @throws DataError if the archive lacks it or it has another size;
/// `view` is then unchanged.
template <class T>
void get_view(const Archive& archive, const std::string& name, View<T> view) {
  if (view.device().is_cpu()) return archive.get_array(name, view.host());
  Buffer<T> values(view.size());
  archive.get_array(name, values.host());
  transfer(std::as_const(values).view(), view);
}

}  // namespace dragonn::kernels
