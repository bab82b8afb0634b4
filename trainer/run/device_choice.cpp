// SPDX-License-Identifier: MIT
#include "trainer/run/device_choice.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "comm/launcher.h"
#include "comm/machine.h"
#include "kernels/devices.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kAuto = "device = \"auto\"";

/// Returns why this rank cannot compute on a GPU; empty if it can.
std::string obstacle_of(const Config& config) {
  const std::string missing = kernels::device_obstacle(DeviceType::kCuda);
  const bool is_virtual =
      config.network.modelled() && config.comm.process_backend() != Backend::kTcp && !comm::launched_by_mpi();
  if (!missing.empty() || !is_virtual || config.network.compute != comm::Compute::kMeasured) return missing;
  return "network.compute = \"measured\" counts CPU time, and work on a GPU takes none";
}

/// Chooses the CPU. @throws ConfigError if `device_math` is not for the CPU.
DeviceChoice the_cpu(const Config& config, const std::string& notes = "") {
  require(config.device_math == kernels::DeviceMath::kFloat32,
          "device_math = \"{}\": the CPU{} multiplies in float32 alone; expected \"float32\"",
          name_of(config.device_math), notes.empty() ? "" : " (" + notes + ")");
  return {.device = {}, .name = {}, .notes = notes};
}

/// Collective. Returns the obstacle of the lowest rank that has one; empty on every rank if none has.
std::string first_obstacle(comm::Communicator& communicator, const std::string& mine) {
  const std::uint8_t stopped = mine.empty() ? 0 : 1;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint8_t>(&stopped, 1), std::span<std::uint8_t>(all));
  const auto first = std::ranges::find(all, 1);
  if (first == all.end()) return {};
  std::string text = mine;
  communicator.broadcast_text(static_cast<int>(first - all.begin()), text);
  return text;
}

/// Collective. Returns the number of ranks that compute on this rank's hardware, itself included.
int sharers(comm::Communicator& communicator, const std::string& identity) {
  using Identity = std::array<char, 64>;
  Identity mine{};
  std::ranges::copy_n(identity.begin(), static_cast<std::ptrdiff_t>(std::min(identity.size(), mine.size())),
                      mine.begin());
  std::vector<Identity> all(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const Identity>(&mine, 1), std::span<Identity>(all));
  return static_cast<int>(std::ranges::count(all, mine));
}

}  // namespace

std::string DeviceChoice::describe() const {
  std::string text = device.is_cpu() ? "the CPU" : fmt::format("{} ({})", to_string(device), name);
  return notes.empty() ? text : text + "; " + notes;
}

DeviceChoice choose_device(const Config& config) {
  if (config.device == WantedDevice::kCpu) return the_cpu(config);
  const std::string obstacle = obstacle_of(config);
  if (obstacle.empty()) {
    const Device first{DeviceType::kCuda, 0};
    return {.device = first,
            .name = kernels::device_summary(first).name,
            .notes = config.device == WantedDevice::kAuto ? kAuto : ""};
  }
  if (config.device == WantedDevice::kAuto) return the_cpu(config, fmt::format("{} and {}", kAuto, obstacle));
  throw ConfigError(fmt::format("device = \"cuda\": {}; expected \"cpu\" or \"auto\" here", obstacle));
}

DeviceChoice choose_device(const Config& config, comm::Communicator& communicator) {
  DeviceChoice choice;
  comm::all_ranks_or_none(communicator, [&] { choice = choose_device(config); });
  if (config.device == WantedDevice::kCpu) return choice;
  const std::string obstacle = first_obstacle(communicator, obstacle_of(config));
  if (!obstacle.empty()) {
    comm::all_ranks_or_none(communicator, [&] { choice = the_cpu(config, fmt::format("{} and {}", kAuto, obstacle)); });
    return choice;
  }
  const comm::PlaceOnMachine place = comm::place_on_machine(communicator);
  std::string identity;
  comm::all_ranks_or_none(communicator, [&] {
    choice.device.index = place.rank % kernels::device_count(DeviceType::kCuda);
    const kernels::DeviceSummary summary = kernels::device_summary(choice.device);
    identity = summary.identity;
    choice.name = summary.name;
  });
  choice.workers = sharers(communicator, identity);
  if (choice.workers > 1)
    choice.notes += fmt::format("{}{} workers share it", choice.notes.empty() ? "" : "; ", choice.workers);
  return choice;
}

GpuLink::GpuLink(const Config& config, comm::Communicator& communicator, const DeviceChoice& choice)
    : communicator_(communicator) {
  if (config.comm.backend != Backend::kNccl) return;
  comm::all_ranks_or_none(communicator, [&] {
    require(
        !choice.device.is_cpu(),
        "comm.backend = \"nccl\" moves the memory of GPUs, and this run computes on {}; expected \"mpi\" or \"tcp\"",
        choice.describe());
    require(choice.workers == 1,
            "comm.backend = \"nccl\": {} workers share {} ({}); expected a GPU for each worker, or \"mpi\" or \"tcp\", "
            "which go through host memory",
            choice.workers, to_string(choice.device), choice.name);
  });
  transport_ = comm::make_nccl_transport(communicator, choice.device, config.comm.timeout_s);
  communicator.set_device_transport(transport_.get());
}

void GpuLink::finish() {
  if (transport_ != nullptr) transport_->finish();
}

}  // namespace dragonn::trainer
