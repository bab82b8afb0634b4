// SPDX-License-Identifier: MIT
#include "comm/tcp/frame.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>

#include "comm/tcp/socket.h"
#include "core/printable.h"

namespace dragonn::comm {
namespace {

iovec part_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads
}

/// Removes the first `count` bytes. Returns by how many the count exceeds the size.
std::size_t advance(std::span<const std::byte>& bytes, std::size_t count) {
  const std::size_t here = std::min(count, bytes.size());
  bytes = bytes.subspan(here);
  return count - here;
}

/// Bytes per read of headers and small messages: a small message and the next header arrive with one call.
constexpr std::size_t kStageBytes = 64 << 10;
/// Payloads of at least this size are read directly into their destination.
constexpr std::size_t kDirectBytes = 16 << 10;
/// The room that a header alone is given in a slot. That of a longer message grows with the bytes that come.
constexpr std::size_t kTrustedBytes = 16 << 20;

bool is_text(FrameKind kind) {
  return kind >= FrameKind::kEnd && kind <= FrameKind::kHere;
}

void copy_bytes(const std::byte* source, std::byte* target, std::size_t bytes) {
  if (bytes > 0 && target != nullptr) std::memcpy(target, source, bytes);
}

}  // namespace

std::size_t Outgoing::start(int tag, std::span<const std::byte> message) {
  const std::size_t number = sends_.add({.message = message, .tag = tag});
  queue_.reserve(sends_.size());
  queue_.push_back(number);
  return number;
}

void Outgoing::tell(FrameKind kind, std::string_view text) {
  const std::size_t length = std::min(text.size(), kLongestFrameText);
  const FrameHeader header{.kind = kind, .bytes = length};
  texts_.append(reinterpret_cast<const char*>(&header), sizeof(header)).append(text, 0, length);
}

void Outgoing::notify(const Notification& notification) {
  const std::array words{notification.kind, notification.value};
  static_assert(sizeof(words) == kNotificationBytes);
  tell(FrameKind::kNotification, {reinterpret_cast<const char*>(words.data()), sizeof(words)});
}

void Outgoing::detach() {
  queue_.clear();
  if (!is_in_message()) return;
  kept_.assign(body_.begin(), body_.end());
  body_ = kept_;
  number_ = kText;  // nobody waits for the detached message
}

void Outgoing::forget() {
  queue_.clear();
  if (is_in_message()) broken_ = true;
}

bool Outgoing::begin_frame() {
  if (!texts_.empty()) {
    text_.swap(texts_);
    texts_.clear();
    number_ = kText;
    head_ = std::as_bytes(std::span(text_));
    body_ = {};
    return true;
  }
  if (queue_.empty()) return false;
  number_ = queue_.front();
  queue_.erase(queue_.begin());
  const Send& send = sends_[number_];
  header_ = {.tag = send.tag, .bytes = send.message.size()};
  head_ = bytes_of(header_);
  body_ = send.message;
  return true;
}

void Outgoing::write() {
  while (!broken_ && (sending_ || begin_frame())) {
    sending_ = true;
    std::array<iovec, 2> parts{part_of(head_), part_of(body_)};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      broken_ = errno != EAGAIN;
      return;
    }
    advance(body_, advance(head_, static_cast<std::size_t>(count)));
    sending_ = !head_.empty() || !body_.empty();
    if (!sending_ && number_ != kText) sends_[number_].done = true;
  }
  if (closing_ && !std::exchange(shut_, true)) ::shutdown(socket_, SHUT_WR);
}

Incoming::Incoming(int socket) : socket_(socket), stage_(kStageBytes) {}

std::size_t Incoming::start(int tag, std::span<std::byte> buffer) {
  const std::size_t number = receives_.add({.buffer = buffer, .tag = tag});
  waiting_.reserve(receives_.size());
  if (Slot* slot = oldest_slot(tag); slot == nullptr) {
    waiting_.push_back(number);
  } else if (slot->whole) {
    give(*slot, number);
  } else {
    slot->claimed = number;
  }
  if (state_ == State::kBlocked) read();
  return number;
}

void Incoming::read() {
  drained_ = false;
  while (!closed_ && step()) {
  }
}

bool Incoming::step() {
  if (state_ == State::kBlocked) return place_message();
  if (state_ == State::kBytes) return read_bytes();
  if (staged() < sizeof(FrameHeader)) return fill_stage();
  std::memcpy(&header_, stage_.data() + stage_begin_, sizeof(header_));
  stage_begin_ += sizeof(header_);
  begin_frame();
  return true;
}

void Incoming::begin_frame() {
  left_ = header_.bytes;
  receive_ = kNobody;
  slot_ = nullptr;
  target_ = nullptr;
  state_ = State::kBytes;
  if (header_.kind == FrameKind::kMessage && left_ <= kLongestMessage) {
    largest_ = std::max(largest_, std::min(left_, kTrustedBytes));
    reserve_free_slots();
    if (!dropping_) state_ = State::kBlocked;  // until it has a place
  } else if (header_.kind == FrameKind::kNotification ? left_ == kNotificationBytes
                                                      : is_text(header_.kind) && left_ <= kLongestFrameText) {
    text_.resize(left_);
    target_ = reinterpret_cast<std::byte*>(text_.data());
  } else {
    lose("its connection carried an invalid message");
  }
}

