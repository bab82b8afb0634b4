// SPDX-License-Identifier: MIT
#include "trainer/run/left_state.h"

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/fault_point.h"

namespace dragonn::trainer {
namespace {

/// The tag of a state that one rank sends to another, and the largest archive, in bytes.
constexpr int kTagState = 100;
constexpr std::size_t kLargestArchive = std::size_t{1} << 36;

std::string text_of(const Archive& archive) {
  const std::vector<std::byte> bytes = to_bytes(archive);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void LeftState::send(comm::Communicator& communicator, int destination) const {
  const std::array place{rank_, workers_};
  communicator.send(destination, kTagState, comm::Communicator::as_bytes(std::span<const int>(place)));
  for (const Archive* archive : {&shared, &own}) communicator.send_text(destination, kTagState, text_of(*archive));
}

std::unique_ptr<LeftState> LeftState::receive(comm::Communicator& communicator, int source) {
  std::array place{0, 1};
  communicator.recv_exactly(source, kTagState, comm::Communicator::as_writable_bytes(std::span<int>(place)));
  auto copy = std::make_unique<LeftState>(place[0], place[1]);
  copy->is_copy_ = true;
  for (Archive* archive : {&copy->shared, &copy->own}) {
    const std::string text = communicator.recv_text(source, kTagState, kLargestArchive);
    *archive = archive_from_bytes(std::as_bytes(std::span(text)), fmt::format("the state of rank {}", source));
  }
  return copy;
}

std::unique_ptr<LeftState> share_state(comm::Communicator& communicator, std::unique_ptr<LeftState> left) {
  if (left != nullptr && left->is_copy()) left.reset();
  const std::uint64_t mine = left != nullptr ? 1 : 0;
  std::vector<std::uint64_t> has_state(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span(&mine, 1), std::span(has_state));
  std::vector<int> donors, takers;
  for (int rank = 0; rank < communicator.size(); ++rank)
    (has_state[static_cast<std::size_t>(rank)] != 0 ? donors : takers).push_back(rank);
  if (donors.empty()) throw CommError("no rank of this generation has the state of the run");
  for (std::size_t turn = 0; turn < takers.size(); ++turn) {
    fault_point("share");
    const int donor = donors[turn % donors.size()], taker = takers[turn];
    if (communicator.rank() == donor) left->send(communicator, taker);
    if (communicator.rank() == taker) left = LeftState::receive(communicator, donor);
  }
  return left;
}

}  // namespace dragonn::trainer
