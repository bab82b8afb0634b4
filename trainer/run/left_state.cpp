// SPDX-License-Identifier: MIT
#include "trainer/run/left_state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/fault_point.h"

namespace dragonn::trainer {
namespace {

/// The tag of a state that one rank sends to another, and the bytes of its parts.
constexpr int kTagState = 100;
constexpr std::uint64_t kPartBytes = std::uint64_t{8} << 20;

/// A rank that gives its state, and one that takes it.
struct Turn {
  int donor, taker;
};

/// Precedes the shared state and the rank's own.
using Heading = std::array<std::uint64_t, 3>;  // rank, workers, bytes of the shared state

/// Collective. Sends the bytes of donors to their takers. @param bytes of this rank, if it is a donor; receives those
/// that it takes.  @param sizes by rank.
void move_parts(comm::Communicator& communicator, std::span<const Turn> turns, std::span<const std::uint64_t> sizes,
                std::vector<std::byte>& bytes) {
  const std::uint64_t largest = *std::ranges::max_element(sizes);
  for (std::uint64_t begin = 0; begin < largest; begin += kPartBytes) {
    for (const auto& [donor, taker] : turns) {
      const std::uint64_t end = std::min(begin + kPartBytes, sizes[static_cast<std::size_t>(donor)]);
      if (begin >= end) continue;
      if (communicator.rank() == donor) {
        const auto part = std::span<const std::byte>(bytes).subspan(begin, end - begin);
        communicator.send(taker, kTagState, comm::Communicator::as_bytes(part));
      } else if (communicator.rank() == taker) {
        bytes.resize(end);
        const auto part = std::span(bytes).subspan(begin);
        communicator.recv_exactly(donor, kTagState, comm::Communicator::as_writable_bytes(part));
      }
    }
    communicator.barrier();
  }
}

}  // namespace

std::vector<std::byte> LeftState::to_bytes() const {
  const std::vector<std::byte> first = dragonn::to_bytes(shared), second = dragonn::to_bytes(own);
  const Heading heading{static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(workers_), first.size()};
  const auto head = std::as_bytes(std::span(heading));
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.reserve(head.size() + first.size() + second.size());
  bytes.insert(bytes.end(), first.begin(), first.end());
  bytes.insert(bytes.end(), second.begin(), second.end());
  return bytes;
}

std::unique_ptr<LeftState> LeftState::copy_of(std::span<const std::byte> bytes, int source) {
  const std::string name = fmt::format("the state of rank {}", source);
  Heading heading{};
  if (bytes.size() < sizeof(heading)) throw DataError(name + " is cut off");
  std::memcpy(heading.data(), bytes.data(), sizeof(heading));
  bytes = bytes.subspan(sizeof(heading));
  if (heading[2] > bytes.size()) throw DataError(name + " is cut off");
  auto copy = std::make_unique<LeftState>(static_cast<int>(heading[0]), static_cast<int>(heading[1]));
  copy->is_copy_ = true;
  copy->shared = archive_from_bytes(bytes.first(heading[2]), name);
  copy->own = archive_from_bytes(bytes.subspan(heading[2]), name);
  return copy;
}

void share_state(comm::Communicator& communicator, std::unique_ptr<LeftState>& left) {
  const auto gather = [&](std::uint64_t mine) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
    communicator.allgather_values(std::span<const std::uint64_t>(&mine, 1), std::span(all));
    return all;
  };
  if (left != nullptr && left->is_copy()) left.reset();
  std::vector<int> donors, takers;
  const std::vector<std::uint64_t> has_state = gather(left != nullptr ? 1 : 0);
  for (int rank = 0; rank < communicator.size(); ++rank)
    (has_state[static_cast<std::size_t>(rank)] != 0 ? donors : takers).push_back(rank);
  if (takers.empty()) return;
  if (donors.empty()) throw CommError("no rank of this generation has the state of the run");
  std::vector<Turn> turns;
  for (std::size_t turn = 0; turn < takers.size(); ++turn)
    turns.push_back({donors[turn % donors.size()], takers[turn]});
  fault_point("share");
  std::vector<std::byte> bytes;
  if (std::ranges::count(turns, communicator.rank(), &Turn::donor) > 0) bytes = left->to_bytes();
  move_parts(communicator, turns, gather(bytes.size()), bytes);
  const auto mine = std::ranges::find(turns, communicator.rank(), &Turn::taker);
  if (mine != turns.end()) left = LeftState::copy_of(bytes, mine->donor);
}

}  // namespace dragonn::trainer
