// SPDX-License-Identifier: MIT
#include "exchange/resize.h"

#include <cstdint>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::exchange {
namespace {

constexpr const char* kNodes = "exchange/nodes";

}  // namespace

std::vector<RankToTake> ranks_to_take(int rank, int world_size, int workers) {
  if (rank >= workers) return {{rank % workers, {.memories = false, .methods = true, .workers = workers}}};
  std::vector<RankToTake> ranks;
  for (int saved = rank; saved < workers; saved += world_size) {
    ranks.push_back({saved, {.memories = true, .methods = saved == rank, .workers = workers}});
  }
  return ranks;
}

comm::Nodes saved_nodes(const Archive& model, int workers) {
  if (!model.contains(kNodes)) return comm::Nodes::of_size(workers, 1);
  return comm::Nodes(model.get_vector<std::int32_t>(kNodes));
}

void save_nodes(Archive& model, const comm::Nodes& nodes) {
  model.put_array(kNodes, nodes.nodes_of_ranks());
}

bool has_fields(const Archive& archive, const std::string& prefix) {
  const auto first = archive.fields().lower_bound(prefix);
  return first != archive.fields().end() && first->first.starts_with(prefix);
}

bool reshards(const std::string& part, const ResizeRule& rule, const Archive& archive, const std::string& prefix) {
  const char* expected = "expected as many workers as the checkpoint has";
  if (rule.kind == OnResize::kRefuse) {
    throw ConfigError(
        fmt::format("{} does not resume with another number of workers: {}; {}", part, rule.how, expected));
  }
  if (rule.kind == OnResize::kStateless && has_fields(archive, prefix)) {
    throw ConfigError(fmt::format("{} has saved state and no rule for another number of workers; {}", part, expected));
  }
  return rule.kind == OnResize::kReshard;
}

}  // namespace dragonn::exchange