bool Incoming::place_message() {
  const auto waiting = std::ranges::find(waiting_, header_.tag, [&](std::size_t i) { return receives_[i].tag; });
  if (waiting != waiting_.end()) {
    receive_ = *waiting;
    waiting_.erase(waiting);
    Receive& receive = receives_[receive_];
    receive.bytes = left_;
    if (left_ <= receive.buffer.size()) target_ = receive.buffer.data();
  } else if (const auto slot = std::ranges::find(slots_, false, &Slot::in_use); slot != slots_.end()) {
    slot_ = &*slot;
    slot_->size = left_;
    slot_->number = messages_;
    slot_->tag = header_.tag;
    slot_->claimed = kNobody;
    slot_->whole = false;
    slot_->in_use = true;
    target_ = slot_->bytes.data();
  } else {
    return false;
  }
  ++messages_;
  state_ = State::kBytes;
  return true;
}

std::size_t Incoming::capacity_for_bytes() {
  if (slot_ == nullptr) return left_;
  const std::size_t filled = slot_->size - left_;
  if (filled == slot_->bytes.size() && left_ > 0) {
    Buffer<std::byte> larger(std::min(slot_->size, 2 * filled));
    copy_bytes(slot_->bytes.data(), larger.data(), filled);
    slot_->bytes = std::move(larger);
    target_ = slot_->bytes.data() + filled;
  }
  return std::min(left_, slot_->bytes.size() - filled);
}

bool Incoming::read_bytes() {
  const std::size_t capacity = capacity_for_bytes();
  std::size_t count = std::min(capacity, staged());
  if (count > 0) {
    copy_bytes(stage_.data() + stage_begin_, target_, count);
    stage_begin_ += count;
  } else if (left_ >= kDirectBytes && target_ != nullptr) {
    count = take(target_, capacity);
    if (count == 0) return false;
  } else if (left_ > 0) {
    return fill_stage();
  }
  left_ -= count;
  if (target_ != nullptr) target_ += count;
  if (left_ == 0) end_frame();
  return true;
}

void Incoming::end_frame() {
  state_ = State::kHeader;
  if (header_.kind == FrameKind::kMessage && !dropping_) largest_ = std::max<std::size_t>(largest_, header_.bytes);
  if (header_.kind != FrameKind::kMessage) {
    end_text_frame();
  } else if (slot_ != nullptr) {
    slot_->whole = true;
    if (slot_->claimed != kNobody) give(*slot_, slot_->claimed);
  } else if (receive_ != kNobody) {
    receives_[receive_].done = true;
  }
}

void Incoming::end_text_frame() {
  if (header_.kind == FrameKind::kNotification) {
    std::array<std::uint64_t, 2> words{};
    copy_bytes(std::as_bytes(std::span(text_)).data(), std::as_writable_bytes(std::span(words)).data(), sizeof(words));
    return notifications_.add({.kind = words[0], .value = words[1]});
  }
  text_ = printable(text_);
  if (header_.kind == FrameKind::kWhere) {
    asked_ = true;
  } else if (header_.kind == FrameKind::kHere) {
    answer_ = text_;
  } else {
    end_text_ = text_;
    end_ = header_.kind == FrameKind::kAbort ? End::kAbort : End::kFailure;
    if (header_.kind == FrameKind::kEnd) end_ = End::kWell;
  }
}

void Incoming::drop() {
  dropping_ = true;
  waiting_.clear();
  for (Slot& slot : slots_) slot.claimed = kNobody;
  if (header_.kind != FrameKind::kMessage) return;
  target_ = nullptr;
  slot_ = nullptr;
  receive_ = kNobody;
  if (state_ == State::kBlocked) state_ = State::kBytes;
}

void Incoming::lose(const std::string& reason) {
  closed_ = true;
  if (end_ != End::kNone) return;
  end_ = End::kLost;
  end_text_ = reason;
}

Incoming::Slot* Incoming::oldest_slot(int tag) {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    const bool fits = slot.in_use && slot.claimed == kNobody && slot.tag == tag;
    if (fits && (found == nullptr || slot.number < found->number)) found = &slot;
  }
  return found;
}

void Incoming::reserve_free_slots() {
  for (Slot& slot : slots_) {
    if (!slot.in_use) resize_with_slack(slot.bytes, largest_);
  }
}

void Incoming::give(Slot& slot, std::size_t number) {
  Receive& receive = receives_[number];
  receive.bytes = slot.size;
  if (slot.size <= receive.buffer.size()) copy_bytes(slot.bytes.data(), receive.buffer.data(), slot.size);
  receive.done = true;
  slot.in_use = false;
  reserve_free_slots();
}

bool Incoming::fill_stage() {
  if (stage_begin_ > 0) std::memmove(stage_.data(), stage_.data() + stage_begin_, staged());
  stage_end_ = staged();
  stage_begin_ = 0;
  const std::size_t count = take(stage_.data() + stage_end_, stage_.size() - stage_end_);
  stage_end_ += count;
  return count > 0;
}

std::size_t Incoming::take(std::byte* target, std::size_t capacity) {
  if (drained_) return 0;
  for (;;) {
    const ssize_t count = ::recv(socket_, target, capacity, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return 0;
    if (count <= 0) {
      lose(count == 0 ? "its connection was closed"
                      : "its connection broke: " + std::generic_category().message(errno));
      return 0;
    }
    drained_ = static_cast<std::size_t>(count) < capacity;
    return static_cast<std::size_t>(count);
  }
}

}  // namespace dragonn::comm
