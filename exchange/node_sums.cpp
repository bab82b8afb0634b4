// SPDX-License-Identifier: MIT
#include "exchange/node_sums.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::exchange {
namespace {

/// The name of the level in errors and timelines.
constexpr const char* kOperation = "sums of the node";

std::size_t index_of(int number) {
  return static_cast<std::size_t>(number);
}

std::vector<int> ranks_across(const comm::Nodes& nodes, int rank) {
  std::vector<int> ranks = nodes.ranks_at(nodes.place_of(rank));
  return ranks.empty() ? std::vector<int>{rank} : ranks;
}

}  // namespace

NodeSums::NodeSums(const comm::Nodes& nodes, std::span<const Bucket> buckets, const Device& gradients,
                   comm::Communicator& whole)
    : nodes_(nodes),
      inside_(whole, nodes.ranks_of(nodes.node_of(whole.rank()))),
      across_(whole, ranks_across(nodes, whole.rank())),
      place_of_(deal_out(buckets, nodes.places())),
      share_(static_cast<float>(nodes.count()) / static_cast<float>(nodes.ranks())) {
  DRAGONN_CHECK(nodes.ranks() == whole.size(), "nodes of {} ranks, and {} ranks", nodes.ranks(), whole.size());
  std::size_t mine = 0;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    sizes_.push_back(buckets[bucket].size);
    place_in_sums_.push_back(mine);
    if (has(bucket)) mine += buckets[bucket].size;
  }
  sums_ = Buffer<float>(mine, gradients);
}

void NodeSums::hand_over(const BucketGroup& group, std::span<const View<const float>> gradients, float scale) {
  const comm::ScopedPhase phase(inside_.traffic(), comm::Phase::kNode);
  const comm::ScopedOperation operation = inside_.operation(kOperation);
  const int workers = inside_.size(), me = inside_.rank();
  const auto each_of = [&](int place, auto&& use) {
    for (std::size_t bucket = group.begin; bucket < group.end; ++bucket) {
      if (place_of_[bucket] == place) use(bucket);
    }
  };
  std::size_t elements = 0;
  for (std::size_t bucket = group.begin; bucket < group.end; ++bucket) elements += sizes_[bucket];
  outgoing_.resize_discard(elements);
  std::size_t packed = 0;
  View<float> mine = outgoing_.view().subview(0, 0);
  sending_.clear();
  for (int place = 0; place < workers; ++place) {
    const std::size_t begin = packed;
    each_of(place, [&](std::size_t bucket) {
      kernels::transfer(gradients[bucket - group.begin], outgoing_.view().subview(packed, sizes_[bucket]));
      packed += sizes_[bucket];
    });
    const View<float> part = outgoing_.view().subview(begin, packed - begin);
    if (scale != 1) {
      for (float& value : part.host()) value *= scale;
    }
    if (place == me) {
      mine = part;
    } else if (!part.empty()) {
      sending_.push_back(
          inside_.isend(place, comm::kTagNode, comm::Communicator::as_bytes(std::span<const float>(part.host()))));
    }
  }
  if (!mine.empty()) {
    incoming_.resize_discard(mine.size());
    summed_.resize_discard(mine.size());
    for (int place = 0; place < workers; ++place) {
      View<const float> part = mine;
      if (place != me) {
        inside_.recv_exactly(place, comm::kTagNode, comm::Communicator::as_writable_bytes(incoming_.host()));
        part = incoming_.view();
      }
      if (place == 0) {
        kernels::transfer(part, summed_.view());
      } else {
        kernels::add(std::as_const(summed_).view(), part, summed_.view());
      }
    }
    std::size_t read = 0;
    each_of(me, [&](std::size_t bucket) {
      kernels::transfer(std::as_const(summed_).view().subview(read, sizes_[bucket]),
                        sums_.view().subview(place_in_sums_[bucket], sizes_[bucket]));
      read += sizes_[bucket];
    });
  }
  for (comm::Request& request : sending_) inside_.wait(request);
}

