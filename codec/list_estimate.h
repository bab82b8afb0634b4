// SPDX-License-Identifier: MIT
/// ListEstimate: the bytes that lists will take in messages, before there are any.
#pragma once

#include <memory>

#include "codec/list_codec.h"

namespace dragonn::codec {

/// The expected size of lists whose entries are at random places. Entries may be fractions: means over ranks. Empty
/// lists take nothing.
class ListEstimate {
 public:
  /// Estimates lists that are sent as they are: 8 bytes an entry, 4 without values.
  ListEstimate() = default;
  /// @throws ConfigError if a codec is unknown.
  explicit ListEstimate(const ListCoding& coding);

  /// Returns the bytes of a list of that many of `numel` elements.
  double bytes(double entries, double numel) const;
  /// Returns the bytes of its indices alone.
  double index_bytes(double entries, double numel) const;
  /// Returns the bytes of a value of a partial sum.
  double sum_bytes() const { return sum_bytes_; }
  /// Returns whether a list of n entries takes no other number of bytes than a list of n others.
  bool is_fixed_size() const { return indices_ == nullptr; }
  /// Returns whether the numbers are estimates: real indices are not at random places.
  bool is_estimate() const { return is_estimate_; }

 private:
  std::shared_ptr<const IndexCodec> indices_;  // null: raw
  std::shared_ptr<const ListValueCodec> values_;
  double sum_bytes_ = sizeof(float);
  bool is_estimate_ = false;
};

}  // namespace dragonn::codec
