// SPDX-License-Identifier: MIT
#include "kernels/devices.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "kernels/repeated_work.h"
#include "kernels/trace.h"

namespace dragonn::kernels {
namespace {

constinit DeviceSearch gpus;
constinit std::array<TraceFunctions, 2> traces{};

/// Returns the device that copies.
const Device& mover(const View<const std::byte>& source, const View<std::byte>& target) {
  return source.device().is_cpu() ? target.device() : source.device();
}

void transfer_cpu(View<const std::byte> source, View<std::byte> target) {
  if (source.data() != target.data()) std::copy_n(source.data(), source.size(), target.data());
}

}  // namespace

void register_gpus(DeviceSearch search) {
  gpus = search;
}

int device_count(DeviceType type) {
  if (type == DeviceType::kCpu) return 1;
  return gpus.count == nullptr ? 0 : gpus.count();
}

std::string device_obstacle(DeviceType type) {
  if (type == DeviceType::kCpu) return "";
  return gpus.obstacle == nullptr ? "this build is without CUDA (DRAGONN_CUDA=OFF)" : gpus.obstacle();
}

constinit decltype(synchronize) synchronize("synchronize", [](const Device&) {});
constinit decltype(device_summary) device_summary("device_summary", nullptr);
constinit decltype(free_memory) free_memory("free_memory", nullptr);

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

constinit decltype(make_work_recorder) make_work_recorder("record work", [](const Device&) {
  return std::unique_ptr<WorkRecorder>();
});

TraceFunctions register_trace(DeviceType type, TraceFunctions functions) {
  return std::exchange(traces[static_cast<std::size_t>(type)], functions);
}

const TraceFunctions& trace_functions(DeviceType type) {
  return traces[static_cast<std::size_t>(type)];
}

constinit decltype(make_event_timer) make_event_timer("event timer",
                                                      [](const Device&) { return std::unique_ptr<EventTimer>(); });

}  // namespace dragonn::kernels
