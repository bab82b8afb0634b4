// SPDX-License-Identifier: MIT
#include "trainer/run/left_state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "core/archive_view.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/fault_point.h"
#include "core/hash.h"
#include "trainer/run/training_state.h"

namespace dragonn::trainer {
namespace {

/// The tags of an inventory and of a state that one rank sends to another, and the bytes of its parts.
constexpr int kTagInventory = 99;
constexpr int kTagState = 100;
constexpr std::uint64_t kPartBytes = std::uint64_t{8} << 20;
/// Precede the names of fields in inventories.
constexpr const char* kShared = "shared ";
constexpr const char* kOwn = "own ";

/// A message of one rank to another.
struct Transfer {
  int from, to;
  Pieces pieces = {};  // on the first rank
  std::uint64_t size = 0;
  std::vector<std::byte> bytes = {};  // on the second one
};

/// A part of a message, on its way.
struct MovedPart {
  comm::Request request;
  std::uint64_t size;
  std::vector<std::byte> outgoing;
};

/// Precedes the shared state, the rank's own, and the names of what a copy keeps.
using Heading = std::array<std::uint64_t, 4>;  // rank, workers, bytes of the shared state and of the own

std::vector<std::uint64_t> gather(comm::Communicator& communicator, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint64_t>(&mine, 1), std::span(all));
  return all;
}

/// Starts to move the next part of each message that is longer than `begin`.
std::vector<MovedPart> start_parts(comm::Communicator& communicator, int tag, std::vector<Transfer>& transfers,
                                   std::uint64_t begin) {
  std::vector<MovedPart> parts;
  for (Transfer& transfer : transfers) {
    if (begin >= transfer.size) continue;
    const std::uint64_t size = std::min(kPartBytes, transfer.size - begin);
    if (communicator.rank() == transfer.from) {
      std::vector<std::byte> bytes(size);
      transfer.pieces.copy_to(begin, bytes);
      const auto view = comm::Communicator::as_bytes(std::span<const std::byte>(bytes));
      const comm::Request request = communicator.isend(transfer.to, tag, view);
      parts.push_back({request, size, std::move(bytes)});
    } else if (communicator.rank() == transfer.to) {
      transfer.bytes.resize(begin + size);
      const auto view = comm::Communicator::as_writable_bytes(std::span(transfer.bytes).subspan(begin));
      parts.push_back({communicator.irecv(transfer.from, tag, view), size, {}});
    }
  }
  return parts;
}

/// Collective. Moves these messages, part by part. The next part is on its way while all meet behind one, so that the
/// link does not wait for that.
void move_all(comm::Communicator& communicator, int tag, std::vector<Transfer>& transfers) {
  std::vector<std::uint64_t> sizes;
  for (const Transfer& transfer : transfers) sizes.push_back(transfer.pieces.size());
  communicator.allreduce_max(std::span(sizes));
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    transfers[i].size = sizes[i];
    if (communicator.rank() == transfers[i].to) transfers[i].bytes.reserve(sizes[i]);  // parts stay where they arrive
  }
  const std::uint64_t largest = sizes.empty() ? 0 : *std::ranges::max_element(sizes);
  std::vector<MovedPart> present = start_parts(communicator, tag, transfers, 0);
  for (std::uint64_t begin = 0; begin < largest; begin += kPartBytes) {
    std::vector<MovedPart> next = start_parts(communicator, tag, transfers, begin + kPartBytes);
    for (MovedPart& part : present) {
      if (part.request.is_receive) {
        communicator.wait_exactly(part.request, part.size);
      } else {
        communicator.wait(part.request);
      }
    }
    communicator.barrier();
    present = std::move(next);
  }
}

std::string line_of(const char* archive, const std::string& name) {
  return std::string(archive) + name + "\n";
}

/// Returns the names in an inventory with the fields' hashes.
std::map<std::string, std::string> lines_of(const std::string& inventory) {
  std::map<std::string, std::string> lines;
  std::istringstream text(inventory);
  std::string hash;
  for (std::string name; std::getline(text >> hash >> std::ws, name);) lines[name + "\n"] = hash;
  return lines;
}

/// An archive's field in an inventory: its type and shape follow from its name.
std::string hash_of(std::span<const std::byte> field) {
  return hash_text(hash_bytes(field));
}

}  // namespace

std::string LeftState::inventory() const {
  std::string text;
  for (const auto& [archive, prefix] : {std::pair(&shared, kShared), std::pair(&own, kOwn)})
    for (const auto& [name, field] : archive->fields()) {
      // Without an origin nobody could say whose optimizer it is.
      const bool is_nobodys = archive == &own && name.starts_with(kOptimizer) && !origin_;
      if (!is_nobodys) text += hash_of(field.bytes) + " " + line_of(prefix, name);
    }
  return text;
}

void LeftState::take_values() {
  if (TrainingState* const state = std::exchange(values_in_, nullptr)) state->save_values(shared, state->parameters());
}

