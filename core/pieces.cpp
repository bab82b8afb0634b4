// SPDX-License-Identifier: MIT
#include "core/pieces.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace dragonn {

void Pieces::refer_to(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  pieces_.push_back(bytes);
  size_ += bytes.size();
}

void Pieces::add(std::string text) {
  own_.push_back(std::make_shared<const std::string>(std::move(text)));
  refer_to(std::as_bytes(std::span(*own_.back())));
}

void Pieces::append(const Pieces& other) {
  own_.insert(own_.end(), other.own_.begin(), other.own_.end());
  pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
  size_ += other.size_;
}

void Pieces::copy_to(std::size_t begin, std::span<std::byte> target) const {
  for (const std::span<const std::byte> piece : pieces_) {
    if (target.empty()) return;
    if (begin >= piece.size()) {
      begin -= piece.size();
      continue;
    }
    const auto part = piece.subspan(begin, std::min(target.size(), piece.size() - begin));
    std::ranges::copy(part, target.begin());
    target = target.subspan(part.size());
    begin = 0;
  }
  DRAGONN_CHECK(target.empty(), "{} bytes more than a message of {} has", target.size(), size_);
}

std::vector<std::byte> Pieces::bytes() const {
  std::vector<std::byte> bytes;
  bytes.reserve(size_);
  for (const std::span<const std::byte> piece : pieces_) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

}  // namespace dragonn
