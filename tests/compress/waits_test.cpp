// SPDX-License-Identifier: MIT
// Tests of how often the host waits for a GPU in a step's pass and selection. A wait costs as much as a small kernel,
// and the GPU has nothing to do meanwhile.
#include "tests/compress/support.h"

#ifdef DRAGONN_EMULATES_CUDA
#include <map>

#include "core/rng.h"
#include "tests/cuda_emulation/waits.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

/// The waits of one step: of the pass, which tells the host whether acc is finite, and of the selection after it.
struct Waits {
  std::uint64_t pass = 0;
  std::uint64_t selection = 0;
};

/// Returns the most waits of a step, after steps in which memory grows and thresholds settle.
Waits max_waits(const std::string& name, const std::string& memory_name) {
  constexpr std::size_t kSize = 30000;
  constexpr std::uint64_t kSettled = 4, kSteps = 10;
  const Device device{DeviceType::kCuda, 0};
  const auto sparsifier = make_sparsifier(name, kSize, {}, device);
  const auto memory = make_memory(memory_name, kSize, {}, 0.5f, false, device);
  SparseVector selected(device);
  Waits max;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    Rng rng(step, "waits test");
    std::vector<float> values(kSize);
    for (float& value : values) value = rng.normal();
    const Buffer<float> gradient = dragonn::test::on_device(values, device);
    const SelectContext context = context_for(kSize, 0.01, step);
    const std::uint64_t begin = emulation::waits_here();
    const kernels::PassRequest request = sparsifier->plan(context);
    kernels::PassResult& pass = memory->compensate(request, gradient.view(), 1.0f);
    const std::uint64_t passed = emulation::waits_here();
    sparsifier->select(context, pass, memory->accumulated(), selected);
    const std::uint64_t done = emulation::waits_here();
    memory->settle({.contributed = selected.indices.view()});
    const std::uint64_t counts[] = {selected.size()};
    sparsifier->observe({.step = step, .numel = kSize, .k = context.k, .selected_counts = counts});
    if (step < kSettled) continue;
    max.pass = std::max(max.pass, passed - begin);
    max.selection = std::max(max.selection, done - passed);
  }
  return max;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("gpu: a pass waits once, and a selection whose size is known by then not at all") {
    // Methods that search for a threshold wait for every count that they compare: here at most so many times in a step.
    // firstk and cyclick, the examples of the pages, copy indices from memory that they change at once.
    const std::map<std::string, std::uint64_t> searches{
        {"chunktopk", 1}, {"dgc", 2},     {"gaussiank", 6}, {"mstopk", 7},  {"oktopk", 5}, {"redsync", 6},
        {"sidco_e", 3},   {"sidco_p", 1}, {"sidco_gp", 4},  {"cyclick", 1}, {"firstk", 1}};
    for (const std::string& name : Registry<SparsifierEntry>::instance().names()) {
      for (const std::string memory : {"residual", "none"}) {
        CAPTURE(name);
        CAPTURE(memory);
        const Waits waits = max_waits(name, memory);
        CHECK(waits.pass == 1);
        const auto search = searches.find(name);
        CHECK(waits.selection <= (search == searches.end() ? 0 : search->second));
      }
    }
  }
}
#endif
