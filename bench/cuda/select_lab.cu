// SPDX-License-Identifier: MIT
// Variants of the threshold selection in one standalone program: it checks them against each other and against the
// host, and measures them beside a copy, so that a choice between them rests on one run on the GPU at hand.
//
// nvcc -std=c++20 -O3 --fmad=false -arch=sm_90 -o select_lab bench/cuda/select_lab.cu
//
// Usage: select_lab [--check] [--numel N] [--density D] [--rounds R]
//   --check: compare only; --numel: elements of the timed gradient (268435456); --density: share to select (0.001);
//   --rounds: timed calls of each variant, in turns (21)
// Exit code: 0 done, 1 a variant is wrong, 2 bad usage, 77 there is no GPU.
//
// examine reads the values; fused accumulates residual = 0.9 residual + gradient first, which reads 8 bytes per element
// and writes 4. All select |x| >= threshold, ascending. look_back: a tile per block, places by decoupled look-back, 32
// elements a thread as the product has, or 64. segments: a chunk per warp, whose hits go to the warp's own segment; a
// second kernel packs the segments. Where a segment overflows, look_back repeats the selection.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <functional>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 4;  // per multiprocessor, at least: registers for eight 16-byte loads under way
constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr unsigned kFour = 4;                   // elements of a 16-byte access
constexpr unsigned kWarpFours = kWarp * kFour;  // elements of one 16-byte access of a warp
constexpr unsigned kVectors = 8;                // 16-byte accesses of a thread, whose elements fit the bits of a word
constexpr unsigned kRound = kVectors * kWarpFours;  // elements of a warp
constexpr float kDecay = 0.9f;
constexpr std::size_t kCapacityShare = 32;  // a list has room for one element in so many

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "select_lab: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

cudaStream_t stream = nullptr;

/// Starts a kernel.
template <class... Parameters>
void start(std::size_t blocks, void (*kernel)(Parameters...), const std::type_identity_t<Parameters>&... arguments) {
#ifdef __CUDACC__
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(arguments...);
#else
  dragonn::emulation::enqueue(
      stream, [=] { dragonn::emulation::run(static_cast<unsigned>(blocks), kThreads, [&] { kernel(arguments...); }); });
#endif
  check(cudaGetLastError(), "launch");
}

