// SPDX-License-Identifier: MIT
// The updates of the optimizers, arithmetic operation by operation as in kernels/gradient/optimizer_update.cpp (4 bytes
// per array read, 4 per array written). A thread has 16 bytes of every array under way, four elements, or one element
// where the arrays do not lie alike. For a sparse gradient a block takes 2048 elements, finds their entries by
// bisection, and spreads them over zeros in shared memory. Entrywise updates: a thread per entry.
#include "kernels/cuda/elements.h"
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

constexpr std::size_t kAtOnce = kPackSize<float>;
using FloatPack = Pack<float, kAtOnce>;

/// Updates element i of the arrays with gradient `raw`.
template <class Update>
__device__ void update_element(const Update& update, std::size_t i, float raw) {
  float own[Update::kArrays];
#pragma unroll
  for (std::size_t a = 0; a < Update::kArrays; ++a) own[a] = update.arrays[a][i];
  update(raw, own);
#pragma unroll
  for (std::size_t a = 0; a < Update::kArrays; ++a) update.arrays[a][i] = own[a];
}

/// Updates the elements from i on, which lie on 16 bytes.
template <class Update>
__device__ void update_pack(const Update& update, std::size_t i, const FloatPack raw) {
  FloatPack packs[Update::kArrays];
#pragma unroll
  for (std::size_t a = 0; a < Update::kArrays; ++a)
    packs[a] = *reinterpret_cast<const FloatPack*>(update.arrays[a] + i);
#pragma unroll
  for (std::size_t k = 0; k < kAtOnce; ++k) {
    float own[Update::kArrays];
#pragma unroll
    for (std::size_t a = 0; a < Update::kArrays; ++a) own[a] = packs[a].values[k];
    update(raw.values[k], own);
#pragma unroll
    for (std::size_t a = 0; a < Update::kArrays; ++a) packs[a].values[k] = own[a];
  }
#pragma unroll
  for (std::size_t a = 0; a < Update::kArrays; ++a) *reinterpret_cast<FloatPack*>(update.arrays[a] + i) = packs[a];
}

/// @param head elements come before the first pack; all if there is none.
template <class Update>
__global__ void dense_kernel(Gradient gradient, std::size_t size, std::size_t head, Update update) {
  const std::size_t packs = (size - head) / kAtOnce;
  for (std::size_t pack = first_element(); pack < packs; pack += element_stride()) {
    const std::size_t i = head + kAtOnce * pack;
    update_pack(update, i, *reinterpret_cast<const FloatPack*>(gradient.values + i));
  }
  for (std::size_t i = first_element(); i < head; i += element_stride()) update_element(update, i, gradient.values[i]);
  for (std::size_t i = head + kAtOnce * packs + first_element(); i < size; i += element_stride())
    update_element(update, i, gradient.values[i]);
}

/// @param head 0 if the arrays lie on 16 bytes.
template <class Update>
__global__ void sparse_kernel(Gradient gradient, std::size_t size, std::size_t head, Update update) {
  __shared__ FloatPack blocks[kBlockElements / kAtOnce];
  float* const block = reinterpret_cast<float*>(blocks);
  const std::size_t begin = std::size_t{blockIdx.x} * kBlockElements;
  spread(gradient, begin, block);
  const std::size_t count = min(std::size_t{kBlockElements}, size - begin);
  const std::size_t packs = head == 0 ? count / kAtOnce : 0;
  for (std::size_t pack = threadIdx.x; pack < packs; pack += kThreads)
    update_pack(update, begin + kAtOnce * pack, blocks[pack]);
  for (std::size_t i = kAtOnce * packs + threadIdx.x; i < count; i += kThreads)
    update_element(update, begin + i, block[i]);
}

/// Returns the elements of `size` before the first that lies on 16 bytes in all arrays; `size` if there is none.
/// @param values of the gradient, which are not looked at if they are null.
template <class Update>
std::size_t elements_before_packs(const Update& update, const float* values, std::size_t size) {
  const auto place = [](const float* data) { return reinterpret_cast<std::uintptr_t>(data) / sizeof(float) % kAtOnce; };
  const std::size_t first = place(update.arrays[0]);
  bool alike = values == nullptr || place(values) == first;
  for (const float* array : update.arrays) alike = alike && place(array) == first;
  return alike ? std::min(size, (kAtOnce - first) % kAtOnce) : size;
}

