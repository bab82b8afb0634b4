// SPDX-License-Identifier: MIT
// The updates of the optimizers: a thread per element, arithmetic operation by operation as in
// kernels/gradient/optimizer_update.cpp (4 bytes per array read, 4 per array written). For a sparse gradient a block
// takes 2048 elements, finds their entries by bisection, and spreads them over zeros in shared memory. Entrywise
// updates: a thread per entry.
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/optimizer_update.h"

namespace dragonn::kernels::cuda {
namespace {

/// The elements per block of a sparse gradient: 8 KiB of shared memory.
constexpr unsigned kBlockElements = 2048;

/// A gradient as a kernel sees it.
struct Gradient {
  const std::uint32_t* indices;  ///< null if dense
  const float* values;
  std::size_t entries;
  std::size_t origin;  ///< the index of element 0
};

Gradient gradient_of(const GradientView& gradient) {
  return {gradient.indices().data(), gradient.values().data(), gradient.indices().size(), gradient.origin()};
}

/// Returns the first entry whose index is `position` or above.
__device__ std::size_t first_entry_at(const Gradient& gradient, std::size_t position) {
  std::size_t low = 0, high = gradient.entries;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (gradient.indices[middle] < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Spreads elements [begin, begin + kBlockElements) of a sparse gradient over `block`. All threads of the block must
/// call it.
__device__ void spread(const Gradient& gradient, std::size_t begin, float* block) {
  for (unsigned i = threadIdx.x; i < kBlockElements; i += kThreads) block[i] = 0;
  __shared__ std::size_t first, last;
  if (threadIdx.x == 0) first = first_entry_at(gradient, gradient.origin + begin);
  if (threadIdx.x == 1) last = first_entry_at(gradient, gradient.origin + begin + kBlockElements);
  __syncthreads();
  for (std::size_t entry = first + threadIdx.x; entry < last; entry += kThreads) {
    block[gradient.indices[entry] - (gradient.origin + begin)] = gradient.values[entry];
  }
  __syncthreads();
}

/// Calls `update(i, g)` for every element.
template <class Update>
__global__ void dense_kernel(Gradient gradient, std::size_t size, Update update) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) update(i, gradient.values[i]);
}
template <class Update>
__global__ void sparse_kernel(Gradient gradient, std::size_t size, Update update) {
  __shared__ float block[kBlockElements];
  const std::size_t begin = std::size_t{blockIdx.x} * kBlockElements;
  spread(gradient, begin, block);
  for (unsigned i = threadIdx.x; i < kBlockElements && begin + i < size; i += kThreads) update(begin + i, block[i]);
}

template <class Update>
void run(const char* operation, const GradientView& gradient, const Device& device, const Update& update) {
  const std::size_t size = gradient.size();
  if (size == 0) return;
  const Context& here = context(device);
  if (gradient.is_sparse()) {
    const auto blocks = static_cast<unsigned>((size + kBlockElements - 1) / kBlockElements);
    launch(here, operation, blocks, kThreads, sparse_kernel<Update>, gradient_of(gradient), size, update);
  } else {
    launch_over(here, operation, size, dense_kernel<Update>, gradient_of(gradient), size, update);
  }
}

struct SgdUpdate {
  SgdRule rule;
  float* momentum;  ///< null without momentum
  float* values;

  __device__ void operator()(std::size_t i, float raw) const {
    const float x = values[i];
    const float g = rule.scale * raw;
    const float decay = rule.weight_decay * x;
    const bool gradient_apart = rule.momentum_applied || rule.learning_rate_applied;
    float step = gradient_apart ? decay : g + decay;
    if (momentum != nullptr) {
      const float b = rule.momentum * momentum[i] + step;
      momentum[i] = b;
      step = rule.nesterov ? step + rule.momentum * b : b;
    }
    float change = rule.learning_rate * step;
    if (gradient_apart) change = rule.learning_rate_applied ? g + change : rule.learning_rate * (g + step);
    values[i] = x - change;
  }
};

struct AdamUpdate {
  AdamRule rule;
  float* first;
  float* second;
  float* values;

  __device__ void operator()(std::size_t i, float raw) const {
    const float x = values[i];
    const float decay = rule.weight_decay * x;
    float g = rule.scale * raw;
    if (!rule.decoupled) g = g + decay;
    const float m = rule.beta1 * first[i] + rule.one_minus_beta1 * g;
    const float v = rule.beta2 * second[i] + rule.one_minus_beta2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float root = sqrtf(v) * rule.root_correction + rule.epsilon;
    float change = (rule.step_size * m) / root;
    if (rule.decoupled) change = change + rule.learning_rate * decay;
    values[i] = x - change;
  }
};

void sgd(const SgdRule& rule, const GradientView& gradient, View<float> momentum, View<float> values) {
  run("sgd_update", gradient, values.device(), SgdUpdate{rule, momentum.data(), values.data()});
}

void adam(const AdamRule& rule, const GradientView& gradient, View<float> first, View<float> second,
          View<float> values) {
  run("adam_update", gradient, values.device(), AdamUpdate{rule, first.data(), second.data(), values.data()});
}

/// Updates the entries. Entries of other parts of the sparse vector are skipped.
__global__ void entries_kernel(Gradient gradient, std::size_t size, float rate, float scale, float* values) {
  for (std::size_t entry = first_element(); entry < gradient.entries; entry += element_stride()) {
    const std::size_t i = gradient.indices[entry] - gradient.origin;  // wraps below the origin
    if (i < size) values[i] -= rate * (scale * gradient.values[entry]);
  }
}

void sgd_entries(const SgdRule& rule, const GradientView& gradient, View<float> values) {
  const Gradient entries = gradient_of(gradient);
  if (entries.entries == 0) return;
  const Context& here = context(values.device());
  const float rate = rule.learning_rate_applied ? 1.0f : rule.learning_rate;
  launch_over(here, "sgd_update_entries", entries.entries, entries_kernel, entries, values.size(), rate, rule.scale,
              values.data());
}

[[maybe_unused]] const bool registered = kernels::sgd_update.add(DeviceType::kCuda, sgd) &&
                                         kernels::sgd_update_entries.add(DeviceType::kCuda, sgd_entries) &&
                                         kernels::adam_update.add(DeviceType::kCuda, adam);

}  // namespace
}  // namespace dragonn::kernels::cuda
