// SPDX-License-Identifier: MIT
/// Tests that TCP can bootstrap NCCL, as MPI does.
#include <doctest/doctest.h>

#ifdef DRAGONN_WITH_CUDA
#include "comm/device_transport.h"
#include "kernels/devices.h"
#include "tests/comm/cases.h"
#include "tests/comm/tcp_support.h"
#include "tests/support/devices.h"

namespace dragonn::comm::test {

TEST_SUITE("comm") {
  TEST_CASE("gpu: ranks that TCP connected sum by NCCL") {
    if (dragonn::test::gpu_is_missing()) return;
    const int gpus = kernels::device_count(DeviceType::kCuda);
    for (const int world : {1, 2, 3}) {
      if (world > gpus) {
        MESSAGE("skipped: ", world, " GPUs are needed, here are ", gpus);
        return;
      }
      CHECK_NOTHROW(run_tcp_threads(world, 60, [&](Communicator& c) {
        const Device device{DeviceType::kCuda, c.rank()};
        const auto transport = make_nccl_transport(c, device, 20);
        Buffer<float> values = dragonn::test::on_device(std::vector<float>{1, static_cast<float>(c.rank())}, device);
        const View<float> view = values.view();
        transport->allreduce_sum(std::span(&view, 1));
        const auto sum_of_ranks = static_cast<float>(world * (world - 1) / 2);
        expect(dragonn::test::to_host(values.view()) == std::vector<float>{static_cast<float>(world), sum_of_ranks},
               "the sum is that of all ranks");
        transport->finish();
      }));
    }
  }
}

}  // namespace dragonn::comm::test
#endif
