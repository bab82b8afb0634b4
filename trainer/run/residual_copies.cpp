// SPDX-License-Identifier: MIT
#include "trainer/run/residual_copies.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "exchange/bucket_sum.h"

namespace dragonn::trainer {
namespace {

constexpr int kTagResidual = 101;

}  // namespace

void ResidualCopies::take(comm::Communicator& communicator, const exchange::GradientExchange& exchange,
                          const Archive& own, std::span<const int> members) {
  taken_.clear();
  const int rank = communicator.rank(), size = communicator.size();
  if (size == 1) return;
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kCheckpoint);
  Archive mine;
  for (const auto& [name, field] : own.fields())
    if (exchange.bucket_of_residual(name)) mine.put_field(name, field);
  const std::vector<std::byte> bytes = to_bytes(mine);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const std::uint64_t mine_bytes = bytes.size();
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size));
  communicator.allgather_values(std::span<const std::uint64_t>(&mine_bytes, 1), std::span(sizes));
  std::vector<std::byte> theirs(sizes[static_cast<std::size_t>(before)]);
  communicator.send_recv(next, comm::Communicator::as_bytes(std::span<const std::byte>(bytes)), before,
                         comm::Communicator::as_writable_bytes(std::span(theirs)), kTagResidual);
  const int owner = members[static_cast<std::size_t>(before)];
  const Archive copy = archive_from_bytes(theirs, fmt::format("the residual of member {}", owner));
  std::vector<Part>& parts = taken_[owner];
  for (const auto& [name, field] : copy.fields()) {
    const auto bucket = exchange.bucket_of_residual(name);
    if (!bucket || field.bytes.size() != exchange.buckets()[*bucket].size * sizeof(float))
      throw DataError(fmt::format("the residual of member {} does not fit the model", owner));
    parts.push_back({name, exchange.buckets()[*bucket].offset, copy.get_vector<float>(name)});
  }
}

void ResidualCopies::commit() {
  copies_ = std::exchange(taken_, {});
}

void ResidualCopies::take_update(std::span<const exchange::BucketSum> sums) {
  for (auto& [owner, parts] : copies_) {
    for (auto& [field, offset, values] : parts) {
      const auto sum = std::ranges::find(sums, offset, &exchange::BucketSum::offset);
      if (sum == sums.end()) continue;
      if (sum->entries != nullptr) {
        for (const std::uint32_t index : sum->entries->indices.host()) values[index] = 0;
        continue;
      }
      const std::span<const float> dense = sum->dense.host();
      for (std::size_t i = 0; i < dense.size(); ++i) values[i] = dense[i] == 0 ? values[i] : 0;
    }
  }
}

std::vector<ResidualCopies::Restored> ResidualCopies::add_lost(exchange::GradientExchange& exchange,
                                                               std::span<const int> members) const {
  std::vector<Restored> restored;
  for (const auto& [owner, parts] : copies_) {
    if (std::ranges::binary_search(members, owner)) continue;
    Archive copy;
    for (const Part& part : parts) copy.put_array<float>(part.field, part.values);
    const double before = exchange.residual_mass().first;
    exchange.add_residuals(copy);
    restored.push_back({owner, exchange.residual_mass().first - before});
  }
  return restored;
}

void ResidualCopies::forget_lost(std::span<const int> members) {
  std::erase_if(copies_, [&](const auto& entry) { return !std::ranges::binary_search(members, entry.first); });
}

}  // namespace dragonn::trainer
