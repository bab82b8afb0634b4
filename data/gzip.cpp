// SPDX-License-Identifier: MIT
#include "data/gzip.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>
#define ZLIB_CONST  // zlib takes its input as const
#include <zlib.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

/// RAII owner of zlib's stream for one gzip member.
class Inflater {
 public:
  explicit Inflater(const std::vector<std::byte>& compressed) {
    constexpr int kGzipWithLargestWindow = 16 + MAX_WBITS;
    DRAGONN_CHECK(inflateInit2(&stream_, kGzipWithLargestWindow) == Z_OK, "zlib: no memory");
    stream_.next_in = reinterpret_cast<const Bytef*>(compressed.data());
    stream_.avail_in = static_cast<uInt>(compressed.size());
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Decompresses into `out` from `offset` on; returns zlib's status.
  int fill(std::vector<std::byte>& out, std::size_t offset) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + offset);
    stream_.avail_out = static_cast<uInt>(out.size() - offset);
    return inflate(&stream_, Z_NO_FLUSH);
  }
  std::size_t consumed() const { return stream_.total_in; }
  std::size_t produced() const { return stream_.total_out; }
  bool input_left() const { return stream_.avail_in > 0; }
  const char* message() const { return stream_.msg != nullptr ? stream_.msg : "unexpected end of the file"; }

 private:
  z_stream stream_{};
};

bool is_gzip(const std::vector<std::byte>& bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

}  // namespace

std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path, std::size_t limit_bytes) {
  std::vector<std::byte> compressed = read_file(path);
  if (!is_gzip(compressed)) return compressed;
  DRAGONN_CHECK(std::max(limit_bytes, compressed.size()) < std::numeric_limits<uInt>::max(),
                "{} is too large to be decompressed at once", path.string());
  Inflater inflater(compressed);
  const std::size_t largest = limit_bytes + 1;  // the byte too many tells a result at the limit from one beyond it
  std::vector<std::byte> out(std::min(largest, 4 * compressed.size() + 1024));
  for (;;) {
    const int status = inflater.fill(out, inflater.produced());
    const std::size_t produced = inflater.produced();
    if (produced > limit_bytes) {
      throw DataError(fmt::format("{}: decompresses to more than {} bytes (at byte {})", path.string(), limit_bytes,
                                  inflater.consumed()));
    }
    if (status == Z_STREAM_END) {
      if (inflater.input_left()) {
        throw DataError(
            fmt::format("{}: data after the end of the gzip stream at byte {}", path.string(), inflater.consumed()));
      }
      out.resize(produced);
      return out;
    }
    if (status != Z_OK || produced < out.size()) {
      throw DataError(fmt::format("{}: damaged or truncated gzip data at byte {}: {}", path.string(),
                                  inflater.consumed(), inflater.message()));
    }
    out.resize(std::min(largest, 2 * out.size()));
  }
}

}  // namespace dragonn::data
