// SPDX-License-Identifier: MIT
/// Operation: a function on the memory of a device, with an implementation for every type of device.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/device.h"
#include "core/error.h"
#include "core/view.h"

namespace dragonn::kernels {

/// Checks two arguments. @throws DeviceError naming the operation and both places unless they are one.
inline void check_same_device(std::string_view operation, const Device& first, const Device& other) {
  if (!(first == other))
    throw DeviceError(fmt::format("{}: memory of device {} together with memory of {}", operation, to_string(first),
                                  to_string(other)));
}

namespace detail {
/// Returns the device that an argument names: a device itself, memory its own; all else none.
template <class T>
std::optional<Device> device_of(const T& argument) {
  if constexpr (std::is_same_v<T, Device>)
    return argument;
  else if constexpr (requires { argument.device(); })
    return argument.device();
  else
    return std::nullopt;
}
/// Returns where an argument lives: as device_of, but an empty view lives nowhere.
template <class T>
std::optional<Device> place_of(const T& argument) {
  if constexpr (requires { argument.empty(); })
    if (argument.empty()) return std::nullopt;
  return device_of(argument);
}
}  // namespace detail

template <class Signature>
class Operation;

/// Is called like a function, and calls the row of the device that its arguments live on. Constant initialization makes
/// it with the CPU's row; a device's own file adds another row before main.
template <class Result, class... Arguments>
class Operation<Result(Arguments...)> {
 public:
  /// The kernel itself, or the factory of a plan.
  using Row = Result (*)(Arguments...);
  /// Checks arguments, and prepares results. Returns whether there is anything to do; if not, the result is Result().
  using Before = bool (*)(Arguments...);

  constexpr Operation(std::string_view name, Row cpu, Before before = nullptr)
      : name_(name), before_(before), rows_{cpu, nullptr} {}

  /// @throws DeviceError naming the operation if arguments live on several devices, or on one without a row.
  Result operator()(Arguments... arguments) const {
    if (before_ != nullptr && !before_(arguments...)) return Result();
    return at(place(arguments...))(arguments...);
  }

  /// Adds a row. Returns true, so that a static object can do it.
  bool add(DeviceType type, Row row) {
    rows_[static_cast<std::size_t>(type)] = row;
    return true;
  }
  /// Returns the row of a device. @throws DeviceError naming the operation and the device if that row is missing.
  Row at(const Device& device) const {
    const Row row = rows_[static_cast<std::size_t>(device.type)];
    if (row == nullptr)
      throw DeviceError(
          fmt::format("operation {} has no kernel for device {} in this build", name_, to_string(device)));
    return row;
  }

 private:
  Device place(const Arguments&... arguments) const {
    std::optional<Device> place;
    const auto join = [&](const std::optional<Device>& other) {
      if (place && other) check_same_device(name_, *place, *other);
      if (!place) place = other;
    };
    (join(detail::place_of(arguments)), ...);
    if (place) return *place;
    // If all is empty, the row of a device that some argument names does nothing.
    Device named;
    const auto note = [&](const std::optional<Device>& other) {
      if (other && named.is_cpu()) named = *other;
    };
    (note(detail::device_of(arguments)), ...);
    return named;
  }

  std::string_view name_;
  Before before_;
  std::array<Row, 2> rows_;
};

}  // namespace dragonn::kernels
