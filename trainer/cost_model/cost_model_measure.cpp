// SPDX-License-Identifier: MIT
#include "trainer/cost_model/cost_model_measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>

#include <omp.h>

#include "comm/sparse/batch_decoder.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::trainer {
namespace {

constexpr int kWarmUps = 3;
constexpr int kRuns = 10;
constexpr std::size_t kSmallestSize = 1024;

template <class Work>
double median_seconds(const Work& work) {
  std::array<double, kRuns> seconds{};
  for (int run = -kWarmUps; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run >= 0) seconds[static_cast<std::size_t>(run)] = taken;
  }
  std::ranges::sort(seconds);
  return (seconds[(kRuns - 1) / 2] + seconds[kRuns / 2]) / 2;
}

/// Runs the local part of a step of one rank, up to the values that it would send.
class Encoder {
 public:
  Encoder(const ProfiledExchange& exchange, std::size_t numel)
      : numel_(numel),
        context_{.world_size = exchange.ranks,
                 .density = exchange.density,
                 .k = compress::target_count(exchange.density, numel)},
        sparsifier_(Registry<compress::SparsifierEntry>::instance()
                        .at(exchange.sparsifier.name)
                        .make(exchange.sparsifier.settings, numel, exchange.device)),
        memory_(Registry<compress::MemoryEntry>::instance()
                    .at(exchange.memory.name)
                    .make(exchange.memory.settings, numel, exchange.momentum, exchange.nesterov, exchange.device)),
        counts_(static_cast<std::size_t>(exchange.ranks)),
        selected_(exchange.device) {}

  void run(View<const float> gradient) {
    const kernels::PassRequest request = sparsifier_->plan(context_);
    const kernels::PassResult& pass = memory_->compensate(request, gradient, 1.0f);
    if (const auto proposal = sparsifier_->propose(context_, memory_->accumulated())) sparsifier_->agree(*proposal);
    sparsifier_->select(context_, pass, memory_->accumulated(), selected_);
    memory_->settle({.contributed = selected_.indices.view()});
    // The counts are as if the ranks had selected alike, for methods that adapt to them.
    std::ranges::fill(counts_, selected_.size());
    sparsifier_->observe({.step = context_.step,
                          .numel = numel_,
                          .k = context_.k,
                          .selected_counts = counts_,
                          .global_count = std::min(numel_, selected_.size() * counts_.size())});
    ++context_.step;
  }

 private:
  std::size_t numel_;
  compress::SelectContext context_;
  std::unique_ptr<compress::Sparsifier> sparsifier_;
  std::unique_ptr<compress::Memory> memory_;
  std::vector<std::uint64_t> counts_;
  SparseVector selected_;
};

/// Returns k entries, one at a random place in each of k equal parts of the vector.
SparseVector spread_entries(std::size_t numel, std::size_t k, int rank) {
  Rng rng(1, "profile entries", {static_cast<std::uint64_t>(rank)});
  SparseVector entries;
  entries.resize_discard(k);
  for (std::size_t i = 0; i < k; ++i) {
    const std::size_t begin = i * numel / k, end = (i + 1) * numel / k;
    entries.indices.host()[i] = static_cast<std::uint32_t>(begin + rng.below(end - begin));
    entries.values.host()[i] = rng.normal();
  }
  return entries;
}

double decode_seconds(const ProfiledExchange& exchange, std::size_t numel) {
  std::vector<SparseVector> lists;
  const std::size_t k = compress::target_count(exchange.density, numel);
  for (int rank = 0; rank < exchange.ranks; ++rank) lists.push_back(spread_entries(numel, k, rank));
  comm::BatchDecoder decoder(numel);
  SparseVector sum;
  std::vector<float> dense_sum(exchange.decode_dense ? numel : 0);
  return median_seconds([&] {
    for (const SparseVector& list : lists) decoder.add(list);
    if (exchange.decode_dense) {
      decoder.finish_dense(dense_sum);
    } else {
      decoder.finish(sum);
    }
  });
}

/// Returns the local time of a rank's part in a ring: its values are copied once, and all but its own chunk are added
/// to once, and copied into and out of two messages.
double dense_seconds(const ProfiledExchange& exchange, View<const float> gradient) {
  if (!exchange.device.is_cpu()) return 0;  // what a GPU's library does on the way is the network's
  const std::size_t numel = gradient.size();
  const std::size_t moved = numel - numel / static_cast<std::size_t>(exchange.ranks);
  Buffer<float> sum(numel), message(moved);
  const View<float> part = sum.view().subview(0, moved);
  return median_seconds([&] {
    kernels::copy(gradient, sum.view());
    for (int way = 0; way < 2; ++way) {
      kernels::copy(part, message.view());
      kernels::copy(message.view(), part);
    }
    kernels::add(part, message.view(), part);
  });
}

}  // namespace

ProfileKey ProfiledExchange::key(int threads) const {
  return {.sparsifier = sparsifier.name,
          .memory = memory.name,
          .decode = decode_dense ? "dense" : "sparse",
          .density = density,
          .ranks = ranks,
          .threads = threads,
          .device = device.is_cpu() ? "cpu" : "cuda"};
}

ProfileRow measure_profile(const ProfiledExchange& exchange, View<const float> gradient) {
  Encoder encoder(exchange, gradient.size());
  ProfileRow row{.key = exchange.key(omp_get_max_threads()), .numel = gradient.size(), .runs = kRuns};
  row.encode_seconds = median_seconds([&] {
    encoder.run(gradient);
    kernels::synchronize(exchange.device);
  });
  row.decode_seconds = decode_seconds(exchange, gradient.size());
  row.dense_seconds = dense_seconds(exchange, gradient);
  return row;
}

Buffer<float> profile_gradient(std::size_t numel, const Device& device) {
  Buffer<float> gradient(numel);
  Rng rng(1, "profile gradient");
  for (float& value : gradient.host()) {
    const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
    value = sign * -std::log(1.0f - rng.uniform());
  }
  if (device.is_cpu()) return gradient;
  Buffer<float> on_device(numel, device);
  kernels::copy(gradient.view(), on_device.view());
  return on_device;
}

std::vector<std::size_t> profile_sizes(std::size_t smallest, std::size_t largest, std::size_t factor,
                                       std::size_t limit) {
  std::size_t first = kSmallestSize;
  while (first * factor <= std::min(smallest, limit)) first *= factor;
  std::vector<std::size_t> sizes{first};
  while ((sizes.size() < 2 || sizes.back() < largest) && sizes.back() * factor <= limit)
    sizes.push_back(sizes.back() * factor);
  return sizes;
}

}  // namespace dragonn::trainer