template <class Update>
void run(const char* operation, const GradientView& gradient, const Device& device, const Update& update) {
  const std::size_t size = gradient.size();
  if (size == 0) return;
  const Context& here = context(device);
  if (gradient.is_sparse()) {
    const auto blocks = static_cast<unsigned>((size + kBlockElements - 1) / kBlockElements);
    launch(here, operation, blocks, kThreads, sparse_kernel<Update>, gradient_of(gradient), size,
           elements_before_packs(update, nullptr, size), update);
  } else {
    const Gradient dense = gradient_of(gradient);
    const std::size_t head = elements_before_packs(update, dense.values, size);
    launch_over(here, operation, head < size ? (size + kAtOnce - 1) / kAtOnce : size, dense_kernel<Update>, dense, size,
                head, update);
  }
}

/// The arrays are the values and, with momentum, the momentum.
template <bool kMomentum>
struct SgdUpdate {
  static constexpr std::size_t kArrays = kMomentum ? 2 : 1;
  SgdRule rule;
  float* arrays[kArrays];

  __device__ void operator()(float raw, float (&own)[kArrays]) const {
    const float x = own[0];
    const float g = rule.scale * raw;
    const float decay = rule.weight_decay * x;
    const bool gradient_apart = rule.momentum_applied || rule.learning_rate_applied;
    float step = gradient_apart ? decay : g + decay;
    if constexpr (kMomentum) {
      const float b = rule.momentum * own[1] + step;
      own[1] = b;
      step = rule.nesterov ? step + rule.momentum * b : b;
    }
    float change = rule.learning_rate * step;
    if (gradient_apart) change = rule.learning_rate_applied ? g + change : rule.learning_rate * (g + step);
    own[0] = x - change;
  }
};

/// The arrays are the values and the two moments.
struct AdamUpdate {
  static constexpr std::size_t kArrays = 3;
  AdamRule rule;
  float* arrays[kArrays];

  __device__ void operator()(float raw, float (&own)[kArrays]) const {
    const float x = own[0];
    const float decay = rule.weight_decay * x;
    float g = rule.scale * raw;
    if (!rule.decoupled) g = g + decay;
    const float m = rule.beta1 * own[1] + rule.one_minus_beta1 * g;
    const float v = rule.beta2 * own[2] + rule.one_minus_beta2 * (g * g);
    own[1] = m;
    own[2] = v;
    const float root = sqrtf(v) * rule.root_correction + rule.epsilon;
    float change = (rule.step_size * m) / root;
    if (rule.decoupled) change = change + rule.learning_rate * decay;
    own[0] = x - change;
  }
};

/// The array is the values.
struct SignUpdate {
  static constexpr std::size_t kArrays = 1;
  SignRule rule;
  float* arrays[kArrays];

  __device__ void operator()(float raw, float (&own)[kArrays]) const {
    own[0] = rule.keep * own[0] - (raw != 0 ? copysignf(rule.learning_rate, raw) : 0.0f);
  }
};

void sgd(const SgdRule& rule, const GradientView& gradient, View<float> momentum, View<float> values) {
  if (momentum.empty())
    run("sgd_update", gradient, values.device(), SgdUpdate<false>{rule, {values.data()}});
  else
    run("sgd_update", gradient, values.device(), SgdUpdate<true>{rule, {values.data(), momentum.data()}});
}

void adam(const AdamRule& rule, const GradientView& gradient, View<float> first, View<float> second,
          View<float> values) {
  run("adam_update", gradient, values.device(), AdamUpdate{rule, {values.data(), first.data(), second.data()}});
}

void sign(const SignRule& rule, const GradientView& gradient, View<float> values) {
  run("sign_update", gradient, values.device(), SignUpdate{rule, {values.data()}});
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
                                         kernels::adam_update.add(DeviceType::kCuda, adam) &&
                                         kernels::sign_update.add(DeviceType::kCuda, sign);

}  // namespace
}  // namespace dragonn::kernels::cuda
