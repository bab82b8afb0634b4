// SPDX-License-Identifier: MIT
/// Owners of cuDNN's descriptors, and refusals: errors with a reason that a plan turns into another way.
#pragma once

#include <cudnn.h>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// Owns a cuDNN descriptor.
template <class T, cudnnStatus_t (*kCreate)(T*), cudnnStatus_t (*kDestroy)(T)>
class Descriptor {
 public:
  Descriptor() { check(kCreate(&value_), "create a cuDNN descriptor"); }
  ~Descriptor() { kDestroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;

/// The error of what cuDNN refuses, with its reason. It does not leave the file that caused it.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string reason_of(cudnnStatus_t status, const char* step) {
  char reason[512] = {};
  cudnnGetLastErrorString(reason, sizeof(reason));
  return fmt::format("{}: {} {}", step, cudnnGetErrorString(status), reason);
}

/// @throws Refusal if the status is not a success.
inline void accept(cudnnStatus_t status, const char* step) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refusal(reason_of(status, step));
}

}  // namespace dragonn::kernels::cuda
