// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/model_parts.h"

#include "exchange/buckets.h"

namespace dragonn::trainer {

std::vector<ModelPart> model_parts(const ParameterArena& arena, std::size_t fragments,
                                   const exchange::GradientExchange& exchange) {
  std::vector<ModelPart> parts(fragments + 1);
  const std::vector<std::size_t> fragment_of = exchange::fragments_of(arena, fragments);
  for (const ParameterId id : arena.layout()) {
    parts[fragment_of[id]].tensors.push_back(id);
    parts.back().tensors.push_back(id);
  }
  for (std::size_t group = 0; group < exchange.groups().size(); ++group) {
    parts[exchange.buckets()[exchange.groups()[group].begin].fragment].groups.push_back(group);
    parts.back().groups.push_back(group);
  }
  return parts;
}

}  // namespace dragonn::trainer
