// SPDX-License-Identifier: MIT
#include "comm/sparse/list_operations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/sized_lists.h"
#include "kernels/devices.h"
#include "kernels/gradient/decode.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::comm {
namespace {

struct HostList {
  explicit HostList(const ListView& list) : indices(list.indices.host()), values(list.values.host()) {}
  std::size_t size() const { return indices.size(); }

  std::span<const std::uint32_t> indices;
  std::span<const float> values;
};

/// An array of equal values, as many as the longest list needs.
class Constants {
 public:
  Constants(float value, std::size_t numel, const Device& device) : value_(value), numel_(numel), values_(0, device) {}

  View<const float> first(std::size_t count) {
    if (count > values_.size()) {
      resize_with_slack(values_, count, numel_);
      kernels::fill(value_, values_.view());
    }
    return std::as_const(values_).view().subview(0, count);
  }

 private:
  float value_;
  std::size_t numel_;
  Buffer<float> values_;
};

/// Works on host memory: by windows of the bucket that fit the cache, and with two pointers for two lists.
class HostOperations : public ListOperations {
 public:
  explicit HostOperations(std::size_t numel) : numel_(numel), decoder_(numel), ones_(1, numel, {}) {}

  void sum(std::span<const ListView> lists, SparseVector& sum) override {
    for (const ListView& list : lists) decoder_.add(list);
    decoder_.finish(sum);
  }
  void sum_dense(std::span<const ListView> lists, Buffer<float>& sum) override {
    for (const ListView& list : lists) decoder_.add(list);
    sum.resize_discard(numel_);
    decoder_.finish_dense(sum.host());
  }
  void unite(std::span<const ListView> lists, SparseVector& united) override {
    std::size_t longest = 0;
    for (const ListView& list : lists) longest = std::max(longest, list.size());
    ones_.first(longest);
    for (const ListView& list : lists) decoder_.add({list.indices.host(), ones_.first(list.size()).host()});
    decoder_.finish(united);
  }
  void merge(const ListView& a, const ListView& b, SparseVector& sum) override { add_entries(a, b, sum); }
  float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) override {
    resize_with_slack(scratch_.keys, entries.size());
    resize_with_slack(kept, std::min(k, entries.size()));
    return kernels::keep_largest(entries, k, scratch_, kept);
  }
  void keep_above(const SparseVector& entries, float threshold, SparseVector& kept) override {
    resize_with_slack(kept, entries.size());
    kernels::filter_threshold(entries, std::max(threshold, std::numeric_limits<float>::denorm_min()), kept);
  }
  void leave_out(const SparseVector& all, const SparseVector& kept, SparseVector& rest) override {
    resize_with_slack(rest, all.size());
    const std::span<const std::uint32_t> indices = all.indices.host(), left_out = kept.indices.host();
    const float* values = all.values.data();
    std::uint32_t* to_indices = rest.indices.data();
    float* to_values = rest.values.data();
    std::size_t position = 0, count = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (position < left_out.size() && left_out[position] == indices[i]) {
        ++position;
        continue;
      }
      to_indices[count] = indices[i];
      to_values[count++] = values[i];
    }
    rest.truncate(count);
  }
  void common_indices(View<const std::uint32_t> a, View<const std::uint32_t> b,
                      Buffer<std::uint32_t>& common) override {
    comm::common_indices(a.host(), b.host(), common);
  }
  void values_at(const SparseVector& entries, View<const std::uint32_t> indices, View<float> values) override {
    comm::values_at(entries, indices.host(), values.host());
  }
  void finish() override {}

 protected:
  std::size_t numel_;

 private:
  BatchDecoder decoder_;
  Constants ones_;
  kernels::MagnitudeScratch scratch_;
};

/// Works on a device: by a dense vector with marks. Lists are added up, and the value of the sum tells the wanted
/// entries.
class DeviceOperations final : public ListOperations {
 public:
  DeviceOperations(std::size_t numel, const Device& device)
      : numel_(numel),
        device_(device),
        decoder_(numel, device),
        ones_(1, numel, device),
        scratch_(device),
        pass_(device),
        summed_(device),
        both_(device),
        negated_(0, device),
        dense_(0, device) {}

