// SPDX-License-Identifier: MIT
/// Tests that TCP can bootstrap NCCL, as MPI does, and the collectives of NCCL on any number of GPUs, one too.
#include <doctest/doctest.h>

#ifdef DRAGONN_WITH_CUDA
#include <numeric>

#include "comm/device_transport.h"
#include "core/error.h"
#include "kernels/devices.h"
#include "tests/comm/cases.h"
#include "tests/comm/tcp_support.h"
#include "tests/support/devices.h"

namespace dragonn::comm::test {
namespace {

using dragonn::test::on_device;
using dragonn::test::to_host;
using Bytes = std::vector<std::byte>;

/// Runs `claim` on 1, 2 and 3 ranks, each with a GPU of its own, as far as there are GPUs.
void on_ranks_with_gpus(const std::function<void(Communicator&, DeviceTransport&)>& claim) {
  if (dragonn::test::gpu_is_missing()) return;
  const int gpus = kernels::device_count(DeviceType::kCuda);
  for (const int world : {1, 2, 3}) {
    if (world > gpus) {
      MESSAGE("skipped: ", world, " GPUs are needed, here are ", gpus);
      return;
    }
    CHECK_NOTHROW(run_tcp_threads(world, 60, [&](Communicator& c) {
      const auto transport = make_nccl_transport(c, {DeviceType::kCuda, c.rank()}, 20);
      claim(c, *transport);
      transport->finish();
    }));
  }
}

/// The bytes that a rank brings to a collective: another number of them on every rank, and none on rank 1.
Bytes bytes_of(int rank) {
  return Bytes(rank == 1 ? 0 : 3 + static_cast<std::size_t>(rank), static_cast<std::byte>(rank + 1));
}

/// Every rank's values are its number and 1: sums each vector over ranks.
void expect_sums(Communicator& c, DeviceTransport& transport) {
  const auto rank = static_cast<float>(c.rank());
  const auto ranks = static_cast<float>(c.size());
  Buffer<float> first = on_device(std::vector<float>{1, rank}, transport.device());
  Buffer<float> second = on_device(std::vector<float>(5, 2), transport.device());
  const std::vector<View<float>> vectors{first.view(), View<float>(nullptr, 0, transport.device()), second.view()};
  transport.allreduce_sum(vectors);
  expect(to_host(first.view()) == std::vector<float>{ranks, ranks * (ranks - 1) / 2}, "the sum is that of all ranks");
  expect(to_host(second.view()) == std::vector<float>(5, 2 * ranks), "all vectors are summed");
}

void expect_gathered(Communicator& c, DeviceTransport& transport) {
  const Buffer<std::byte> mine = on_device(bytes_of(c.rank()), transport.device());
  std::vector<Buffer<std::byte>> buffer;
  std::vector<View<std::byte>> parts;
  for (int rank = 0; rank < c.size(); ++rank) buffer.emplace_back(bytes_of(rank).size(), transport.device());
  for (Buffer<std::byte>& part : buffer) parts.push_back(part.view());
  const DeviceGather gather{mine.view(), parts};
  transport.gather(std::span(&gather, 1));
  for (int rank = 0; rank < c.size(); ++rank)
    expect(to_host(parts[static_cast<std::size_t>(rank)]) == bytes_of(rank), "every rank has the bytes of all ranks");
}

/// Every rank sends to the next one; a rank alone sends nothing.
void expect_exchanged(Communicator& c, DeviceTransport& transport) {
  const int next = (c.rank() + 1) % c.size(), previous = (c.rank() + c.size() - 1) % c.size();
  const Buffer<std::byte> mine = on_device(bytes_of(c.rank()), transport.device());
  Buffer<std::byte> received(c.size() == 1 ? 0 : bytes_of(previous).size(), transport.device());
  std::vector<OutgoingBytes> outgoing;
  std::vector<IncomingBytes> incoming;
  if (c.size() > 1) {
    outgoing.push_back({next, mine.view()});
    incoming.push_back({previous, received.view()});
  }
  const Traffic before = c.traffic()[Phase::kControl];
  transport.exchange(outgoing, incoming);
  if (c.size() > 1) expect(to_host(received.view()) == bytes_of(previous), "a message arrives whole");
  const Traffic sent = c.traffic()[Phase::kControl] - before;
  expect(sent.bytes_sent == (c.size() > 1 ? bytes_of(c.rank()).size() : 0), "bytes are counted as sent");
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("gpu: ranks that TCP connected sum by NCCL") {
    on_ranks_with_gpus(expect_sums);
  }
  TEST_CASE("gpu: NCCL gathers lists of different lengths") {
    on_ranks_with_gpus(expect_gathered);
  }
  TEST_CASE("gpu: NCCL moves messages between neighbours") {
    on_ranks_with_gpus(expect_exchanged);
  }

  TEST_CASE("gpu: a call that NCCL refuses leaves no group of calls open") {
    on_ranks_with_gpus([](Communicator& c, DeviceTransport& transport) {
      const Device device = transport.device();
      const Buffer<std::byte> bytes = on_device(Bytes(4), device);
      const auto broken = make_nccl_transport(c, device, 20);
      const std::vector<OutgoingBytes> nowhere{{c.size() + 4, bytes.view()}};
      std::string reason;
      try {
        broken->exchange(nowhere, {});
      } catch (const CommError& error) {
        reason = error.what();
      }
      expect(reason.find("4 bytes to rank") != std::string::npos, "the error names the message");
      expect_sums(c, transport);  // in a group that stays open the sums would never begin
    });
  }
}

}  // namespace dragonn::comm::test
#endif
