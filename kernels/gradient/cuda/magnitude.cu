// SPDX-License-Identifier: MIT
// Ranks of magnitudes, and the entries of largest magnitude: the radix selection leaves the k-th magnitude and the
// number of its ties that belong to the k largest on the GPU, where the compaction that follows finds them.
#include "kernels/gradient/cuda/compact_entries.h"
#include "kernels/gradient/cuda/radix_select.h"
#include "kernels/gradient/magnitude.h"

namespace dragonn::kernels::cuda {
namespace {

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
  __device__ std::uint32_t most_ties() const { return selection->rank; }
};

/// Finds the k-th magnitude and starts the compaction.
CompactionMemory start_choice(Context& here, const SparseVector& entries, std::size_t k,
                              const RadixSelection** selection, SparseVector& kept) {
  // Ties are counted in 30 bits (look_back.h).
  constexpr std::size_t kMostEntries = std::size_t{1} << 30;
  if (entries.size() >= kMostEntries)
    throw DeviceError(
        fmt::format("keep_largest: {} entries on a GPU, expected fewer than {}", entries.size(), kMostEntries));
  *selection = select_kth_largest(here, entries.values.data(), entries.size(), k);
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
  kept.truncate(k);
  check(cudaMemcpyAsync(scratch.smallest.data(), &selection->magnitude, sizeof(float), cudaMemcpyDeviceToHost,
                        here.stream()),
        "cudaMemcpyAsync");
}

[[maybe_unused]] const bool registered =
    kernels::kth_largest_magnitude.add(DeviceType::kCuda, kth_largest) &&
    kernels::magnitude_lower_bound.add(DeviceType::kCuda, lower_bound) &&
    kernels::keep_largest_rows.add(DeviceType::kCuda, keep_largest_on_gpu) &&
    kernels::start_keep_largest_rows.add(DeviceType::kCuda, start_keep_largest_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda
