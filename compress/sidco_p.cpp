// SPDX-License-Identifier: MIT
#include "compress/sidco.h"

namespace dragonn::compress {
namespace {

const Registration<SparsifierEntry> registration{
    sidco_entry("sidco_p", "entries above a threshold from generalized Pareto fits, one upon the other",
                {.first = SidcoDistribution::kPareto, .later = SidcoDistribution::kPareto})};

}  // namespace
}  // namespace dragonn::compress