/// An array on the GPU.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size) : size_(size) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(1, size) * sizeof(T)), "cudaMalloc");
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  void clear() {
    if (size_ > 0) check(cudaMemsetAsync(data_, 0, size_ * sizeof(T), stream), "cudaMemsetAsync");
  }
  void set(const std::vector<T>& values) {
    check(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream), "upload");
  }
  std::vector<T> get(std::size_t count) const {
    std::vector<T> values(count);
    if (count == 0) return values;
    check(cudaMemcpyAsync(values.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost, stream), "download");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

/// A gradient, the residual that it may be added to, and the rule of the selection.
struct Input {
  const float* gradient;
  float* residual;
  std::size_t size;
  float bound;  ///< positive
};

/// The memory of a selected list, which ends at `capacity`.
struct List {
  std::uint32_t* indices;
  float* values;
  std::uint32_t capacity;
};

/// The numbers that a selection leaves for the host, zeros at first.
struct Outcome {
  std::uint32_t count;       ///< hits, with and without room in the list
  std::uint32_t non_finite;  ///< 1 if NaN or infinity was seen
  std::uint32_t overflows;   ///< 1 if a segment was too short
  std::uint32_t tickets;
};

__device__ unsigned lane_id() {
  return threadIdx.x % kWarp;
}
__device__ unsigned warp_id() {
  return threadIdx.x / kWarp;
}

/// Returns the offset from a thread's first element of the one that bit 4 v + j stands for: element j of vector v.
__device__ unsigned place_of_bit(unsigned bit) {
  return bit / kFour * kWarpFours + bit % kFour;
}

__device__ float accumulate(float gradient, float residual) {
  return kDecay * residual + gradient;
}

/// Accumulates the vectors of a thread, and calls see(bit, value). All loads of a batch come first.
template <bool kFused, class See>
__device__ void see_whole(const float* gradient, float* residual, const See& see) {
  constexpr unsigned kBatch = kFused ? 4 : kVectors;
#pragma unroll
  for (unsigned begin = 0; begin < kVectors; begin += kBatch) {
    float4 acc[kBatch], old[kBatch];
#pragma unroll
    for (unsigned v = 0; v < kBatch; ++v) {
      acc[v] = *reinterpret_cast<const float4*>(gradient + (begin + v) * kWarpFours);
      if constexpr (kFused) old[v] = *reinterpret_cast<const float4*>(residual + (begin + v) * kWarpFours);
    }
#pragma unroll
    for (unsigned v = 0; v < kBatch; ++v) {
      if constexpr (kFused) {
        acc[v] = make_float4(accumulate(acc[v].x, old[v].x), accumulate(acc[v].y, old[v].y),
                             accumulate(acc[v].z, old[v].z), accumulate(acc[v].w, old[v].w));
        *reinterpret_cast<float4*>(residual + (begin + v) * kWarpFours) = acc[v];
      }
      const unsigned bit = (begin + v) * kFour;
      see(bit, acc[v].x), see(bit + 1, acc[v].y), see(bit + 2, acc[v].z), see(bit + 3, acc[v].w);
    }
  }
}

/// Does the same with elements that may lie beyond the end.
template <bool kFused, class See>
__device__ void see_edge(const Input& input, std::size_t first, const See& see) {
#pragma unroll 1
  for (unsigned bit = 0; bit < kVectors * kFour; ++bit) {
    const std::size_t i = first + place_of_bit(bit);
    if (i >= input.size) return;
    const float value = kFused ? accumulate(input.gradient[i], input.residual[i]) : input.gradient[i];
    if constexpr (kFused) input.residual[i] = value;
    see(bit, value);
  }
}

/// Returns the hits of this thread in a round from `begin`, the warp's first element, as bits.
template <bool kFused>
__device__ unsigned find_hits(const Input& input, std::size_t begin, float* finite) {
  unsigned hits = 0;
  const auto see = [&](unsigned bit, float value) {
    if (fabsf(value) >= input.bound) hits |= 1u << bit;
    *finite = __fmaf_rn(value, 0.0f, *finite);
  };
  const std::size_t first = begin + lane_id() * kFour;
  if (begin + kRound <= input.size) {
    see_whole<kFused>(input.gradient + first, kFused ? input.residual + first : nullptr, see);
  } else {
    see_edge<kFused>(input, first, see);
  }
  return hits;
}

__device__ void report(float finite, Outcome* outcome) {
  if (__any_sync(kAllLanes, finite != finite) != 0 && lane_id() == 0) outcome->non_finite = 1;
}

/// Writes the hits of a warp from `place` on, ascending. `begin` is the warp's first element.
__device__ void write_hits(const float* acc, unsigned hits, std::uint32_t begin, std::uint32_t place,
                           const List& list) {
  for (unsigned left = __reduce_or_sync(kAllLanes, hits); left != 0;) {
    const unsigned shift = (static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1) / kFour * kFour;
    left &= ~(15u << shift);
    unsigned mine = hits >> shift & 15u;
    const auto count = static_cast<unsigned>(__popc(mine));
    std::uint32_t next = place;
    for (unsigned bit = 0; bit < 3; ++bit) {
      const unsigned lanes = __ballot_sync(kAllLanes, (count >> bit & 1u) != 0);
      next += static_cast<unsigned>(__popc(lanes & ((1u << lane_id()) - 1))) << bit;
      place += static_cast<unsigned>(__popc(lanes)) << bit;
    }
    for (; mine != 0 && next < list.capacity; mine &= mine - 1, ++next) {
      const unsigned bit = shift + static_cast<unsigned>(__ffs(static_cast<int>(mine))) - 1;
      const std::uint32_t i = begin + lane_id() * kFour + place_of_bit(bit);
      list.indices[next] = i;
      list.values[next] = acc[i];
    }
  }
}

__device__ unsigned hits_of_warp(unsigned hits) {
  return __reduce_add_sync(kAllLanes, static_cast<unsigned>(__popc(hits)));
}

// Look-back: as kernels/gradient/cuda/look_back.h, with counts of 32 bits.

constexpr std::uint64_t kOwn = std::uint64_t{1} << 62, kUpToEnd = std::uint64_t{2} << 62, kState = kOwn | kUpToEnd;

/// Returns the hits of all tiles before `tile`, whose own are `own`. All lanes of one warp must call it.
__device__ std::uint32_t look_back(volatile std::uint64_t* words, long long tile, std::uint32_t own) {
  std::uint32_t before = 0;
  if (tile > 0) {
    if (lane_id() == 0) words[tile] = kOwn | own;
    for (long long nearest = tile - 1;; nearest -= kWarp) {
      const long long other = nearest - static_cast<long long>(lane_id());
      std::uint64_t word = kUpToEnd;
      while (other >= 0 && ((word = words[other]) & kState) == 0) {
      }
      __syncwarp();
      const unsigned ends = __ballot_sync(kAllLanes, (word & kState) == kUpToEnd);
      const unsigned counted = ends == 0 ? kWarp : static_cast<unsigned>(__ffs(static_cast<int>(ends)));
      before += __reduce_add_sync(kAllLanes, lane_id() < counted ? static_cast<std::uint32_t>(word) : 0);
      if (ends != 0) break;
    }
  }
  if (lane_id() == 0) words[tile] = kUpToEnd | (before + own);
  return before;
}

/// Selects by look-back. A thread finds its hits in kRounds rounds, in a word of bits each.
template <bool kFused, unsigned kRounds>
__global__ void __launch_bounds__(kThreads, kBlocks)
    look_back_kernel(Input input, List list, Outcome* outcome, std::uint64_t* words) {
  __shared__ std::uint32_t ticket, places[kWarps + 1];
  if (threadIdx.x == 0) ticket = atomicAdd(&outcome->tickets, 1u);
  __syncthreads();
  const std::size_t begin = (std::size_t{ticket} * kWarps + warp_id()) * kRounds * kRound;
  float finite = 0;
  unsigned hits[kRounds], mine = 0;
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::size_t first = begin + round * kRound;
    hits[round] = first < input.size ? find_hits<kFused>(input, first, &finite) : 0;
    mine += hits_of_warp(hits[round]);
  }
  report(finite, outcome);
  if (lane_id() == 0) places[warp_id()] = mine;
  __syncthreads();
  if (warp_id() == 0) {
    const std::uint32_t own = lane_id() < kWarps ? places[lane_id()] : 0;
    std::uint32_t sum = own;
    for (unsigned step = 1; step < kWarps; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane_id() >= step) sum += other;
    }
    const std::uint32_t before = look_back(words, ticket, __shfl_sync(kAllLanes, sum, kWarps - 1));
    if (lane_id() < kWarps) places[lane_id()] = before + sum - own;
    if (lane_id() == kWarps - 1) places[kWarps] = before + sum;
  }
  __syncthreads();
  std::uint32_t place = places[warp_id()];
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    if (mine == 0) break;
    write_hits(kFused ? input.residual : input.gradient, hits[round],
               static_cast<std::uint32_t>(begin) + round * kRound, place, list);
    place += hits_of_warp(hits[round]);
  }
  if (ticket + 1 == gridDim.x && threadIdx.x == 0) outcome->count = places[kWarps];
}

