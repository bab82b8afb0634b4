// SPDX-License-Identifier: MIT
// A fuzzer of codes of lists: any bytes are a list, whose indices ascend, or a DataError. The first byte chooses the
// codecs, unless the environment's DRAGONN_FUZZ_CODEC names one, as "rice x float32". With -fsanitize=address any other
// access is an error.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "codec/list_codec.h"

namespace {

using namespace dragonn;
using namespace dragonn::codec;

std::vector<std::unique_ptr<ListCodec>> chosen_codecs() {
  const char* only = std::getenv("DRAGONN_FUZZ_CODEC");
  std::vector<std::unique_ptr<ListCodec>> codecs;
  for (const std::string& indices : Registry<IndexCodecEntry>::instance().names()) {
    for (const std::string& values : Registry<ListValueCodecEntry>::instance().names()) {
      const ListCoding coding{{indices, Settings(Registry<IndexCodecEntry>::instance().at(indices).settings)},
                              {values, Settings(Registry<ListValueCodecEntry>::instance().at(values).settings)}};
      if (!coding.is_raw() && (only == nullptr || coding.name() == only)) codecs.push_back(make_list_codec(coding));
    }
  }
  if (codecs.empty()) throw ConfigError(std::string("DRAGONN_FUZZ_CODEC: no codec ") + only);
  return codecs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const auto codecs = chosen_codecs();
  if (size == 0) return 0;
  const bool has_values = data[0] % 2 == 0;
  const std::vector<std::byte> code(reinterpret_cast<const std::byte*>(data) + 1,
                                    reinterpret_cast<const std::byte*>(data) + size);
  SparseVector room;
  try {
    const ListView list = codecs[data[0] / 2 % codecs.size()]->decode(code, has_values, room);
    const auto indices = list.indices.host();
    const bool ascends = std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end();
    if (!ascends || (!indices.empty() && indices.back() >= kEmptySlot)) std::abort();
    if (has_values && list.values.size() != indices.size()) std::abort();
  } catch (const DataError&) {
    return 0;
  }
  return 0;
}
