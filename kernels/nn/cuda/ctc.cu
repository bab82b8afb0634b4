// SPDX-License-Identifier: MIT
#include <cmath>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/softmax_rows.h"
#include "kernels/nn/losses.h"

namespace dragonn::kernels::cuda {
namespace {

__device__ double log_add(double a, double b) {
  const double larger = a < b ? b : a;
  return larger == -INFINITY ? larger : larger + log1p(exp((a < b ? a : b) - larger));
}

/// The batch as kernels see it. Scratch of a sample: normalizers [steps], then alpha [steps, places], then two rows of
/// beta [places], for the most places that a sample has.
template <class Element>
struct Batch {
  Reader<Element> logits;
  const std::int32_t *offsets, *labels, *lengths;  // lengths may be null
  std::size_t steps, classes, places;
  double share;
  double* scratch;
  Writer<Element> gradient;  // may be of nothing
  double* losses;

  __device__ std::size_t length(std::size_t sample) const {
    return lengths == nullptr ? steps : static_cast<std::size_t>(lengths[sample]);
  }
  __device__ double* normalizers(std::size_t sample) const { return scratch + sample * (steps + (steps + 2) * places); }
};

/// Normalizes, a block per step of a sample: computes the logarithm of the sum of its exponentials, and the softmax's
/// part of the gradient.
template <class Element>
__global__ void normalize_kernel(Batch<Element> batch) {
  const std::size_t sample = blockIdx.x / batch.steps, t = blockIdx.x % batch.steps;
  const Reader<Element> row = batch.logits + blockIdx.x * batch.classes;
  const bool wants_gradient = batch.gradient.data != nullptr;
  const Writer<Element> gradient = batch.gradient + (wants_gradient ? blockIdx.x * batch.classes : 0);
  if (t >= batch.length(sample)) {
    if (wants_gradient)
      for (std::size_t c = threadIdx.x; c < batch.classes; c += blockDim.x) gradient[c] = 0;
    return;
  }
  const SoftmaxSums sums = softmax_sums(row, batch.classes);
  const double normalizer = isfinite(sums.distances) ? sums.largest + log(sums.exponentials) : nan("");
  if (threadIdx.x == 0) batch.normalizers(sample)[t] = normalizer;
  if (!wants_gradient) return;
  for (std::size_t c = threadIdx.x; c < batch.classes; c += blockDim.x)
    gradient[c] = expf(row[c] - static_cast<float>(normalizer)) * static_cast<float>(batch.share);
}

/// The alignment of one sample, as in kernels/nn/ctc.cpp: places are its labels with blanks before, between and behind.
/// The threads of a block share the places of a step.
template <class Element>
struct Alignment {
  __device__ Alignment(const Batch<Element>& batch, std::size_t sample)
      : labels(batch.labels + batch.offsets[sample]),
        steps(batch.length(sample)),
        classes(batch.classes),
        places(2 * static_cast<std::size_t>(batch.offsets[sample + 1] - batch.offsets[sample]) + 1),
        logits(batch.logits + sample * batch.steps * classes),
        normalizers(batch.normalizers(sample)),
        alphas(normalizers + batch.steps),
        beta(alphas + batch.steps * places),
        next_beta(beta + places) {}

  __device__ double* alpha(std::size_t t) const { return alphas + t * places; }
  __device__ std::int32_t label(std::size_t place) const { return place % 2 == 0 ? kCtcBlank : labels[place / 2]; }
  __device__ double log_output(std::size_t t, std::size_t place) const {
    return static_cast<double>(logits[t * classes + static_cast<std::size_t>(label(place))]) - normalizers[t];
  }
  __device__ bool skips_to(std::size_t place) const {
    return place % 2 == 1 && place >= 2 && label(place) != label(place - 2);
  }
  __device__ double reach(std::size_t t, std::size_t place) const {
    if (t == 0) return place < 2 ? 0.0 : -INFINITY;
    const double* before = alpha(t - 1);
    double sum = before[place];
    if (place >= 1) sum = log_add(sum, before[place - 1]);
    return skips_to(place) ? log_add(sum, before[place - 2]) : sum;
  }
  __device__ double leave(std::size_t t, std::size_t place) const {
    if (t + 1 == steps) return place + 2 >= places ? 0.0 : -INFINITY;
    double sum = next_beta[place];
    if (place + 1 < places) sum = log_add(sum, next_beta[place + 1]);
    return place + 2 < places && skips_to(place + 2) ? log_add(sum, next_beta[place + 2]) : sum;
  }
  __device__ double log_likelihood() const {
    if (steps == 0) return 0;  // of no labels: others do not fit
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t place = threadIdx.x; place < places; place += blockDim.x)
        alpha(t)[place] = reach(t, place) + log_output(t, place);
      __syncthreads();
    }
    const double* last = alpha(steps - 1);
    return places == 1 ? last[0] : log_add(last[places - 1], last[places - 2]);
  }