// Segments.

/// The chunks of the warps: `chunk` elements each, with room for `capacity` hits.
struct Segments {
  std::size_t chunk;
  std::uint32_t capacity;
  std::uint32_t warps;
  std::uint32_t* counts;  ///< of the warps' hits, with and without room
  std::uint32_t* indices;
  float* values;
};

template <bool kFused>
__global__ void __launch_bounds__(kThreads, kBlocks) segment_kernel(Input input, Segments segments, Outcome* outcome) {
  const std::uint32_t warp = blockIdx.x * kWarps + warp_id();
  if (warp >= segments.warps) return;
  const std::size_t begin = warp * segments.chunk, end = min(begin + segments.chunk, input.size);
  const List list{segments.indices + std::size_t{warp} * segments.capacity,
                  segments.values + std::size_t{warp} * segments.capacity, segments.capacity};
  std::uint32_t count = 0;
  float finite = 0;
  for (std::size_t i = begin; i < end; i += kRound) {
    const unsigned hits = find_hits<kFused>(input, i, &finite);
    if (__any_sync(kAllLanes, hits != 0) == 0) continue;
    write_hits(kFused ? input.residual : input.gradient, hits, static_cast<std::uint32_t>(i), count, list);
    count += hits_of_warp(hits);
  }
  report(finite, outcome);
  if (lane_id() == 0) segments.counts[warp] = count;
}

