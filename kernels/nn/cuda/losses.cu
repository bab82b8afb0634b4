// SPDX-License-Identifier: MIT
#include <cstddef>

#include <climits>

#include "core/targets.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"
#include "kernels/nn/cuda/softmax_rows.h"
#include "kernels/nn/losses.h"

namespace dragonn::kernels::cuda {

namespace {

/// The loss of a row or a sample.
struct OwnLoss {
  double loss;
  bool correct;
};

/// Sums losses in fixed order. One block.
__global__ void sum_losses_kernel(const OwnLoss* losses, std::size_t count, LossSums* total) {
  double loss = 0;
  unsigned long long correct = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) {
    loss += losses[i].loss;
    correct += losses[i].correct ? 1 : 0;
  }
  loss = block_reduce(loss, Sum());
  correct = block_reduce(correct, Sum());
  if (threadIdx.x != 0) return;
  total->loss_sum = loss;
  total->correct = correct;
}

/// The result that the host waits for.
struct Outcome {
  LossSums sums;
  unsigned long long bad_row;  // first with a label out of range; ULLONG_MAX if there is none
  std::int32_t bad_label;
};

struct Rows {
  const std::int32_t* labels;
  std::size_t rows;
  CrossEntropy settings;
};

__device__ bool is_in_range(std::int32_t label, std::size_t classes) {
  return label >= 0 && static_cast<std::size_t>(label) < classes;
}

/// Counts the labels that are not ignored, and finds the first that is out of range. One block.
__global__ void count_kernel(Rows rows, Outcome* outcome) {
  unsigned long long count = 0, first_bad = ULLONG_MAX;
  for (std::size_t row = threadIdx.x; row < rows.rows; row += blockDim.x) {
    const std::int32_t label = rows.labels[row];
    if (label == kIgnoredLabel) continue;
    ++count;
    if (!is_in_range(label, rows.settings.classes) && row < first_bad) first_bad = row;
  }
  count = block_reduce(count, Sum());
  // The smallest row is the largest of the complements.
  const unsigned long long bad = ~block_reduce(~first_bad, Maximum());
  if (threadIdx.x != 0) return;
  outcome->sums.count = count;
  outcome->bad_row = bad;
  outcome->bad_label = bad == ULLONG_MAX ? 0 : rows.labels[bad];
}

/// Computes the losses, a block per row. `gradient` may be the logits: a thread writes only elements that it alone has
/// read since the last barrier.
template <class Element>
__global__ void row_kernel(Rows rows, Reader<Element> all_logits, const Outcome* outcome, Writer<Element> gradient,
                           OwnLoss* results) {
  const std::size_t row = blockIdx.x, columns = rows.settings.columns;
  const std::int32_t label = rows.labels[row];
  const Reader<Element> logits = all_logits + row * columns;
  const bool wants_gradient = gradient.data != nullptr, counts = is_in_range(label, rows.settings.classes);
  const Writer<Element> own_gradient = gradient + (wants_gradient ? row * columns : 0);
  if (wants_gradient)
    for (std::size_t c = (counts ? rows.settings.classes : 0) + threadIdx.x; c < columns; c += blockDim.x)
      own_gradient[c] = 0;
  if (!counts) {
    if (threadIdx.x == 0) results[row] = {0, false};
    return;
  }
  const SoftmaxSums sums = softmax_sums(logits, rows.settings.classes);
  const double smoothing = rows.settings.smoothing;
  const auto classes = static_cast<double>(rows.settings.classes);
  const auto count = static_cast<double>(rows.settings.count == 0 ? outcome->sums.count : rows.settings.count);
  const double normalizer = log(sums.exponentials);
  const double distance = static_cast<double>(logits[label]) - sums.largest;
  const double loss = (1 - smoothing) * (normalizer - distance) + smoothing * (normalizer - sums.distances / classes);
  if (threadIdx.x == 0) results[row] = {loss, sums.position == static_cast<std::uint32_t>(label)};
  if (!wants_gradient) return;
  __syncthreads();  // all have read the label's logit
  const auto scale = static_cast<float>(1 / (sums.exponentials * count));
  const auto offset = static_cast<float>(-smoothing / classes / count);
  const double target = exp(distance - normalizer) - (1 - smoothing) - smoothing / classes;
  for (std::size_t c = threadIdx.x; c < rows.settings.classes; c += blockDim.x) {
    const float others = expf(logits[c] - sums.largest) * scale + offset;
    const float value = c == static_cast<std::size_t>(label) ? static_cast<float>(target / count) : others;
    own_gradient[c] = isfinite(loss) ? value : nanf("");  // a run that has diverged must show it
  }
}

/// Returns the number of labels. @throws DataError for one out of range.
std::size_t count_labels(View<const std::int32_t> labels, std::size_t classes) {
  if (labels.empty()) return 0;
  Context& here = context(labels.device());
  launch(here, "count_labels", 1, kThreads, count_kernel, Rows{labels.data(), labels.size(), {.classes = classes}},
         static_cast<Outcome*>(here.device_results()));
  const Outcome found = here.read_result<Outcome>();
  if (found.bad_row != ULLONG_MAX) kernels::detail::refuse_label(found.bad_label, found.bad_row, classes);
  return found.sums.count;
}

LossSums cross_entropy(TypedView<const float> logits, View<const std::int32_t> labels, const CrossEntropy& settings,
                       TypedView<float> gradient) {
  if (labels.empty()) return {};
  Context& here = context(logits.device());
  const std::int32_t* placed = labels.device().is_cpu() ? here.stage({labels.host()}) : labels.data();
  const Rows rows{placed, labels.size(), settings};
  auto* outcome = static_cast<Outcome*>(here.device_results());
  auto* results = reinterpret_cast<OwnLoss*>(here.scratch(rows.rows * sizeof(OwnLoss)));
  launch(here, "count_labels", 1, kThreads, count_kernel, rows, outcome);
  with_element(logits.type(), [&](auto element) {
    launch(here, "softmax_cross_entropy", static_cast<unsigned>(rows.rows), row_threads(settings.classes),
           row_kernel<decltype(element)>, rows, logits, outcome, gradient, results);
  });
  launch(here, "sum_of_losses", 1, kThreads, sum_losses_kernel, results, rows.rows, &outcome->sums);
  const Outcome found = here.read_result<Outcome>();
  if (found.bad_row != ULLONG_MAX) kernels::detail::refuse_label(found.bad_label, found.bad_row, settings.classes);
  return found.sums;
}

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

LossSums multi_label(TypedView<const float> logits, const Targets& targets, std::size_t classes,
                     TypedView<float> gradient) {
  const std::size_t batch = targets.offsets.size() - 1;
  if (batch == 0) return {};
  Context& here = context(logits.device());
  const std::int32_t* staged = here.stage({targets.offsets.host(), targets.labels.host()});
  const Samples samples{staged, staged + targets.offsets.size(), batch, classes};
  auto* results = reinterpret_cast<OwnLoss*>(here.scratch(batch * sizeof(OwnLoss)));
  auto* total = static_cast<LossSums*>(here.device_results());
  with_element(logits.type(), [&](auto element) {
    launch(here, "multi_label", static_cast<unsigned>(batch), row_threads(classes), sample_kernel<decltype(element)>,
           samples, logits, 1.0f / static_cast<float>(batch), gradient, results);
  });
  launch(here, "sum_of_losses", 1, kThreads, sum_losses_kernel, results, batch, total);
  LossSums sums = here.read_result<LossSums>();
  sums.count = batch;
  return sums;
}

[[maybe_unused]] const bool registered = kernels::softmax_cross_entropy_rows.add(DeviceType::kCuda, cross_entropy) &&
                                         kernels::count_labels.add(DeviceType::kCuda, count_labels) &&
                                         kernels::multi_label.add(DeviceType::kCuda, multi_label);

}  // namespace
}  // namespace dragonn::kernels::cuda
