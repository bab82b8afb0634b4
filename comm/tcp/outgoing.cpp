// SPDX-License-Identifier: MIT
#include "comm/tcp/outgoing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include "comm/tcp/socket.h"

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

}  // namespace

std::size_t Outgoing::start(int tag, std::span<const std::byte> message) {
  const std::size_t number = sends_.add({.message = message, .tag = tag});
  queue_.reserve(sends_.size());
  queue_.push_back(number);
  return number;
}

void Outgoing::tell(FrameKind kind, const std::string& text) {
  const std::size_t length = std::min(text.size(), kLongestFrameText);
  const FrameHeader header{.kind = kind, .bytes = length};
  texts_.append(reinterpret_cast<const char*>(&header), sizeof(header)).append(text, 0, length);
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

}  // namespace dragonn::comm