/// Packs the segments of kWarps warps per block: every block adds up the counts before its own.
__global__ void __launch_bounds__(kThreads) pack_kernel(Segments segments, List list, Outcome* outcome) {
  __shared__ std::uint32_t sums[kWarps];
  const std::uint32_t first = blockIdx.x * kWarps;
  std::uint32_t mine = 0;
  for (std::uint32_t warp = threadIdx.x; warp < first; warp += kThreads) mine += segments.counts[warp];
  mine = __reduce_add_sync(kAllLanes, mine);
  if (lane_id() == 0) sums[warp_id()] = mine;
  __syncthreads();
  std::uint32_t place = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) place += sums[warp];
  for (unsigned warp = 0; warp < warp_id(); ++warp)
    place += first + warp < segments.warps ? segments.counts[first + warp] : 0;
  const std::uint32_t own = first + warp_id();
  if (own >= segments.warps) return;
  const std::uint32_t count = segments.counts[own];
  if (lane_id() == 0) {
    if (count > segments.capacity) outcome->overflows = 1;
    if (own + 1 == segments.warps) outcome->count = place + count;
  }
  const std::size_t from = std::size_t{own} * segments.capacity;
  for (std::uint32_t entry = lane_id(); entry < min(count, segments.capacity); entry += kWarp) {
    if (place + entry >= list.capacity) return;
    list.indices[place + entry] = segments.indices[from + entry];
    list.values[place + entry] = segments.values[from + entry];
  }
}

/// All memory of the variants for gradients of up to `size` elements.
struct Scratch {
  explicit Scratch(std::size_t max)
      : size(max),
        capacity(max / kCapacityShare + 64),
        indices(capacity),
        values(capacity),
        outcome(1),
        words(max / (kThreads * kFour * kVectors) + 2),
        warps(std::max<std::size_t>(1, std::min<std::size_t>(max_warps(), max / 4096))),
        segment_capacity(static_cast<std::uint32_t>(chunk() / kCapacityShare + 32)),
        counts(warps),
        segment_indices(warps * segment_capacity),
        segment_values(warps * segment_capacity) {}

  /// Returns the warps that run at once with four blocks per multiprocessor, twice: a warp has about 32 K elements of
  /// 2^28.
  static std::size_t max_warps() {
    int device = 0, multiprocessors = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    return static_cast<std::size_t>(multiprocessors) * 4 * kWarps * 2;
  }
  /// Returns the elements of a warp: whole turns of its loop.
  std::size_t chunk() const { return ((size + warps - 1) / warps + kRound - 1) / kRound * kRound; }
  List list() const { return {indices.data(), values.data(), static_cast<std::uint32_t>(capacity)}; }
  Segments segments() const {
    return {chunk(),       segment_capacity,       static_cast<std::uint32_t>(warps),
            counts.data(), segment_indices.data(), segment_values.data()};
  }

