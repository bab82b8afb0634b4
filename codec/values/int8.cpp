// SPDX-License-Identifier: MIT
// Value codec "int8": 8 bits a value.
#include "codec/values/scaled_integers.h"

namespace dragonn::codec {
namespace {

const Registration<ListValueCodecEntry> registration{
    scaled_integers("int8", "8 bits a value: whole multiples of the largest magnitude of 1,024 values / 127", 8)};

}  // namespace
}  // namespace dragonn::codec
