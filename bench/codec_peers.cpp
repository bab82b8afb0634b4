// SPDX-License-Identifier: MIT
#include "bench/codec_peers.h"

#ifdef DRAGONN_STREAMVBYTE
#include <streamvbyte.h>
#include <streamvbytedelta.h>
#endif
#ifdef DRAGONN_ZSTD
#include <memory>
#include <zstd.h>

#include "core/error.h"
#endif

namespace dragonn::bench {
namespace {

#ifdef DRAGONN_STREAMVBYTE
constexpr std::size_t kPadding = 16;  // bytes that its decoder may read behind the code

/// Whole bytes of the gaps, one to four each, with two bits that say how many.
PeerCodec streamvbyte() {
  const auto count = [](std::size_t indices) { return static_cast<std::uint32_t>(indices); };
  return {"streamvbyte",
          /*max_bytes=*/
          [count](std::size_t indices) { return streamvbyte_max_compressedbytes(count(indices)) + kPadding; },
          /*encode=*/
          [count](std::span<const std::uint32_t> indices, std::span<std::byte> code) {
            return streamvbyte_delta_encode(indices.data(), count(indices.size()),
                                            reinterpret_cast<std::uint8_t*>(code.data()), 0);
          },
          /*decode=*/
          [count](std::span<const std::byte> code, std::span<std::uint32_t> indices) {
            streamvbyte_delta_decode(reinterpret_cast<const std::uint8_t*>(code.data()), indices.data(),
                                     count(indices.size()), 0);
          }};
}
#endif

#ifdef DRAGONN_ZSTD
/// Gaps as uint32, compressed at zstd's fastest regular level: the indices themselves hardly compress.
PeerCodec zstd() {
  constexpr int kLevel = 1;
  const std::shared_ptr<ZSTD_CCtx> compressor(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const std::shared_ptr<ZSTD_DCtx> decompressor(ZSTD_createDCtx(), ZSTD_freeDCtx);
  const auto gaps = std::make_shared<std::vector<std::uint32_t>>();
  const auto checked = [](std::size_t bytes) {
    if (ZSTD_isError(bytes) != 0) throw Error(std::string("zstd: ") + ZSTD_getErrorName(bytes));
    return bytes;
  };
  return {"zstd",
          /*max_bytes=*/[](std::size_t indices) { return ZSTD_compressBound(indices * sizeof(std::uint32_t)); },
          /*encode=*/
          [=](std::span<const std::uint32_t> indices, std::span<std::byte> code) {
            gaps->resize(indices.size());
            std::uint32_t previous = 0;
            for (std::size_t i = 0; i < indices.size(); ++i) {
              (*gaps)[i] = indices[i] - previous;
              previous = indices[i];
            }
            return checked(ZSTD_compressCCtx(compressor.get(), code.data(), code.size(), gaps->data(),
                                             gaps->size() * sizeof(std::uint32_t), kLevel));
          },
          /*decode=*/
          [=](std::span<const std::byte> code, std::span<std::uint32_t> indices) {
            checked(ZSTD_decompressDCtx(decompressor.get(), indices.data(), indices.size_bytes(), code.data(),
                                        code.size()));
            std::uint32_t previous = 0;
            for (std::uint32_t& index : indices) previous = index += previous;
          }};
}
#endif

}  // namespace

std::vector<PeerCodec> peer_codecs() {
  std::vector<PeerCodec> codecs;
#ifdef DRAGONN_STREAMVBYTE
  codecs.push_back(streamvbyte());
#endif
#ifdef DRAGONN_ZSTD
  codecs.push_back(zstd());
#endif
  return codecs;
}

}  // namespace dragonn::bench
