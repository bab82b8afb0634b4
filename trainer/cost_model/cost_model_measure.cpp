// SPDX-License-Identifier: MIT
#include "trainer/cost_model/cost_model_measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include <omp.h>

#include "comm/sparse/batch_decoder.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kSmallestSize = 1024;

template <class Work>
double median_seconds(const ProfileRuns& runs, const Work& work) {
  std::vector<double> seconds;
  for (int run = -runs.ahead; run < runs.counted; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run >= 0) seconds.push_back(taken);
  }
  std::ranges::sort(seconds);
  return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
}

std::unique_ptr<compress::Memory> make_memory(const ProfiledExchange& exchange, std::size_t numel) {
  return Registry<compress::MemoryEntry>::instance()
      .at(exchange.memory.name)
      .make(exchange.memory.settings, numel, exchange.momentum, exchange.nesterov, exchange.device);
}

/// Runs the local parts of a step of one rank that quantizes.
class Quantizer {
 public:
  Quantizer(const ProfiledExchange& exchange, std::size_t numel)
      : codec_(
            Registry<codec::QuantizerEntry>::instance().at(exchange.quantizer.name).make(exchange.quantizer.settings)),
        memory_(make_memory(exchange, numel)),
        code_bytes_(codec_->code_bytes(numel)),
        codes_(static_cast<std::size_t>(exchange.ranks) * code_bytes_, exchange.device),
        sum_(numel, exchange.device) {}

  void encode(View<const float> gradient) {
    context_.pass = &memory_->compensate(codec_->plan(), gradient, 1.0f);
    codec_->encode(memory_->accumulated(), context_, code());
    memory_->settle({.codec = codec_.get(), .code = code()});
    ++context_.step;
  }
  /// Makes the codes of all ranks alike, for decode().
  void spread() {
    const View<const std::byte> code = this->code();
    for (std::size_t begin = code.size(); begin < codes_.size(); begin += code.size()) {
      kernels::transfer_bytes(code, codes_.view().subview(begin, code.size()));
    }
  }
  void decode() { codec_->sum(codes_.view(), {}, sum_.view()); }

 private:
  View<std::byte> code() { return codes_.view().subview(0, code_bytes_); }

  std::unique_ptr<codec::ValueCodec> codec_;
  std::unique_ptr<compress::Memory> memory_;
  codec::EncodeContext context_;
  std::size_t code_bytes_;
  Buffer<std::byte> codes_;  // of all ranks, back to back; the first is the rank's own
  Buffer<float> sum_;
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

double decode_seconds(const ProfiledExchange& exchange, std::size_t numel, std::span<const SparseVector> lists,
                      const ProfileRuns& runs) {
  comm::BatchDecoder decoder(numel);
  SparseVector sum;
  std::vector<float> dense_sum(exchange.decode_dense ? numel : 0);
  return median_seconds(runs, [&] {
    for (const SparseVector& list : lists) decoder.add(list);
    if (exchange.decode_dense) {
      decoder.finish_dense(dense_sum);
    } else {
      decoder.finish(sum);
    }
  });
}

double coding_seconds(const ProfiledExchange& exchange, std::span<const SparseVector> lists, const ProfileRuns& runs) {
  const auto codec = codec::make_list_codec(exchange.coding);
  std::vector<std::uint32_t> code;  // aligned to 4 bytes
  for (const SparseVector& list : lists) {
    code.resize(std::max(code.size(), codec->max_bytes(list.size(), /*has_values=*/true) / sizeof(std::uint32_t) + 1));
  }
  const auto scratch = std::as_writable_bytes(std::span(code));
  SparseVector decoded;
  return median_seconds(runs, [&] {
    const std::size_t length = codec->encode(lists.front(), /*has_values=*/true, scratch);
    for (std::size_t rank = 0; rank < lists.size(); ++rank) codec->decode(scratch.first(length), true, decoded);
  });
}

/// Returns the local time of a rank's part in a ring: its values are copied once, and all but its own chunk are added
/// to once, and copied into and out of two messages.
double dense_seconds(const ProfiledExchange& exchange, View<const float> gradient, const ProfileRuns& runs) {
  if (!exchange.device.is_cpu()) return 0;  // what a GPU's library does on the way is the network's
  const std::size_t numel = gradient.size();
  const std::size_t moved = numel - numel / static_cast<std::size_t>(exchange.ranks);
  Buffer<float> sum(numel), message(moved);
  const View<float> part = sum.view().subview(0, moved);
  return median_seconds(runs, [&] {
    kernels::copy(gradient, sum.view());
    for (int way = 0; way < 2; ++way) {
      kernels::copy(part, message.view());
      kernels::copy(message.view(), part);
    }
    kernels::add(part, message.view(), part);
  });
}

/// Returns the matrix with that many elements whose sides differ least.
Shape squarest_matrix(std::size_t numel) {
  auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(numel)));
  while (rows > 1 && numel % rows != 0) --rows;
  rows = std::max<std::size_t>(rows, 1);
  return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(numel / rows)};
}

}  // namespace

