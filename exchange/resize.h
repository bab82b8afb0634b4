// SPDX-License-Identifier: MIT
/// Resize: what an exchange's parts do with the state that another number of workers saved.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/nodes.h"
#include "core/archive.h"
#include "core/component_traits.h"

namespace dragonn::exchange {

/// The state of a saved rank that a rank of another number of workers takes over.
struct ReshardedParts {
  bool memories = true;  ///< residuals and momenta: they are added to this rank's
  bool methods = true;   ///< the state of sparsifiers and collectives, and what memories share: it replaces this rank's
  int workers = 0;       ///< the number of saved ranks, or with two levels of nodes
  /// Factor on memories. A node's gradients are means over its workers; as those of single workers, or of other nodes,
  /// they weigh in an update what new ones do.
  float scale = 1;
  bool is_part = false;  ///< the rank had some of its node's buckets only
};

/// A saved rank, and what one of the new ranks takes over from it.
struct RankToTake {
  int rank = 0;
  ReshardedParts what = {};
};

/// Returns the saved ranks, of `workers`, that concern rank `rank` of `world_size`: r, r + world_size, ... All their
/// residuals are added up. The state of methods is that of the first. A rank beyond the saved ones takes the state of
/// methods of rank r modulo `workers`, and no residual, so that each residual goes to one rank.
std::vector<RankToTake> ranks_to_take(int rank, int world_size, int workers);

/// Returns the nodes of a saved group, by its model's archive: one for each rank where its exchange had one level.
comm::Nodes saved_nodes(const Archive& model, int workers);
/// Saves them.
void save_nodes(Archive& model, const comm::Nodes& nodes);

/// Returns a part's name for messages: "sparsifier 'topk'".
template <class Entry>
std::string part_name(const Entry& entry) {
  return fmt::format("{} '{}'", Entry::kKind, entry.name);
}

/// Returns whether an archive has fields whose names begin with `prefix`.
bool has_fields(const Archive& archive, const std::string& prefix);

/// Returns whether a part takes over its state below `prefix`; otherwise it starts anew. @param part its name.
/// @throws ConfigError if the part's rule refuses, or if it saved state and has no rule.
bool reshards(const std::string& part, const ResizeRule& rule, const Archive& archive, const std::string& prefix);

}  // namespace dragonn::exchange
