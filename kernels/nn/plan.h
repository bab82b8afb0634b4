// SPDX-License-Identifier: MIT
/// Plan: an operation for one shape, its passes and its memory; and the window that slides along an axis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/view.h"
#include "kernels/device_math.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The memory of a plan, in floats. A plan is made once per shape and holds no activations and no scratch memory: its
/// owner lends it these on every call, so that one block of memory serves a whole network.
struct PlanMemory {
  std::size_t saved = 0;             ///< written by forward, read by backward
  std::size_t forward_scratch = 0;   ///< used during forward only
  std::size_t backward_scratch = 0;  ///< used during backward only
};

/// The algorithm of a convolution that the device's library does not do: products with patches.
inline constexpr const char* kPatches = "patches";

/// The algorithm of one pass of a plan, for reports.
struct PassDescription {
  std::string pass;       ///< "forward", "backward_weights", "backward_data"
  std::string algorithm;  ///< the library's name of it, or kPatches
  std::string math;       ///< the library's name of it: "fma", "tensor_op"
  std::size_t workspace_bytes = 0;
};

/// The arguments of one forward pass. Views are of one device, and stay where they are from step to step. Inputs and
/// output are of the plan's type of element, but for inputs that are tokens; all else is float32.
struct ForwardPass {
  std::span<const TypedView<const float>> inputs = {};
  std::span<const View<const float>> parameters = {};
  std::span<const View<float>> statistics = {};
  std::span<const View<float>> states = {};    ///< [batch, size] each; forward updates them
  std::span<const std::int32_t> lengths = {};  ///< [batch], valid time steps of the output; empty: all are
  TypedView<float> output = {};
  View<float> saved = {};  ///< at least as large as memory() says, as is `scratch`
  View<float> scratch = {};
  View<const std::uint64_t> stream = {};  ///< key of a random stream; the same in the backward pass
};

/// The arguments of one backward pass.
struct BackwardPass {
  std::span<const TypedView<const float>> inputs = {};
  TypedView<const float> output = {};
  std::span<const View<const float>> parameters = {};
  std::span<const TypedView<const float>> output_gradients = {};  ///< one; batch norm takes two, too
  std::span<const TypedView<float>> input_gradients = {};         ///< overwritten; an empty view is not computed
  std::span<const View<float>> parameter_gradients = {};          ///< overwritten
  std::span<const std::int32_t> lengths = {};                     ///< as in the forward pass
  View<const float> saved = {};
  View<float> scratch = {};
  View<const std::uint64_t> stream = {};
  bool adds_parameter_gradients = false;  ///< adds to the parameters' gradients; only for plans that say they can
};

/// The bias of an operation with weights, whose parameters are the weights and perhaps a bias, or its gradient.
template <class T>
View<T> bias_of(std::span<const View<T>> parameters) {
  return parameters.size() > 1 ? parameters[1] : View<T>();
}

/// The plan of an operation for one shape. It allocates in its constructor only. Parameters are plain in the caller's
/// memory: if the device prefers another layout, forward and backward each make their own copy once per call. The work
/// that a pass without lengths gives to a GPU is the same every time, so that it can be recorded: it depends on nothing
/// but the views of the pass, and does not wait.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual PlanMemory memory() const { return {}; }
  /// Describes the passes, where the device's library offers several algorithms; else nothing.
  virtual std::vector<PassDescription> describe() const { return {}; }
  virtual void forward(const ForwardPass& pass) = 0;
  /// Runs backward of a plan made for training, after forward with the same inputs and parameters.
  virtual void backward(const BackwardPass& pass) = 0;
};

/// Makes the plan of an operation with a shape. @throws Error if the device's library refuses, DeviceError if there is
/// no row for the device, ConfigError if the device does not have the precision that the shape asks for.
template <class Spec, class Made = Plan>
using PlanFactory = Operation<std::unique_ptr<Made>(const Device& device, const Spec& spec)>;

/// A factory's row where the constructor of `Implementation` does all.
template <class Implementation, class Made, class Spec>
std::unique_ptr<Made> construct_plan(const Device& device, const Spec& spec) {
  return std::make_unique<Implementation>(device, spec);
}

/// A factory's check where the shape asks for a precision.
template <class Spec>
bool has_math(const Device& device, const Spec& spec) {
  check_math(device, spec.math);
  return true;
}

/// Rounds a count of floats up to whole cache lines, so that neighbours in one block stay aligned.
constexpr std::size_t aligned_floats(std::size_t floats) {
  return (floats + 15) / 16 * 16;
}
constexpr std::size_t floats_for_bytes(std::size_t bytes) {
  return aligned_floats((bytes + sizeof(float) - 1) / sizeof(float));
}

/// A window that slides along one axis.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< before the first input
  bool ceil = false;         ///< counts a last window that overhangs the end, too, with padding after the last input

  /// Returns the number of positions on an axis of `inputs`; 0 or less if the window does not fit.
  std::int64_t outputs(std::int64_t inputs) const {
    const std::int64_t room = inputs + 2 * padding - kernel;
    if (room < 0 && !ceil) return 0;
    const std::int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    // A window must start on an input or in the padding before it.
    return ceil && (count - 1) * stride >= inputs + padding ? count - 1 : count;
  }
  /// Returns the padding after the last input that the last window reads.
  std::int64_t padding_after(std::int64_t inputs) const {
    return std::max<std::int64_t>(0, (outputs(inputs) - 1) * stride + kernel - inputs - padding);
  }
  /// Returns how many inputs all positions read together, padding left out.
  std::int64_t inputs_read(std::int64_t inputs) const {
    std::int64_t read = 0;
    for (std::int64_t first = -padding, position = 0; position < outputs(inputs); ++position, first += stride)
      read += std::max<std::int64_t>(0, std::min(inputs, first + kernel) - std::max<std::int64_t>(0, first));
    return read;
  }
  friend bool operator==(const Window&, const Window&) = default;
};

}  // namespace dragonn::kernels