  void sum(std::span<const ListView> lists, SparseVector& sum) override {
    for (const ListView& list : lists) decoder_.add(list.indices, list.values);
    decoder_.finish(sum);
  }
  void sum_dense(std::span<const ListView> lists, Buffer<float>& sum) override {
    sum.resize_discard(numel_);
    kernels::fill(0.0f, sum.view());
    for (const ListView& list : lists) {
      copy_list(list, summed_);
      kernels::scatter_add(summed_, sum.view());
    }
  }
  void unite(std::span<const ListView> lists, SparseVector& united) override {
    for (const ListView& list : lists) decoder_.add(list.indices, ones_.first(list.size()));
    decoder_.finish(united);
  }
  void merge(const ListView& a, const ListView& b, SparseVector& sum) override {
    decoder_.add(a.indices, a.values);
    decoder_.add(b.indices, b.values);
    decoder_.finish(summed_);
    kernels::filter_threshold(summed_, std::numeric_limits<float>::denorm_min(), sum);
  }
  float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) override {
    return kernels::keep_largest(entries, k, scratch_, kept);
  }
  void keep_above(const SparseVector& entries, float threshold, SparseVector& kept) override {
    kernels::filter_threshold(entries, std::max(threshold, std::numeric_limits<float>::denorm_min()), kept);
  }
  /// Adds all entries and subtracts the kept ones: exact, since every value occurs with both signs or alone.
  void leave_out(const SparseVector& all, const SparseVector& kept, SparseVector& rest) override {
    resize_with_slack(negated_, kept.size());
    kernels::accumulate_scaled({}, kept.values.view(), -1.0f, negated_.view(), pass_);
    merge(all, {kept.indices.view(), std::as_const(negated_).view()}, rest);
  }
  void common_indices(View<const std::uint32_t> a, View<const std::uint32_t> b,
                      Buffer<std::uint32_t>& common) override {
    decoder_.add(a, ones_.first(a.size()));
    decoder_.add(b, ones_.first(b.size()));
    decoder_.finish(summed_);
    kernels::filter_threshold(summed_, 2.0f, both_);
    copy_indices(both_.indices.view(), common, numel_);
  }
  void values_at(const SparseVector& entries, View<const std::uint32_t> indices, View<float> values) override {
    if (dense_.size() != numel_) {
      dense_.resize_discard(numel_);
      kernels::fill(0.0f, dense_.view());
    }
    kernels::scatter_add(entries, dense_.view());
    kernels::gather(dense_.view(), indices, values);
    kernels::scatter_zero(entries.indices.view(), dense_.view());
  }
  void finish() override { kernels::synchronize(device_); }

 private:
  std::size_t numel_;
  Device device_;
  kernels::ListDecoder decoder_;
  Constants ones_;
  kernels::MagnitudeScratch scratch_;
  kernels::PassResult pass_;
  SparseVector summed_, both_;
  Buffer<float> negated_, dense_;
};

/// Works on host memory with sized lists, of which only the rank's own has content.
class SizedOperations final : public HostOperations {
 public:
  SizedOperations(Communicator& communicator, std::size_t numel) : HostOperations(numel), communicator_(communicator) {}

  void sum(std::span<const ListView> lists, SparseVector& sum) override {
    if (have_content(lists)) return HostOperations::sum(lists, sum);
    sum.clear();
  }
  void sum_dense(std::span<const ListView>, Buffer<float>& sum) override { sum.resize_discard(numel_); }
  void concatenate(std::span<const ListView> lists, SparseVector& target) override {
    sized_ = nullptr;
    if (have_content(lists)) return HostOperations::concatenate(lists, target);
    sized_ = &target;
    std::size_t total = 0;
    own_ = {};
    for (const ListView& list : lists) {
      total += list.size();
      if (list.indices.data() != nullptr) own_ = list;
    }
    resize_with_slack(target, total);
  }
  /// Finds the k-th magnitude of all ranks' lists without gathering them, as a simulator's own work: nothing is counted
  /// under the exchange, and virtual clocks stand still. The order of positive floats is that of their bits.
  float keep_largest(const SparseVector& entries, std::size_t k, SparseVector& kept) override {
    if (&entries != sized_) return HostOperations::keep_largest(entries, k, kept);
    const ClockPause pause(communicator_.clock());
    const ScopedPhase phase(communicator_.traffic(), Phase::kMetrics);
    std::uint32_t bits = 0;
    for (std::uint32_t bit = std::uint32_t{1} << 30; bit > 0; bit >>= 1) {
      const auto bound = std::bit_cast<float>(bits | bit);
      const auto reaches = [&](float value) { return std::abs(value) >= bound; };
      auto count = static_cast<std::uint64_t>(std::ranges::count_if(own_.values.host(), reaches));
      communicator_.allreduce_sum(std::span<std::uint64_t>(&count, 1));
      if (count >= k) bits |= bit;
    }
    resize_with_slack(kept, std::min(k, entries.size()));
    return std::bit_cast<float>(bits);
  }
  void common_indices(View<const std::uint32_t>, View<const std::uint32_t>, Buffer<std::uint32_t>& common) override {
    common.resize_discard(0);
  }

