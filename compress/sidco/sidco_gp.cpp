// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco.h"

namespace dragonn::compress {
namespace {

const Registration<SparsifierEntry> registration{
    sidco_entry("sidco_gp", "entries above a threshold from a gamma fit, refined by generalized Pareto fits in stages",
                {.first = SidcoDistribution::kGamma, .later = SidcoDistribution::kPareto})};

}  // namespace
}  // namespace dragonn::compress
