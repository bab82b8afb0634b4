// SPDX-License-Identifier: MIT
#include "comm/sparse/oktopk_steps.h"

#include <algorithm>
#include <limits>

#include "comm/sparse/balanced_gather.h"
#include "comm/sparse/device_balanced_gather.h"
#include "comm/sparse/device_lists.h"
#include "comm/sparse/device_region_reduce.h"
#include "comm/sparse/merge.h"
#include "comm/sparse/region_reduce.h"
#include "comm/sparse/scoped_seconds.h"
#include "kernels/devices.h"
#include "kernels/select.h"

namespace dragonn::comm {
namespace {

class HostSteps final : public OkTopkSteps {
 public:
  HostSteps(std::size_t numel, std::size_t in_flight) : reduce_(numel, in_flight), gather_(in_flight) {}

  std::uint32_t index_at(const SparseVector& selected, std::size_t place) override {
    return selected.indices.data()[place];
  }
  void reduce(Communicator& communicator, const SparseVector& selected, std::span<const std::uint64_t> regions,
              SparseReduction& out) override {
    reduce_.run(communicator, selected, regions, out, reduced_);
  }
  void gather_above(Communicator& communicator, float threshold, double balance_above, bool hollow,
                    SparseVector& all) override {
    keep_above(reduced_, threshold, kept_);
    gather_.run(communicator, kept_, balance_above, all, hollow);
  }
  const SparseVector& own_part() const override { return kept_; }
  const std::vector<std::uint64_t>& counts() const override { return gather_.counts(); }
  float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) override {
    return keep_largest_with_room(entries, k, scratch_, kept);
  }
  void common_indices(const SparseVector& a, const SparseVector& b, Buffer<std::uint32_t>& common) override {
    comm::common_indices(a.indices.host(), b.indices.host(), common);
  }

 private:
  RegionReduce reduce_;
  BalancedGather gather_;
  kernels::MagnitudeScratch scratch_;
  SparseVector reduced_;
  SparseVector kept_;
};

class DeviceSteps final : public OkTopkSteps {
 public:
  DeviceSteps(std::size_t numel, const Device& device)
      : lists_(numel, device),
        reduce_(device),
        gather_(device),
        scratch_(device),
        index_(device),
        reduced_(device),
        kept_(device) {}

  std::uint32_t index_at(const SparseVector& selected, std::size_t place) override {
    return index_.of(selected.indices.view().subview(place, 1))[0];
  }
  void reduce(Communicator& communicator, const SparseVector& selected, std::span<const std::uint64_t> regions,
              SparseReduction& out) override {
    reduce_.exchange(communicator, selected, regions);
    const ScopedSeconds decoding(communicator.clock(), out.decode_seconds);
    reduce_.sum(communicator, lists_, reduced_);
    kernels::synchronize(reduced_.device());
  }
  void gather_above(Communicator& communicator, float threshold, double balance_above, bool /*hollow*/,
                    SparseVector& all) override {
    kernels::filter_threshold(reduced_, std::max(threshold, std::numeric_limits<float>::denorm_min()), kept_);
    gather_.count(communicator, kept_);
    gather_.run(communicator, kept_, balance_above, all);
  }
  const SparseVector& own_part() const override { return kept_; }
  const std::vector<std::uint64_t>& counts() const override { return gather_.counts(); }
  float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) override {
    return kernels::keep_largest(entries, k, scratch_, kept);
  }
  void common_indices(const SparseVector& a, const SparseVector& b, Buffer<std::uint32_t>& common) override {
    lists_.common_indices(a.indices.view(), b.indices.view(), common);
  }

 private:
  DeviceLists lists_;
  DeviceRegionReduce reduce_;
  DeviceBalancedGather gather_;
  kernels::MagnitudeScratch scratch_;
  kernels::HostMirror<std::uint32_t> index_;
  SparseVector reduced_;
  SparseVector kept_;
};

}  // namespace

std::unique_ptr<OkTopkSteps> make_host_oktopk_steps(std::size_t numel, std::size_t in_flight) {
  return std::make_unique<HostSteps>(numel, in_flight);
}

std::unique_ptr<OkTopkSteps> make_device_oktopk_steps(std::size_t numel, const Device& device) {
  return std::make_unique<DeviceSteps>(numel, device);
}

}  // namespace dragonn::comm
