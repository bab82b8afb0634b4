// SPDX-License-Identifier: MIT
// Value codec "int4": 4 bits a value.
#include "codec/values/scaled_integers.h"

namespace dragonn::codec {
namespace {

const Registration<ListValueCodecEntry> registration{
    scaled_integers("int4", "4 bits a value: whole multiples of the largest magnitude of 1,024 values / 7", 4)};

}  // namespace
}  // namespace dragonn::codec
