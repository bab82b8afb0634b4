// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco.h"

namespace dragonn::compress {
namespace {

const Registration<SparsifierEntry> registration{
    sidco_entry("sidco_e", "entries above a threshold from exponential fits in stages",
                {.first = SidcoDistribution::kExponential, .later = SidcoDistribution::kExponential})};

}  // namespace
}  // namespace dragonn::compress
