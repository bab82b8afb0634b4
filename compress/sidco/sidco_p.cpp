// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco.h"

namespace dragonn::compress {
namespace {

const Registration<SparsifierEntry> registration{
    sidco_entry("sidco_p", "entries above a threshold from generalized Pareto fits in stages",
                {.first = SidcoDistribution::kPareto, .later = SidcoDistribution::kPareto})};

}  // namespace
}  // namespace dragonn::compress