template <class T>
void NodeSums::gather(std::span<const std::size_t> sizes, View<T> all) {
  std::vector<std::size_t> bytes;
  std::size_t before = 0;
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    if (place < index_of(inside_.rank())) before += sizes[place];
    bytes.push_back(sizes[place] * sizeof(T));
  }
  const std::span<T> host = all.host();
  inside_.allgather_variable(
      comm::Communicator::as_bytes(std::span<const T>(host).subspan(before, sizes[index_of(inside_.rank())])), bytes,
      comm::Communicator::as_writable_bytes(host));
}

void NodeSums::check(int place, std::size_t bucket, const Header& header,
                     std::span<const std::uint32_t> indices) const {
  const bool is_sum = header.divisor > 0 && header.values <= sizes_[bucket] &&
                      (header.is_dense == 0 || header.values == sizes_[bucket]) &&
                      std::ranges::adjacent_find(indices, std::ranges::greater_equal()) == indices.end() &&
                      (indices.empty() || indices.back() < sizes_[bucket]);
  if (is_sum) return;
  throw inside_.error(
      "receiving from", place,
      fmt::format("{} values are no sum of bucket {}, which has {}", header.values, bucket, sizes_[bucket]));
}

void NodeSums::share_out(std::span<const SharedSum> sums) {
  const comm::ScopedPhase phase(inside_.traffic(), comm::Phase::kNode);
  const comm::ScopedOperation operation = inside_.operation(kOperation);
  const int workers = inside_.size();
  // Everything is gathered worker by worker, and of each worker in the order of the buckets.
  const auto each = [&](auto&& use) {
    std::size_t i = 0;
    for (int place = 0; place < workers; ++place) {
      for (const SharedSum& sum : sums) {
        if (place_of_[sum.bucket] == place) use(place, sum, headers_[i++]);
      }
    }
  };
  std::vector<std::size_t> sizes(index_of(workers));
  for (const SharedSum& sum : sums) ++sizes[index_of(place_of_[sum.bucket])];
  headers_.assign(sums.size(), {});
  each([&](int, const SharedSum& shared, Header& header) {
    if (!has(shared.bucket)) return;
    const BucketSum& sum = *shared.sum;
    header = {.values = sum.values().size(), .divisor = sum.divisor, .is_dense = sum.entries == nullptr ? 1u : 0u};
  });
  gather(sizes, View<Header>(std::span(headers_)));

  std::vector<std::size_t> values(index_of(workers)), indices(index_of(workers));
  each([&](int place, const SharedSum& shared, const Header& header) {
    check(place, shared.bucket, header, {});
    values[index_of(place)] += header.values;
    indices[index_of(place)] += header.indices();
  });
  const auto total = [](const std::vector<std::size_t>& parts) { return std::reduce(parts.begin(), parts.end()); };
  resize_with_slack(values_, total(values));
  resize_with_slack(indices_, total(indices));
  const auto each_with_lists = [&](auto&& use) {
    std::size_t value = 0, index = 0;
    each([&](int place, const SharedSum& shared, const Header& header) {
      use(place, shared, header, values_.view().subview(value, header.values),
          indices_.view().subview(index, header.indices()));
      value += header.values;
      index += header.indices();
    });
  };
  each_with_lists(
      [&](int, const SharedSum& shared, const Header& header, View<float> own_values, View<std::uint32_t> own_indices) {
        if (!has(shared.bucket)) return;
        kernels::transfer(shared.sum->values(), own_values);
        if (header.is_dense == 0) kernels::transfer(shared.sum->entries->indices.view(), own_indices);
      });
  gather(indices, indices_.view());
  gather(values, values_.view());
  each_with_lists([&](int place, const SharedSum& shared, const Header& header, View<const float> its_values,
                      View<const std::uint32_t> its_indices) {
    if (has(shared.bucket)) return;
    check(place, shared.bucket, header, its_indices.host());
    comm::SparseReduction& received = *shared.received;
    received.is_dense = header.is_dense != 0;
    shared.sum->divisor = header.divisor;
    if (received.is_dense) {
      received.dense_sum.resize_discard(its_values.size());
      kernels::transfer(its_values, received.dense_sum.view());
      return;
    }
    resize_with_slack(received.sum, its_values.size());
    kernels::transfer(its_indices, received.sum.indices.view());
    kernels::transfer(its_values, received.sum.values.view());
  });
}

}  // namespace dragonn::exchange
