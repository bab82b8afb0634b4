// SPDX-License-Identifier: MIT
#include "trainer/run/state_donor.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "core/bytes.h"
#include "core/fault_point.h"

namespace dragonn::trainer {
namespace {

/// The updates of small models come faster than a stream can tell that it has caught up: so many bytes may always wait.
constexpr std::size_t kAlwaysWait = std::size_t{64} << 20;

}  // namespace

StateDonor::StateDonor(comm::Member& member, double share, bool follows)
    : member_(member), share_(share), follows_(follows) {
  member_.on_taker([this](const comm::Taker& taker) {
    const std::lock_guard lock(mutex_);
    // To end one takes a moment, for which the coordinator must not wait.
    for (Stream& stream : streams_) stream.is_replaced = stream.is_replaced || stream.sender->taker() == taker.id;
    streams_.push_back({.sender = std::make_unique<comm::StateSender>(taker, member_.options(), share_)});
  });
}

StateDonor::~StateDonor() {
  member_.on_taker({});
}

bool StateDonor::wants_copy(std::uint64_t /*place*/) {
  std::vector<Stream> ended;  // destroyed without the lock: to end a stream takes a moment
  const std::lock_guard lock(mutex_);
  ended = take_ended();
  return std::ranges::any_of(streams_, [](const Stream& stream) { return !stream.has_copy; });
}

void StateDonor::take_copy(std::uint64_t place, const LeftState& copy) {
  std::vector<std::byte> bytes;
  append_bytes(bytes, std::as_bytes(std::span(&place, 1)));
  append_bytes(bytes, copy.to_bytes());
  const auto message = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::lock_guard lock(mutex_);
  for (Stream& stream : streams_) {
    if (std::exchange(stream.has_copy, true)) continue;
    fault_point("give");
    stream.limit = 3 * message->size() + kAlwaysWait;
    stream.is_behind = !follows_;
    if (follows_) stream.sender->send(comm::StreamKind::kState, message);
    if (!follows_) stream.sender->fall_behind();
  }
}

void StateDonor::take_update(const LoggedUpdate& update) {
  const std::lock_guard lock(mutex_);
  comm::StreamBytes bytes;
  for (Stream& stream : streams_) {
    if (!stream.has_copy || stream.is_behind || stream.is_replaced || stream.sender->has_failed()) continue;
    if (!bytes) bytes = std::make_shared<const std::vector<std::byte>>(to_bytes(update));
    stream.is_behind = stream.sender->waiting_bytes() + bytes->size() > stream.limit;
    if (stream.is_behind) {
      stream.sender->fall_behind();
      continue;
    }
    stream.sender->send(comm::StreamKind::kUpdate, bytes);
    ++stream.updates;
  }
}

std::uint64_t StateDonor::hurry(int taker) {
  const std::lock_guard lock(mutex_);
  for (const Stream& stream : streams_) {
    if (stream.sender->taker() != taker || stream.is_behind || stream.is_replaced) continue;
    stream.sender->hurry();
    return stream.updates;
  }
  return 0;
}

void StateDonor::end(const std::vector<int>& members) {
  std::vector<Stream> ended;
  const std::lock_guard lock(mutex_);
  for (Stream& stream : streams_)
    stream.is_replaced = stream.is_replaced || std::ranges::binary_search(members, stream.sender->taker());
  ended = take_ended();
}

std::vector<StateDonor::Stream> StateDonor::take_ended() {
  const auto ended = std::ranges::stable_partition(
      streams_, [](const Stream& stream) { return !stream.is_replaced && !stream.sender->has_failed(); });
  std::vector<Stream> taken(std::move_iterator(ended.begin()), std::move_iterator(ended.end()));
  streams_.erase(ended.begin(), ended.end());
  return taken;
}

}  // namespace dragonn::trainer
