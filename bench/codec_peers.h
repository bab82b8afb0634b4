// SPDX-License-Identifier: MIT
/// Codecs of other libraries, to measure beside the project's own: in benchmarks only, where the libraries are
/// installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dragonn::bench {

/// A library's code of ascending indices, in host memory. Decoding checks no more than the library does.
struct PeerCodec {
  const char* name;
  std::function<std::size_t(std::size_t indices)> max_bytes;
  /// Writes the code, and returns its length. @param code max_bytes() long.
  std::function<std::size_t(std::span<const std::uint32_t> indices, std::span<std::byte> code)> encode;
  /// Reads a code of exactly this length into as many indices as were encoded.
  std::function<void(std::span<const std::byte> code, std::span<std::uint32_t> indices)> decode;
};

/// Returns the codecs of the libraries that this program was built with.
std::vector<PeerCodec> peer_codecs();

}  // namespace dragonn::bench