LeftState::Message LeftState::message_for(const std::string& inventory, const StaysWithRank& stays_with_rank) const {
  const std::map<std::string, std::string> known = lines_of(inventory);
  Message message;
  ArchiveView of_all, of_rank;
  std::string kept;
  const auto add = [&](ArchiveView& view, const char* prefix, const std::string& name,
                       const ArchiveView::Field& field) {
    const std::string line = line_of(prefix, name);
    const auto found = known.find(line);
    const bool is_own_optimizer = &view == &of_rank && name.starts_with(kOptimizer);
    if (found != known.end() && (is_own_optimizer || found->second == hash_of(field.bytes))) {
      kept += line;
    } else {
      view.put_field(name, field);
    }
  };
  if (values_in_ != nullptr)
    for (const auto& [name, values] : values_in_->values())
      add(of_all, kShared, name, ArchiveView::Field(message.mirrors.emplace_back().of(values)));
  for (const auto& [name, field] : shared.fields()) add(of_all, kShared, name, ArchiveView::Field(field));
  for (const auto& [name, field] : own.fields())
    if (!stays_with_rank(name)) add(of_rank, kOwn, name, ArchiveView::Field(field));
  const Pieces all = of_all.pieces(), rank = of_rank.pieces();
  const Heading heading{static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(workers_), all.size(),
                        rank.size()};
  message.pieces.add(std::string(reinterpret_cast<const char*>(heading.data()), sizeof(heading)));
  message.pieces.append(all);
  message.pieces.append(rank);
  message.pieces.add(std::move(kept));
  return message;
}

std::unique_ptr<LeftState> LeftState::copy_of(std::span<const std::byte> bytes, const std::string& source,
                                              std::optional<Origin> origin) {
  const std::string name = fmt::format("the state of {}", source);
  const auto heading = take_value<Heading>(bytes, name);
  if (heading[2] > bytes.size() || heading[3] > bytes.size() - heading[2]) throw DataError(name + " is cut off");
  auto copy = std::make_unique<LeftState>(static_cast<int>(heading[0]), static_cast<int>(heading[1]));
  copy->is_copy_ = true;
  copy->origin_ = origin;
  copy->shared = archive_from_bytes(bytes.first(heading[2]), name);
  copy->own = archive_from_bytes(bytes.subspan(heading[2], heading[3]), name);
  const std::span<const std::byte> kept = bytes.subspan(heading[2] + heading[3]);
  copy->kept_.assign(reinterpret_cast<const char*>(kept.data()), kept.size());
  return copy;
}

void LeftState::keep_from(const LeftState& former) {
  std::istringstream names(kept_);
  for (std::string name; std::getline(names, name);) {
    const bool is_shared = name.starts_with(kShared);
    name.erase(0, std::strlen(is_shared ? kShared : kOwn));
    const auto& fields = (is_shared ? former.shared : former.own).fields();
    const auto kept = fields.find(name);
    if (kept == fields.end()) throw DataError(fmt::format("a copy of the state has no field '{}' to keep", name));
    (is_shared ? shared : own).put_field(name, kept->second);
  }
  origin_ = former.origin_;
  kept_.clear();
}

std::size_t share_state(comm::Communicator& communicator, std::unique_ptr<LeftState>& left,
                        const LeftState::StaysWithRank& stays_with_rank, const std::function<void()>& meanwhile) {
  const bool has_state = left != nullptr && !left->is_copy();
  std::vector<int> donors, takers;
  const std::vector<std::uint64_t> have_state = gather(communicator, has_state ? 1 : 0);
  for (int rank = 0; rank < communicator.size(); ++rank)
    (have_state[static_cast<std::size_t>(rank)] != 0 ? donors : takers).push_back(rank);
  if (takers.empty()) return 0;
  if (donors.empty()) throw CommError("no rank of this generation has the state of the run");
  std::vector<Transfer> inventories, states;
  for (std::size_t turn = 0; turn < takers.size(); ++turn) {
    const int donor = donors[turn % donors.size()], taker = takers[turn];
    Transfer& inventory = inventories.emplace_back(taker, donor);
    states.emplace_back(donor, taker);
    if (communicator.rank() == taker && left != nullptr) inventory.pieces.add(left->inventory());
  }
  fault_point("share");
  move_all(communicator, kTagInventory, inventories);
  std::deque<LeftState::Message> messages;  // what they refer to lives until they are sent
  for (std::size_t turn = 0; turn < takers.size(); ++turn) {
    const std::vector<std::byte>& text = inventories[turn].bytes;
    if (communicator.rank() != states[turn].from) continue;
    const std::string inventory(reinterpret_cast<const char*>(text.data()), text.size());
    states[turn].pieces = messages.emplace_back(left->message_for(inventory, stays_with_rank)).pieces;
  }
  const auto takes_part = [&](const Transfer& state) {
    return state.from == communicator.rank() || state.to == communicator.rank();
  };
  if (meanwhile && std::ranges::none_of(states, takes_part)) meanwhile();
  move_all(communicator, kTagState, states);
  const auto mine = std::ranges::find(states, communicator.rank(), &Transfer::to);
  if (mine == states.end()) return 0;
  auto copy = LeftState::copy_of(mine->bytes, fmt::format("rank {}", mine->from));
  if (left != nullptr) copy->keep_from(*left);
  left = std::move(copy);
  return mine->bytes.size();
}

}  // namespace dragonn::trainer
