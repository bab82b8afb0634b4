// SPDX-License-Identifier: MIT
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/sum_of_losses.h"
#include "kernels/nn/multi_label.h"

namespace dragonn::kernels::cuda {
namespace {

struct Samples {
  const std::int32_t *offsets, *labels;
  std::size_t count, classes;
};

/// Returns whether ascending labels contain `label`.
__device__ bool contains(const std::int32_t* begin, const std::int32_t* end, std::int32_t label) {
  while (begin < end) {
    const std::int32_t* middle = begin + (end - begin) / 2;
    if (*middle == label) return true;
    if (*middle < label)
      begin = middle + 1;
    else
      end = middle;
  }
  return false;
}

/// Computes the losses, a block per sample. `gradient` may be the logits, or null.
template <class Element>
__global__ void sample_kernel(Samples samples, Reader<Element> logits, float share, Writer<Element> gradient,
                              OwnLoss* results) {
  const std::size_t sample = blockIdx.x;
  const Reader<Element> row = logits + sample * samples.classes;
  const std::int32_t *first = samples.labels + samples.offsets[sample],
                     *last = samples.labels + samples.offsets[sample + 1];
  double loss = 0;
  unsigned long long rank = 0;
  for (std::size_t c = threadIdx.x; c < samples.classes; c += blockDim.x) {
    // The form log(1 + exp(x)) = max(0, x) + log(1 + exp(-|x|)) overflows nowhere. A NaN stays one.
    const float x = row[c];
    loss += (x <= 0 ? 0.0f : x) + log1pf(expf(-fabsf(x)));
    const unsigned long long own = ranked(x, static_cast<std::uint32_t>(c));
    if (own > rank) rank = own;
  }
  for (const std::int32_t* label = first + threadIdx.x; label < last; label += blockDim.x) loss -= row[*label];
  loss = block_reduce(loss, Sum());
  rank = block_reduce(rank, Maximum());  // and all have read the logits
  if (threadIdx.x == 0)
    results[sample] = {loss, contains(first, last, static_cast<std::int32_t>(ranked_position(rank)))};
  if (gradient.data == nullptr) return;
  const Writer<Element> own_gradient = gradient + sample * samples.classes;
  for (std::size_t c = threadIdx.x; c < samples.classes; c += blockDim.x) {
    const float probability = share / (1 + expf(-row[c]));
    const float target = contains(first, last, static_cast<std::int32_t>(c)) ? share : 0.0f;
    own_gradient[c] = isfinite(loss) ? probability - target : nanf("");
  }
}

MultiLabelResult multi_label(TypedView<const float> logits, const Targets& targets, std::size_t classes,
                             TypedView<float> gradient) {
  const std::size_t batch = targets.offsets.size() - 1;
  if (batch == 0) return {};
  Context& here = context(logits.device());
  const std::int32_t* staged = here.stage({targets.offsets.host(), targets.labels.host()});
  const Samples samples{staged, staged + targets.offsets.size(), batch, classes};
  auto* results = reinterpret_cast<OwnLoss*>(here.scratch(batch * sizeof(OwnLoss)));
  auto* total = static_cast<MultiLabelResult*>(here.device_results());
  with_element(logits.type(), [&](auto element) {
    launch(here, "multi_label", static_cast<unsigned>(batch), row_threads(classes), sample_kernel<decltype(element)>,
           samples, logits, 1.0f / static_cast<float>(batch), gradient, results);
  });
  sum_losses(here, results, batch, total);
  return here.read_result<MultiLabelResult>();
}

[[maybe_unused]] const bool registered = kernels::multi_label.add(DeviceType::kCuda, multi_label);

}  // namespace
}  // namespace dragonn::kernels::cuda
