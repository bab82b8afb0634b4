// SPDX-License-Identifier: MIT
// Decoding of lists. Adding: a kernel per list, a thread per entry. The atomic "or" that marks an element tells whether
// it is valid already; no other thread of the kernel has the same element. Reading out: a block takes 1024 words of
// marks, a thread four in one 16-byte access; places come from scans within warps and from look-back between blocks.
#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/decode.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr unsigned kBits = 32;  // of a word
constexpr unsigned kWordsPerThread = 4;
constexpr unsigned kTileWords = kThreads * kWordsPerThread;

__global__ void add_kernel(const std::uint32_t* indices, const float* added, std::size_t size, float* values,
                           std::uint32_t* marks) {
  for (std::size_t entry = first_element(); entry < size; entry += element_stride()) {
    const std::uint32_t index = indices[entry];
    if (index == kEmptySlot) continue;
    const std::uint32_t bit = 1u << index % kBits;
    const bool is_valid = (atomicOr(marks + index / kBits, bit) & bit) != 0;
    values[index] = is_valid ? values[index] + added[entry] : added[entry];
  }
}

/// Takes this thread's words, which become zeros.
__device__ void take_words(std::uint32_t* marks, std::size_t first, std::size_t size,
                           std::uint32_t (&words)[kWordsPerThread]) {
  if (first + kWordsPerThread <= size) {
    const uint4 four = *reinterpret_cast<const uint4*>(marks + first);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    if ((four.x | four.y | four.z | four.w) != 0) *reinterpret_cast<uint4*>(marks + first) = make_uint4(0, 0, 0, 0);
    return;
  }
  for (unsigned w = 0; w < kWordsPerThread; ++w) {
    words[w] = first + w < size ? marks[first + w] : 0;
    if (words[w] != 0) marks[first + w] = 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    collect_kernel(const float* values, std::uint32_t* marks, std::size_t size, std::uint32_t* indices, float* sums,
                   CompactionMemory compaction) {
  LookBack look_back(compaction);
  const std::size_t tile = look_back.take_tile();
  const std::size_t first = tile * kTileWords + threadIdx.x * kWordsPerThread;
  std::uint32_t words[kWordsPerThread];
  take_words(marks, first, size, words);
  unsigned mine = 0;
  for (const std::uint32_t word : words) mine += static_cast<unsigned>(__popc(word));
  const unsigned to_lane = sum_to_lane(mine);
  std::uint64_t end = 0;
  std::size_t place = place_of_warp(look_back, tile, __shfl_sync(kAllLanes, to_lane, kWarp - 1), &end) + to_lane - mine;
  for (unsigned w = 0; w < kWordsPerThread; ++w) {
    for (std::uint32_t word = words[w]; word != 0; word &= word - 1) {
      const auto index = static_cast<std::uint32_t>((first + w) * kBits) + static_cast<unsigned>(__ffs(word)) - 1;
      indices[place] = index;
      sums[place++] = values[index];
    }
  }
  if (tile + 1 == gridDim.x && threadIdx.x == 0) compaction.result->count = static_cast<std::uint32_t>(end);
}

void add(View<const std::uint32_t> indices, View<const float> values, const MarkedValues& sum) {
  const Context& here = context(indices.device());
  launch_over(here, "decode", indices.size(), add_kernel, indices.data(), values.data(), indices.size(),
              sum.values.data(), sum.marks.data());
}

void collect(const MarkedValues& marked, SparseVector& sum) {
  Context& here = context(sum.device());
  const std::size_t tiles = (marked.marks.size() + kTileWords - 1) / kTileWords;
  const CompactionMemory compaction = new_compaction(here, tiles);
  launch(here, "decode", static_cast<unsigned>(tiles), kThreads, collect_kernel, marked.values.data(),
         marked.marks.data(), marked.marks.size(), sum.indices.data(), sum.values.data(), compaction);
  sum.truncate(read(here, compaction).count);
}

[[maybe_unused]] const bool registered =
    kernels::decode_add.add(DeviceType::kCuda, add) && kernels::decode_collect.add(DeviceType::kCuda, collect);

}  // namespace
}  // namespace dragonn::kernels::cuda
