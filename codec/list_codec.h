// SPDX-License-Identifier: MIT
/// ListCodec: writes a list of selected entries as bytes for the wire, and reads it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "codec/indices/index_codec.h"
#include "codec/values/value_codec.h"
#include "core/settings.h"
#include "core/sparse_vector.h"

namespace dragonn::codec {

/// The codec of lists that a config chose: one for their indices, and one for their values.
struct CodecChoice {
  Component indices{kRawIndices, {}};
  Component values{kRawValues, {}};

  /// Returns whether lists are sent as in the papers: uint32 indices and float32 values, which need no code.
  bool is_raw() const { return indices.name == kRawIndices && values.name == kRawValues; }
  /// Returns whether decoded values differ from the encoded ones. @throws ConfigError if the codec is unknown.
  bool is_lossy() const;
  /// Returns whether partial sums travel in the code of values, too. @throws as is_lossy.
  bool carries_sums() const;
  /// Returns "rice x float32".
  std::string name() const { return indices.name + " x " + values.name; }
};

/// A codec for lists of entries. It has no state besides memory: one object serves all buckets of a rank. Lists and
/// codes are host memory. Indices are exact.
class ListCodec {
 public:
  virtual ~ListCodec() = default;

  /// Returns the room that the code of a list of that many entries needs, in bytes.
  /// @param has_values false if indices travel alone.
  virtual std::size_t max_bytes(std::size_t entries, bool has_values) const = 0;
  /// Returns whether every code of a number of entries is that long. Otherwise ranks send each other the lengths.
  virtual bool is_fixed_size() const = 0;
  /// Returns whether decoded values differ from the encoded ones.
  virtual bool is_lossy() const = 0;
  /// Returns the lossy code in which partial sums travel; null: they travel as float32.
  virtual const ValueCodec* sums() const = 0;
  /// Writes the code of a list at the beginning of `code`. Returns its length: all of `code` for a codec of a fixed
  /// size, which marks places without an entry as empty.
  /// @param code at least max_bytes() of the list long, aligned to 4 bytes.
  virtual std::size_t encode(const ListView& list, bool has_values, std::span<std::byte> code) const = 0;
  /// Reads a code of exactly this length, which may come from another rank. The list lies in `code` itself or in
  /// `scratch`, without empty slots. Its indices ascend; whether the bucket has them is the caller's to check.
  /// @param code aligned to 4 bytes.  @throws DataError that says what is wrong, for bytes that are no such list.
  virtual ListView decode(std::span<const std::byte> code, bool has_values, SparseVector& scratch) const = 0;
};

/// Makes the codec of lists. @throws ConfigError if one of the names is unknown.
std::unique_ptr<ListCodec> make_list_codec(const CodecChoice& coding);

/// The expected size of lists whose entries are at random places. Entries may be fractions: means over ranks. Empty
/// lists take nothing.
class ListEstimate {
 public:
  /// Estimates lists that are sent as they are: 8 bytes an entry, 4 without values.
  ListEstimate() = default;
  /// @throws ConfigError if a codec is unknown.
  explicit ListEstimate(const CodecChoice& coding);

  /// Returns the bytes of a list of that many of `numel` elements.
  double bytes(double entries, double numel) const;
  /// Returns the bytes of its indices alone.
  double index_bytes(double entries, double numel) const;
  /// Returns the bytes of a value of a partial sum.
  double sum_bytes() const { return sum_bytes_; }
  /// Returns whether a list of n entries takes no other number of bytes than a list of n others.
  bool is_fixed_size() const { return indices_ == nullptr; }
  /// Returns whether lists decode to other values.
  bool is_lossy() const { return is_lossy_; }
  /// Returns whether the numbers are estimates: real indices are not at random places.
  bool is_estimate() const { return is_estimate_; }

 private:
  std::shared_ptr<const IndexCodec> indices_;  // null: raw
  std::shared_ptr<const ValueCodec> values_;
  double sum_bytes_ = sizeof(float);
  bool is_estimate_ = false;
  bool is_lossy_ = false;
};

}  // namespace dragonn::codec