  std::size_t size, capacity;
  Array<std::uint32_t> indices;
  Array<float> values;
  Array<Outcome> outcome;
  Array<std::uint64_t> words;
  std::size_t warps;
  std::uint32_t segment_capacity;
  Array<std::uint32_t> counts, segment_indices;
  Array<float> segment_values;
};

/// Starts a selection by look-back, with counts from zero.
template <bool kFused, unsigned kRounds>
void start_look_back(const Input& input, const List& list, Scratch& scratch) {
  constexpr std::size_t kTile = kThreads * kFour * kVectors * kRounds;
  scratch.outcome.clear();
  scratch.words.clear();
  start((input.size + kTile - 1) / kTile, look_back_kernel<kFused, kRounds>, input, list, scratch.outcome.data(),
        scratch.words.data());
}

template <bool kFused, unsigned kRounds>
void select_by_look_back(const Input& input, Scratch& scratch) {
  start_look_back<kFused, kRounds>(input, scratch.list(), scratch);
}

template <bool kFused>
void select_by_segments(const Input& input, Scratch& scratch) {
  const std::size_t blocks = (scratch.warps + kWarps - 1) / kWarps;
  scratch.outcome.clear();
  start(blocks, segment_kernel<kFused>, input, scratch.segments(), scratch.outcome.data());
  start(blocks, pack_kernel, scratch.segments(), scratch.list(), scratch.outcome.data());
}

/// A way to select, and the bytes of gradients that it moves per element.
struct Variant {
  const char* name;
  bool fused;
  double bytes_per_element;
  void (*run)(const Input&, Scratch&);
};
constexpr Variant kVariants[] = {{"examine look_back 32", false, 4, select_by_look_back<false, 1>},
                                 {"examine look_back 64", false, 4, select_by_look_back<false, 2>},
                                 {"examine segments", false, 4, select_by_segments<false>},
                                 {"fused look_back 32", true, 12, select_by_look_back<true, 1>},
                                 {"fused look_back 64", true, 12, select_by_look_back<true, 2>},
                                 {"fused segments", true, 12, select_by_segments<true>}};

/// The selected entries.
struct Selected {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  bool non_finite = false;
  bool repeated = false;
};

/// Runs a variant; where a segment or the list is too short, look-back on what is stored, with a list that is long
/// enough.
Selected select(const Variant& variant, const Input& input, Scratch& scratch) {
  variant.run(input, scratch);
  const Outcome outcome = scratch.outcome.get(1)[0];
  const bool is_repeated = outcome.overflows != 0 || outcome.count > scratch.capacity;
  const Array<std::uint32_t> indices(is_repeated ? outcome.count : 0);
  const Array<float> values(indices.size());
  if (is_repeated) {
    const Input stored{variant.fused ? input.residual : input.gradient, nullptr, input.size, input.bound};
    start_look_back<false, 1>(stored, {indices.data(), values.data(), outcome.count}, scratch);
  }
  return {.indices = (is_repeated ? indices : scratch.indices).get(outcome.count),
          .values = (is_repeated ? values : scratch.values).get(outcome.count),
          .non_finite = outcome.non_finite != 0,
          .repeated = is_repeated};
}

// Inputs.

/// Returns values in (-1, 1), uniform: so a threshold of 1 - density selects that share. clustered: the large ones are
/// in a few dense runs.
std::vector<float> draw(std::size_t size, std::uint64_t seed, bool clustered) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebull;
    bits ^= bits >> 31;
    const float uniform = static_cast<float>(bits >> 40) / static_cast<float>(1 << 24);  // in [0, 1), exact
    const float magnitude = clustered ? (i / 1500 % 40 == 7 ? 1.0f - uniform / 64 : uniform / 2) : uniform;
    values[i] = (bits & 1) != 0 ? -magnitude : magnitude;
  }
  return values;
}