  const std::int32_t* labels;
  std::size_t steps, classes, places;
  Reader<Element> logits;
  double *normalizers, *alphas, *beta, *next_beta;
};

/// Aligns the samples, a block each.
template <class Element>
__global__ void align_kernel(Batch<Element> batch) {
  const std::size_t sample = blockIdx.x;
  const Alignment<Element> own(batch, sample);
  const double log_likelihood = own.log_likelihood();
  if (threadIdx.x == 0) batch.losses[sample] = -log_likelihood;
  if (batch.gradient.data == nullptr) return;
  const Writer<Element> gradient = batch.gradient + sample * batch.steps * own.classes;
  if (!isfinite(log_likelihood)) {
    for (std::size_t i = threadIdx.x; i < own.steps * own.classes; i += blockDim.x) gradient[i] = nanf("");
    return;
  }
  __syncthreads();  // alpha is overwritten next
  for (std::size_t t = own.steps; t-- > 0;) {
    double* probability = own.alpha(t);  // of the step's place: takes the place of alpha
    for (std::size_t place = threadIdx.x; place < own.places; place += blockDim.x) {
      own.beta[place] = own.leave(t, place);
      probability[place] = exp(probability[place] + own.beta[place] - log_likelihood);
    }
    __syncthreads();
    for (std::size_t c = threadIdx.x; c < own.classes; c += blockDim.x) {
      float value = gradient[t * own.classes + c];
      for (std::size_t place = 0; place < own.places; ++place)
        if (static_cast<std::size_t>(own.label(place)) == c)
          value -= static_cast<float>(batch.share * probability[place]);
      gradient[t * own.classes + c] = value;
    }
    for (std::size_t place = threadIdx.x; place < own.places; place += blockDim.x)
      own.next_beta[place] = own.beta[place] + own.log_output(t, place);
    __syncthreads();
  }
}

/// Sums the losses in fixed order. One block.
__global__ void sum_kernel(const double* losses, std::size_t count, double* total) {
  double sum = 0;
  for (std::size_t sample = threadIdx.x; sample < count; sample += blockDim.x) sum += losses[sample];
  sum = block_reduce(sum, Sum());
  if (threadIdx.x == 0) *total = sum;
}

double ctc(const CtcArguments& arguments) {
  if (arguments.batch == 0) return 0;
  Context& here = context(arguments.logits.device());
  const Targets& targets = arguments.targets;
  const std::int32_t* staged = here.stage({targets.offsets.host(), targets.labels.host(), arguments.lengths});
  const std::int32_t* labels = staged + targets.offsets.size();
  auto* losses = reinterpret_cast<double*>(here.scratch(arguments.batch * sizeof(double)));
  const auto samples = static_cast<unsigned>(arguments.batch), rows = samples * static_cast<unsigned>(arguments.steps);
  with_element(arguments.logits.type(), [&](auto element) {
    using Element = decltype(element);
    const Batch<Element> batch{arguments.logits,
                               staged,
                               labels,
                               arguments.lengths.empty() ? nullptr : labels + targets.labels.size(),
                               arguments.steps,
                               arguments.classes,
                               2 * kernels::detail::longest_sequence(targets) + 1,
                               1.0 / static_cast<double>(arguments.batch),
                               arguments.scratch.data(),
                               arguments.gradient,
                               losses};
    if (rows > 0) launch(here, "ctc_normalize", rows, row_threads(arguments.classes), normalize_kernel<Element>, batch);
    launch(here, "ctc_align", samples, kThreads, align_kernel<Element>, batch);
  });
  auto* total = static_cast<double*>(here.device_results());
  launch(here, "sum_of_losses", 1, kThreads, sum_kernel, losses, arguments.batch, total);
  return here.read_result<double>();
}

[[maybe_unused]] const bool registered = kernels::ctc.add(DeviceType::kCuda, ctc);

}  // namespace
}  // namespace dragonn::kernels::cuda
