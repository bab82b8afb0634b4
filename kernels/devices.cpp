// SPDX-License-Identifier: MIT
#include "kernels/devices.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernels/device_math.h"
#include "kernels/repeated_work.h"

namespace dragonn::kernels {
namespace {

int one_cpu() noexcept {
  return 1;
}
std::string no_obstacle() {
  return {};
}
void nothing_to_wait_for(const Device&) {}

std::array<DeviceFunctions, 2>& devices() {
  static std::array<DeviceFunctions, 2> functions{DeviceFunctions{one_cpu, no_obstacle, nothing_to_wait_for},
                                                  DeviceFunctions{}};
  return functions;
}

const DeviceFunctions& functions_of(DeviceType type) {
  return devices()[static_cast<std::size_t>(type)];
}

/// Returns the device that copies.
const Device& mover(const View<const std::byte>& source, const View<std::byte>& target) {
  return source.device().is_cpu() ? target.device() : source.device();
}

void transfer_cpu(View<const std::byte> source, View<std::byte> target) {
  if (source.data() != target.data()) std::copy_n(source.data(), source.size(), target.data());
}

}  // namespace

void register_devices(DeviceType type, DeviceFunctions functions) {
  devices()[static_cast<std::size_t>(type)] = functions;
}

int device_count(DeviceType type) {
  const auto count = functions_of(type).count;
  return count == nullptr ? 0 : count();
}

std::string device_obstacle(DeviceType type) {
  const auto obstacle = functions_of(type).obstacle;
  return obstacle == nullptr ? "this build is without CUDA (DRAGONN_CUDA=OFF)" : obstacle();
}

void synchronize(const Device& device) {
  const auto wait = functions_of(device.type).synchronize;
  if (wait == nullptr) throw DeviceError(fmt::format("this build has no device {}", to_string(device)));
  wait(device);
}

DeviceSummary device_summary(const Device& device) {
  const auto summary = functions_of(device.type).summary;
  if (summary == nullptr) throw DeviceError(fmt::format("there is no summary of device {}", to_string(device)));
  return summary(device);
}

std::size_t free_memory(const Device& device) {
  const auto free = functions_of(device.type).free_memory;
  if (free == nullptr) throw DeviceError(fmt::format("the free memory of device {} is not known", to_string(device)));
  return free(device);
}

constinit decltype(transfer_rows) transfer_rows("transfer", transfer_cpu);
void start_transfer_bytes(View<const std::byte> source, View<std::byte> target) {
  if (source.size() != target.size())
    throw ShapeError(fmt::format("transfer of {} bytes to {}", source.size(), target.size()));
  if (source.empty()) return;
  transfer_rows.at(mover(source, target))(source, target);
}

void transfer_bytes(View<const std::byte> source, View<std::byte> target) {
  start_transfer_bytes(source, target);
  // The host may change its source, or read its target, as soon as this returns.
  if (source.device().is_cpu() != target.device().is_cpu()) synchronize(mover(source, target));
}

constinit decltype(make_work_recorder) make_work_recorder("record work",
                                                          [](const Device&) -> std::unique_ptr<WorkRecorder> {
                                                            return nullptr;
                                                          });
constinit decltype(set_recording) set_recording("set_recording", [](const Device&, bool) {});

namespace {

void on_cpu(const Device&, DeviceMath math) {
  if (math != DeviceMath::kFloat32) throw ConfigError("the CPU multiplies in float32 only: valid is \"float32\"");
}

}  // namespace

constinit decltype(set_math) set_math("set_math", on_cpu);
constinit decltype(storage_type) storage_type("storage_type", [](const Device&) { return ElementType::kFloat32; });

}  // namespace dragonn::kernels
