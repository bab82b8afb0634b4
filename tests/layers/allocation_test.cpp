// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <omp.h>

#include "layers/graph.h"
#include "layers/network.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/devices.h"

namespace dragonn::layers {

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("forward and backward allocate nothing after the first two steps") {
    omp_set_num_threads(1);
    const testing::AllocationCounter counter;
    for (const std::string name : {"mlp", "resnet20", "vgg11", "vit", "mlp_mixer"}) {
      if (name.starts_with("vgg") && !device.is_cpu()) continue;  // takes a minute where a GPU is emulated
#ifndef DRAGONN_EMULATES_CUDA
      if (name != "mlp" && !device.is_cpu()) continue;  // cuDNN itself allocates at every call of a convolution
#endif
      CAPTURE(name);
      const ModelEntry& entry = Registry<ModelEntry>::instance().at(name);
      Network network(entry.make(Settings(entry.settings), {{20, 20, 3}, 10}), 0.1, device);
      network.initialize(1);
      const std::vector<float> inputs = test::random_values(4 * 1200, 1);
      const std::vector<std::int32_t> labels{0, 1, 2, 3};
      std::size_t ready = 0;
      const GradientReady count_ready = [&](ParameterId) { ++ready; };
      std::size_t before = 0;
      for (std::uint64_t step = 0; step < 5; ++step) {
        if (step == 2) before = counter.count();
        network.forward(View<const float>(inputs), View<const std::int32_t>(labels), 4, Mode::kTrain, step);
        network.backward(count_ready);
      }
      const std::size_t after = counter.count();
      CHECK(after == before);
      CHECK(ready == 5 * network.arena().parameters().size());
    }
  }
}

}  // namespace dragonn::layers