Selected select_on_host(const std::vector<float>& gradient, std::vector<float>& residual, bool fused, float bound) {
  Selected selected;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    float value = gradient[i];
    if (fused) {
      const float kept = kDecay * residual[i];
      residual[i] = value = kept + gradient[i];
    }
    if (!std::isfinite(value)) selected.non_finite = true;
    if (std::fabs(value) < bound || value != value) continue;
    selected.indices.push_back(static_cast<std::uint32_t>(i));
    selected.values.push_back(value);
  }
  return selected;
}

/// Returns whether all values have the same bits. The bits of a NaN are the processor's own.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x != x ? y != y : std::memcmp(&x, &y, sizeof(x)) == 0; });
}

/// Compares all variants on one input with the host. Returns the number of those that are wrong.
int compare(const std::vector<float>& gradient, float bound, bool clustered, int* repeated) {
  const std::size_t size = gradient.size();
  Scratch scratch(size);
  Array<float> input(size), residual(size);
  const std::vector<float> before = draw(size, 2, clustered);
  int wrong = 0;
  for (const Variant& variant : kVariants) {
    std::vector<float> expected_residual = before;
    const Selected expected = select_on_host(gradient, expected_residual, variant.fused, bound);
    input.set(gradient);
    residual.set(before);
    const Selected found = select(variant, {input.data(), residual.data(), size, bound}, scratch);
    const bool is_right = found.indices == expected.indices && same_bits(found.values, expected.values) &&
                          same_bits(residual.get(size), expected_residual) && found.non_finite == expected.non_finite;
    *repeated += found.repeated ? 1 : 0;
    if (is_right) continue;
    ++wrong;
    std::fprintf(stderr, "select_lab: %s is wrong: %zu elements, threshold %g, %s: %zu entries instead of %zu\n",
                 variant.name, size, static_cast<double>(bound), clustered ? "clustered" : "spread",
                 found.indices.size(), expected.indices.size());
  }
  return wrong;
}

/// Compares on several sizes, shares and inputs. Returns whether all is right.
bool check_all(std::vector<std::size_t> sizes) {
  int inputs = 0, wrong = 0, repeated = 0;
  for (const std::size_t size : sizes) {
    for (const bool clustered : {false, true}) {
      std::vector<float> gradient = draw(size, 1, clustered);
      for (const float bound : {1e-45f, 0.3f, 0.7f, 0.99f, 0.999f, 3.0f}) {
        wrong += compare(gradient, bound, clustered, &repeated);
        ++inputs;
      }
      gradient[size / 2] = NAN;
      gradient[size - 1] = clustered ? INFINITY : -NAN;
      wrong += compare(gradient, 0.99f, clustered, &repeated);
      ++inputs;
    }
  }
  std::printf("check: %zu variants on %d inputs, %d selections repeated for want of room, %d wrong\n",
              std::size(kVariants), inputs, repeated, wrong);
  return wrong == 0;
}

#ifdef __CUDACC__
constexpr unsigned kCopied = 4;  // 16-byte accesses of a thread