ProfileKey ProfiledExchange::key(int threads) const {
  return {.sparsifier = quantizes() ? quantizer.name : sparsifier.name,
          .memory = memory.name,
          .decode = decode_dense || quantizes() ? "dense" : "sparse",
          .density = quantizes() ? 1 : density,
          .ranks = ranks,
          .threads = threads,
          .device = device.is_cpu() ? "cpu" : "cuda"};
}

LocalSelection::LocalSelection(const ProfiledExchange& exchange, std::size_t numel)
    : numel_(numel),
      shape_(squarest_matrix(numel)),
      context_{.world_size = exchange.ranks, .density = exchange.density},
      memory_(make_memory(exchange, numel)),
      counts_(static_cast<std::size_t>(exchange.ranks)),
      selected_(exchange.device) {
  const auto& entry = Registry<compress::SparsifierEntry>::instance().at(exchange.sparsifier.name);
  sparsifier_ = entry.make(exchange.sparsifier.settings, numel, exchange.device);
  context_.k = entry.target(exchange.sparsifier.settings, numel, {&shape_, 1}, exchange.density);
}

void LocalSelection::select(View<const float> gradient, const std::function<void(kernels::PassRequest&)>& change) {
  context_.tensors = {&shape_, 1};
  kernels::PassRequest request = sparsifier_->plan(context_);
  if (change) change(request);
  kernels::PassResult& pass = memory_->compensate(request, gradient, 1.0f);
  if (context_.world_size > 1) {
    if (const auto proposal = sparsifier_->propose(context_, memory_->accumulated()))
      sparsifier_->accept_proposal(*proposal);
  }
  sparsifier_->select(context_, pass, memory_->accumulated(), selected_);
}

void LocalSelection::finish(const compress::Settlement& settlement) {
  memory_->settle(settlement);
  std::ranges::fill(counts_, selected_.size());
  sparsifier_->observe({.step = context_.step,
                        .numel = numel_,
                        .k = context_.k,
                        .selected_counts = counts_,
                        .global_count = std::min(numel_, selected_.size() * counts_.size())});
  ++context_.step;
}

ProfileRow measure_profile(const ProfiledExchange& exchange, View<const float> gradient, const ProfileRuns& runs) {
  const std::size_t numel = gradient.size();
  ProfileRow row{.key = exchange.key(omp_get_max_threads()), .numel = numel, .runs = runs.counted};
  const auto seconds = [&](const auto& work) {
    return median_seconds(runs, [&] {
      work();
      kernels::synchronize(exchange.device);
    });
  };
  row.dense_seconds = dense_seconds(exchange, gradient, runs);
  if (exchange.quantizes()) {
    Quantizer quantizer(exchange, numel);
    row.encode_seconds = seconds([&] { quantizer.encode(gradient); });
    quantizer.spread();
    row.decode_seconds = seconds([&] { quantizer.decode(); });
    return row;
  }
  LocalSelection selection(exchange, numel);
  row.encode_seconds = seconds([&] {
    selection.select(gradient);
    selection.finish({.contributed = selection.selected().indices.view()});
  });
  std::vector<SparseVector> lists;
  for (int rank = 0; rank < exchange.ranks; ++rank) lists.push_back(spread_entries(numel, selection.k(), rank));
  row.decode_seconds = decode_seconds(exchange, numel, lists, runs);
  row.coding_seconds = coding_seconds(exchange, lists, runs);
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