 private:
  static bool have_content(std::span<const ListView> lists) {
    return std::ranges::all_of(lists,
                               [](const ListView& list) { return list.size() == 0 || list.indices.data() != nullptr; });
  }

  Communicator& communicator_;
  const SparseVector* sized_ = nullptr;  // the last concatenation, if it has no content
  ListView own_;                         // the rank's own list in it
};

}  // namespace

std::unique_ptr<ListOperations> make_list_operations(std::size_t numel, const Device& device) {
  if (device.is_cpu()) return std::make_unique<HostOperations>(numel);
  return std::make_unique<DeviceOperations>(numel, device);
}

std::unique_ptr<ListOperations> make_sized_operations(Communicator& communicator, std::size_t numel) {
  return std::make_unique<SizedOperations>(communicator, numel);
}

void add_entries(const ListView& first, const ListView& second, SparseVector& sum) {
  const HostList a(first), b(second);
  resize_with_slack(sum, a.size() + b.size());
  std::uint32_t* const indices = sum.indices.data();
  float* const values = sum.values.data();
  std::size_t i = 0, j = 0, count = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint32_t left = a.indices[i], right = b.indices[j];
    const float value = (left <= right ? a.values[i] : 0.0f) + (right <= left ? b.values[j] : 0.0f);
    indices[count] = std::min(left, right);
    values[count] = value;
    count += value != 0 ? 1 : 0;
    i += left <= right ? 1 : 0;
    j += right <= left ? 1 : 0;
  }
  const auto append = [&](const HostList& rest, std::size_t from) {
    std::copy_n(rest.indices.data() + from, rest.size() - from, indices + count);
    std::copy_n(rest.values.data() + from, rest.size() - from, values + count);
    count += rest.size() - from;
  };
  append(a, i);
  append(b, j);
  sum.truncate(count);
}

void common_indices(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b, Buffer<std::uint32_t>& common) {
  resize_with_slack(common, std::min(a.size(), b.size()));
  std::size_t i = 0, j = 0, count = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint32_t left = a[i], right = b[j];
    // Numbers, not conditions: which list goes on is hard to predict.
    const std::size_t passes_left = left <= right, passes_right = right <= left;
    common.data()[count] = left;
    i += passes_left;
    j += passes_right;
    count += passes_left & passes_right;
  }
  common.truncate(count);
}

void values_at(const SparseVector& entries, std::span<const std::uint32_t> indices, std::span<float> out) {
  const auto own = entries.indices.host();
  std::size_t position = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    while (position < own.size() && own[position] < indices[i]) ++position;
    const bool found = position < own.size() && own[position] == indices[i];
    out[i] = found ? entries.values.data()[position] : 0.0f;
  }
}

void copy_list(const ListView& source, SparseVector& target) {
  resize_with_slack(target, source.size());
  kernels::transfer(source.indices, target.indices.view());
  kernels::transfer(source.values, target.values.view());
}

void copy_indices(View<const std::uint32_t> source, Buffer<std::uint32_t>& target, std::size_t limit) {
  resize_with_slack(target, source.size(), limit);
  kernels::transfer(source, target.view());
}

void concatenate(std::span<const ListView> lists, SparseVector& target) {
  std::size_t total = 0;
  for (const ListView& list : lists) total += list.size();
  resize_with_slack(target, total);
  std::size_t begin = 0;
  for (const ListView& list : lists) {
    kernels::transfer(list.indices, target.indices.view().subview(begin, list.size()));
    kernels::transfer(list.values, target.values.view().subview(begin, list.size()));
    begin += list.size();
  }
}

}  // namespace dragonn::comm