__global__ void __launch_bounds__(kThreads) copy_kernel(const float* from, float* to, std::size_t size) {
  const std::size_t begin = (std::size_t{blockIdx.x} * kWarps + warp_id()) * kCopied * kWarpFours + lane_id() * kFour;
  if (begin + (kCopied - 1) * kWarpFours + kFour > size) return;  // the copy is timed, nobody reads it
  float4 four[kCopied];
#pragma unroll
  for (unsigned v = 0; v < kCopied; ++v) four[v] = *reinterpret_cast<const float4*>(from + begin + v * kWarpFours);
#pragma unroll
  for (unsigned v = 0; v < kCopied; ++v) *reinterpret_cast<float4*>(to + begin + v * kWarpFours) = four[v];
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

/// Times a call on the GPU's clock.
double milliseconds_of(const std::function<void()>& work) {
  static const cudaEvent_t begin = make_event(), end = make_event();
  check(cudaEventRecord(begin, stream), "cudaEventRecord");
  work();
  check(cudaEventRecord(end, stream), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds);
}

/// A timed call and its milliseconds, one per round.
struct Timed {
  std::string name;
  double bytes;  ///< moved by a call
  std::function<void()> call;
  std::vector<double> milliseconds = {};
};

/// Measures all variants on one gradient, in turns. The residual is ten times the gradient, and stays so: the fused
/// variants select the same share at every call.
void measure(std::size_t size, double density, int rounds) {
  Scratch scratch(size);
  Array<float> gradient(size), residual(size), copy(size);
  std::vector<float> values = draw(size, 1, false);
  gradient.set(values);
  for (float& value : values) value *= 10;
  residual.set(values);
  const Input input{gradient.data(), residual.data(), size, 1.0f - static_cast<float>(density)};
  const Input fused{gradient.data(), residual.data(), size, 10 * input.bound};
  const double elements = static_cast<double>(size), entry_bytes = 8 * density * elements;
  std::vector<Timed> calls;
  calls.push_back({"copy", 8 * elements, [&] {
                     constexpr std::size_t kTile = kThreads * kFour * kCopied;
                     start((size + kTile - 1) / kTile, copy_kernel, gradient.data(), copy.data(), size);
                   }});
  for (const Variant& variant : kVariants) {
    calls.push_back({variant.name, variant.bytes_per_element * elements + entry_bytes,
                     [&] { variant.run(variant.fused ? fused : input, scratch); }});
  }
  for (int round = -2; round < rounds; ++round) {
    for (Timed& call : calls) {
      const double milliseconds = milliseconds_of(call.call);
      if (round >= 0) call.milliseconds.push_back(milliseconds);
    }
  }
  std::printf("%zu elements, density %g\n", size, density);
  std::printf("%-28s %10s %10s %10s %10s\n", "call", "median ms", "least ms", "GB/s", "of copy");
  double copy_rate = 0;
  for (Timed& call : calls) {
    std::sort(call.milliseconds.begin(), call.milliseconds.end());
    const double median = call.milliseconds[call.milliseconds.size() / 2], rate = call.bytes / median * 1e-6;
    if (copy_rate == 0) copy_rate = rate;
    std::printf("%-28s %10.4f %10.4f %10.0f %10.3f\n", call.name.c_str(), median, call.milliseconds.front(), rate,
                rate / copy_rate);
  }
}
#endif

struct Options {
  bool check_only = false;
  std::size_t size = std::size_t{1} << 28;
  double density = 0.001;
  int rounds = 21;
};

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const bool has_value = i + 1 < count;
    if (name == "--check") {
      options.check_only = true;
    } else if (name == "--numel" && has_value) {
      options.size = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--density" && has_value) {
      options.density = std::strtod(arguments[++i], nullptr);
    } else if (name == "--rounds" && has_value) {
      options.rounds = std::atoi(arguments[++i]);
    } else {
      std::fprintf(stderr, "select_lab: %s: expected [--check] [--numel N] [--density D] [--rounds R]\n", name.c_str());
      std::exit(2);
    }
  }
  const bool fits = options.size >= 65536 && options.size <= std::size_t{1} << 31;
  if (!fits || options.rounds < 1 || !(options.density > 0 && options.density < 1.0 / kCapacityShare)) {
    std::fprintf(stderr, "select_lab: expected 65536 <= N <= 2147483648, 0 < D < 1/%zu and R >= 1\n", kCapacityShare);
    std::exit(2);
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  [[maybe_unused]] const Options options = parse(count, arguments);
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "select_lab: there is no GPU: %s\n",
                 status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    return 77;
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  std::printf("%s\n", properties.name);
#ifdef __CUDACC__
  const bool is_right = check_all({1, 5, 4095, 8192, 8193, 100003, (std::size_t{1} << 22) + 3});
  if (is_right && !options.check_only) measure(options.size, options.density, options.rounds);
#else
  const bool is_right = check_all({1, 5, 8193, 70001});  // emulated: nothing to time
#endif
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return is_right ? 0 : 1;
}
