// SPDX-License-Identifier: MIT
#include "comm/local/mailbox.h"

#include <algorithm>
#include <cstring>

namespace dragonn::comm {
namespace {

void copy(std::span<const std::byte> source, std::byte* target) {
  if (!source.empty()) std::memcpy(target, source.data(), source.size());
}

}  // namespace

Mailbox::Slot* Mailbox::free_slot() {
  Slot& next = slots_[sent_ % slots_.size()];
  if (!next.full) return &next;
  for (Slot& slot : slots_) {
    if (!slot.full) return &slot;  // messages were taken out of order
  }
  return nullptr;
}

Mailbox::Slot* Mailbox::oldest(int tag) {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    if (slot.full && slot.tag == tag && (found == nullptr || slot.number < found->number)) found = &slot;
  }
  return found;
}

template <class IsReady>
bool Mailbox::wait(std::unique_lock<std::mutex>& lock, RunningDeadline deadline, const IsReady& is_ready) {
  while (!changed_.wait_until(lock, deadline.next_look(), is_ready)) {
    if (deadline.is_over()) return false;
  }
  return true;
}

Mailbox::Result Mailbox::put(int tag, std::span<const std::byte> message, Moment stamp, RunningDeadline deadline) {
  Slot* slot = nullptr;
  {
    std::unique_lock lock(mutex_);
    const bool ready = wait(lock, deadline, [&] {
      slot = free_slot();
      return closed_ || slot != nullptr;
    });
    if (closed_) return {.status = Status::kClosed};
    if (!ready) return {.status = Status::kTimedOut};
  }
  // A free slot is the sender's alone: the copy needs no lock.
  slot->size = message.size();
  slot->size_only = message.data() == nullptr;
  if (!slot->size_only) {
    largest_ = std::max(largest_, message.size());
    resize_with_slack(slot->bytes, largest_);
    copy(message, slot->bytes.data());
  }
  {
    const std::scoped_lock lock(mutex_);
    slot->number = sent_++;
    slot->stamp = stamp;
    slot->tag = tag;
    slot->full = true;
  }
  changed_.notify_all();
  return {.status = Status::kDone, .bytes = message.size(), .stamp = stamp};
}

Mailbox::Result Mailbox::take(int tag, std::span<std::byte> buffer, RunningDeadline deadline) {
  Slot* slot = nullptr;
  {
    std::unique_lock lock(mutex_);
    const bool ready = wait(lock, deadline, [&] {
      slot = oldest(tag);
      return closed_ || slot != nullptr;
    });
    if (slot == nullptr) return {.status = ready ? Status::kClosed : Status::kTimedOut};
  }
  // A full slot is the receiver's alone.
  const std::size_t bytes = slot->size;
  const Moment stamp = slot->stamp;
  if (bytes > buffer.size()) return {.status = Status::kTooLarge, .bytes = bytes};
  if (!slot->size_only && buffer.data() != nullptr) copy(slot->bytes.host().first(bytes), buffer.data());
  {
    const std::scoped_lock lock(mutex_);
    slot->full = false;
  }
  changed_.notify_all();
  return {.status = Status::kDone, .bytes = bytes, .stamp = stamp};
}

void Mailbox::close() {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace dragonn::comm
