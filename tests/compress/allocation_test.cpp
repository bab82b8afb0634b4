// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "core/rng.h"
#include "tests/compress/support.h"
#include "tests/support/allocation_counter.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

TEST_SUITE("compress") {
  TEST_CASE("no pair allocates after its first step, whatever the gradient and the density turn into") {
    constexpr std::size_t kSize = 20000;
    std::vector<std::vector<float>> gradients(8, std::vector<float>(kSize));
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      Rng rng(step, "allocation test");
      // From few non-zeros to many, of ever larger values.
      for (float& value : gradients[step]) {
        if (rng.uniform() < 0.2f * static_cast<float>(step)) value = rng.normal() * static_cast<float>(step + 1);
      }
    }
    const testing::AllocationCounter counter;
    for (const std::string& sparsifier_name : Registry<SparsifierEntry>::instance().names()) {
      for (const std::string& memory_name : Registry<MemoryEntry>::instance().names()) {
        const auto sparsifier = make_sparsifier(sparsifier_name, kSize);
        const auto memory = make_memory(memory_name, kSize);
        SparseVector selected;
        std::size_t before = 0;
        for (std::size_t step = 0; step < gradients.size(); ++step) {
          if (step == 1) before = counter.count();
          const SelectContext context = context_for(kSize, step < 4 ? 0.01 : 0.3, step);
          select_step(*sparsifier, *memory, context, gradients[step], selected);
          memory->settle({.contributed = selected.indices.view()});
        }
        const std::size_t after = counter.count();
        CAPTURE(sparsifier_name);
        CAPTURE(memory_name);
        CHECK(after == before);
      }
    }
  }
}
