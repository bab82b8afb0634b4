// SPDX-License-Identifier: MIT
// Ranks of magnitudes, and the entries of largest magnitude: the radix selection leaves the k-th magnitude and the
// number of its ties that belong to the k largest on the GPU, where the compaction that follows finds them.
//
// Radix selection of a magnitude: a kernel per digit, from the leading one on. Its blocks of 256 threads count the
// digits of the values that share the digits known so far, in shared memory and then in common, with four 16-byte loads
// of a thread under way at once; the block that comes last finds the digit in which the rank lies. The rank stays on
// the GPU from digit to digit, so that nothing but these kernels and the clearing of their counts is started.
#include <algorithm>
#include <span>

#include "kernels/gradient/cuda/accumulate.h"
#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::cuda {
namespace {

/// The state of a selection, on the GPU at here.device_results(), which it occupies until the result was used.
struct RadixSelection {
  float magnitude;     ///< the result, once all digits are known
  std::uint32_t key;   ///< the bits of the result, as far as they are known
  std::uint32_t rank;  ///< of the result among the values that share the known digits; at last, among its ties
};

constexpr unsigned kMaxDigits = 4096;
static_assert(kBoundDigit.values <= kMaxDigits && kDigits[0].values <= kMaxDigits);

/// The counts of a digit's values, of all blocks. They are zeros at the start of every digit.
struct DigitCounts {
  std::uint32_t histogram[kMaxDigits];
  std::uint32_t blocks_done;
};

/// A digit to find.
struct DigitStep {
  Digit digit;
  std::uint32_t known_bits;  ///< of the digits before
  std::uint32_t rank;        ///< wanted of all values, for the first digit; the others find it in the selection
};

/// Returns the sum of `mine` over the threads of the block before this one. All threads must call it.
__device__ std::uint32_t sum_before(std::uint32_t mine) {
  __shared__ std::uint32_t warps[kWarps];
  const std::uint32_t sum = sum_to_lane(mine);
  if (lane_id() == kWarp - 1) warps[warp_id()] = sum;
  __syncthreads();
  std::uint32_t before = sum - mine;
  for (unsigned warp = 0; warp < kWarps; ++warp) before += warp < warp_id() ? warps[warp] : 0;
  return before;
}

/// Finds the digit in which the rank lies, counted from the highest: thread t holds the t-th part from the top. All
/// threads of one block must call it, with the same rank.
__device__ void find_digit(const Digit& digit, const std::uint32_t* histogram, std::uint32_t known, std::uint32_t rank,
                           RadixSelection* selection) {
  const unsigned each = digit.values / kThreads;
  const unsigned top = digit.values - threadIdx.x * each;  // one above this thread's highest
  std::uint32_t own = 0;
  for (unsigned d = 1; d <= each; ++d) own += __ldcg(histogram + top - d);
  std::uint32_t above = sum_before(own);
  if (above >= rank || rank > above + own) return;  // all but one thread
  for (unsigned d = 1; d <= each; ++d) {
    const std::uint32_t count = __ldcg(histogram + top - d);
    if (rank <= above + count) {
      const std::uint32_t key = known | (top - d) << digit.shift;
      *selection = {__uint_as_float(key), key, rank - above};
      return;
    }
    above += count;
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    digit_kernel(const float* values, std::size_t size, DigitStep step, DigitCounts* all, RadixSelection* selection) {
  __shared__ std::uint32_t counts[kMaxDigits];
  __shared__ bool is_last;
  const bool is_first = step.known_bits == 0;
  const std::uint32_t known = is_first ? 0 : selection->key, rank = is_first ? step.rank : selection->rank;
  for (unsigned d = threadIdx.x; d < step.digit.values; d += kThreads) counts[d] = 0;
  __syncthreads();
  for_each_value<kAligned>(values, size, [&](float value) {
    const std::uint32_t key = magnitude_key(value);
    if ((key & step.known_bits) == known) atomicAdd(counts + step.digit.of(key), 1u);
  });
  __syncthreads();
  for (unsigned d = threadIdx.x; d < step.digit.values; d += kThreads) {
    if (counts[d] > 0) atomicAdd(all->histogram + d, counts[d]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&all->blocks_done, 1u) + 1 == gridDim.x;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  find_digit(step.digit, all->histogram, known, rank, selection);
  __syncthreads();
  for (unsigned d = threadIdx.x; d < step.digit.values; d += kThreads) all->histogram[d] = 0;
  if (threadIdx.x == 0) all->blocks_done = 0;
}

const RadixSelection* select_digits(Context& here, const float* values, std::size_t size, std::size_t k,
                                    std::span<const Digit> digits) {
  auto* const selection = static_cast<RadixSelection*>(here.device_results());
  auto* const counts = reinterpret_cast<DigitCounts*>(here.scratch(sizeof(DigitCounts)));
  check(cudaMemsetAsync(counts, 0, sizeof(DigitCounts), here.stream()), "cudaMemsetAsync");
  const unsigned blocks = here.blocks((size + kTileElements - 1) / kTileElements, 1);
  DigitStep step{.digit = {}, .known_bits = 0, .rank = static_cast<std::uint32_t>(k)};
  const AccumulateJob job{.gradient = values};
  for (const Digit& digit : digits) {
    step.digit = digit;
    with_alignment<AccumulateKind::kExamine>(job, [&]<AccumulateKind, bool kAligned>() {
      launch(here, "k-th largest magnitude", blocks, kThreads, digit_kernel<kAligned>, values, size, step, counts,
             selection);
    });
    step.known_bits |= (digit.values - 1) << digit.shift;
  }
  return selection;
}

/// Returns the k-th largest |x| of `size` floats, 0 < k <= size < 2^32; a NaN counts as 0. Radix selection on the bits
/// in three digits: reads 12 bytes per value. Uses here.scratch().
const RadixSelection* select_kth_largest(Context& here, const float* values, std::size_t size, std::size_t k) {
  return select_digits(here, values, size, k, kDigits);
}

/// Returns the leading bits of it: a magnitude that at least k values reach. Reads 4 bytes per value.
const RadixSelection* select_lower_bound(Context& here, const float* values, std::size_t size, std::size_t k) {
  return select_digits(here, values, size, k, {&kBoundDigit, 1});
}

float kth_largest(View<const float> values, std::size_t k, MagnitudeScratch& /*scratch*/) {
  Context& here = context(values.device());
  select_kth_largest(here, values.data(), values.size(), k);
  return here.read_result<RadixSelection>().magnitude;
}

float lower_bound(View<const float> values, std::size_t k, MagnitudeScratch& /*scratch*/) {
  Context& here = context(values.device());
  select_lower_bound(here, values.data(), values.size(), k);
  return here.read_result<RadixSelection>().magnitude;
}

/// Keeps entries above the k-th magnitude and, of its ties, those of lowest index.
struct AmongLargest {
  const RadixSelection* selection;
  __device__ Verdict operator()(std::uint32_t /*index*/, float value) const {
    const float magnitude = fabsf(value);
    if (magnitude == selection->magnitude) return Verdict::kTie;
    return magnitude > selection->magnitude ? Verdict::kKeep : Verdict::kDrop;
  }
  __device__ std::uint32_t max_ties() const { return selection->rank; }
};

/// Finds the k-th magnitude and starts the compaction.
CompactionMemory start_choice(Context& here, const SparseVector& entries, std::size_t k,
                              const RadixSelection** selection, SparseVector& kept) {
  // Ties are counted in 30 bits (look_back.h).
  constexpr std::size_t kMaxEntries = std::size_t{1} << 30;
  if (entries.size() >= kMaxEntries)
    throw DeviceError(
        fmt::format("keep_largest: {} entries on a GPU, expected fewer than {}", entries.size(), kMaxEntries));
  *selection = select_kth_largest(here, entries.values.data(), entries.size(), std::min(k, entries.size()));
  return start_compaction(here, entries, AmongLargest{*selection}, kept);
}

float keep_largest_on_gpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& /*scratch*/,
                          SparseVector& kept) {
  Context& here = context(entries.device());
  const RadixSelection* selection = nullptr;
  const CompactionMemory compaction = start_choice(here, entries, k, &selection, kept);
  // Both results come with one wait: the selection's is read beside the compaction's.
  auto* const magnitude = static_cast<float*>(here.host_results()) + Context::kResultBytes / sizeof(float) - 1;
  check(cudaMemcpyAsync(magnitude, &selection->magnitude, sizeof(float), cudaMemcpyDeviceToHost, here.stream()),
        "cudaMemcpyAsync");
  kept.truncate(read(here, compaction).count);
  return *magnitude;
}

void start_keep_largest_on_gpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch,
                               SparseVector& kept) {
  Context& here = context(entries.device());
  const RadixSelection* selection = nullptr;
  start_choice(here, entries, k, &selection, kept);
  kept.truncate(std::min(k, entries.size()));
  scratch.smallest.resize_discard(1);
  check(cudaMemcpyAsync(scratch.smallest.data(), &selection->magnitude, sizeof(float), cudaMemcpyDeviceToHost,
                        here.stream()),
        "cudaMemcpyAsync");
}

[[maybe_unused]] const bool registered = kernels::kth_largest_magnitude.add(DeviceType::kCuda, kth_largest) &&
                                         kernels::magnitude_lower_bound.add(DeviceType::kCuda, lower_bound) &&
                                         kernels::keep_largest.add(DeviceType::kCuda, keep_largest_on_gpu) &&
                                         kernels::start_keep_largest.add(DeviceType::kCuda, start_keep_largest_on_gpu);

/// Returns |acc| for the sample, 0 for a NaN.
__device__ float sampled_magnitude(float acc) {
  return acc == acc ? fabsf(acc) : 0.0f;
}

/// Samples; only the last line can be shorter than a multiple of four elements.
template <AccumulateKind kKind, bool kAligned>
__global__ void sample_kernel(AccumulateJob job, std::size_t numel, SamplePlan plan, float* magnitudes,
                              std::size_t size) {
  for (std::size_t place = kFour * first_element(); place < size; place += kFour * element_stride()) {
    const std::size_t i = sampled_line(numel, plan, place / kLineElements) + place % kLineElements;
    const AccumulateJob mine = job_from<kKind>(job, i);
    if (place + kFour <= size) {
      Four acc = load_elements<kKind, kAligned>(mine).template accumulate<kKind>(mine);
      for (float& value : acc.lane) value = sampled_magnitude(value);
      store_four<true>(acc, magnitudes + place);
      continue;
    }
    for (unsigned j = 0; place + j < size; ++j) {
      Element element = load_element<kKind>(mine, j);
      magnitudes[place + j] = sampled_magnitude(accumulate_one<kKind>(mine, element));
    }
  }
}

}  // namespace

const float* sample_on_device(Context& here, const AccumulateJob& job, const SamplePlan& plan, std::size_t numel,
                              SampleScratch& scratch) {
  const std::size_t size = sample_size(numel, plan);
  count_swept(size);
  scratch.magnitudes.resize_discard(size);
  if (plan.rank > size) return nullptr;
  float* const magnitudes = scratch.magnitudes.data();
  with_kind(job, [&]<AccumulateKind kKind, bool kAligned>() {
    launch_over(here, "sample of magnitudes", (size + kFour - 1) / kFour, sample_kernel<kKind, kAligned>, job, numel,
                plan, magnitudes, size);
  });
  return &select_kth_largest(here, magnitudes, size, plan.rank)->magnitude;
}

}  // namespace dragonn::kernels::cuda
