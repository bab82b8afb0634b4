// SPDX-License-Identifier: MIT
/// Fault points: named places of a run, at which a test makes it fail. Only a build with DRAGONN_FAULT_POINTS has them:
/// elsewhere no environment variable ends a run.
///
/// DRAGONN_FAULT=PLACE:RANK:PASS:ACTION in the environment lets the rank do the action when it comes to the place for
/// the PASS-th time, from 1 on. Places are the verbs of a step (core/timer.h), where a verb begins, and "start",
/// "resume", "give", "take" and "share" (of the state of an elastic run: before a rank streams it to a process that is
/// going to join; when that has it, by its member's id; before the ranks give one that joins the rest), "agree",
/// "evaluate", "save" (before a rank writes its file of a checkpoint), "commit" (when all files of a checkpoint are
/// written, and it does not count yet) and "finish"; under MPI "mpi_init", "mpi_dup", "mpi_free" and "mpi_finalize",
/// where that call comes next. Actions are "throw" (an Error); "kill", "stop", "term" and "usr1" (the signal, for the
/// rank's process); and "sleep=SECONDS".
#pragma once

#include <string_view>

namespace dragonn {

/// Returns whether this build has fault points.
bool has_fault_points();

namespace detail {
extern const bool fault_wanted;
void reach_fault_point(std::string_view place);
}  // namespace detail

/// Does the action that the environment asks for at this place; otherwise nothing, at the cost of a comparison. The
/// rank is this_rank(). @throws Error for the action "throw"; ConfigError if DRAGONN_FAULT is malformed.
inline void fault_point(std::string_view place) {
  if (detail::fault_wanted) [[unlikely]]
    detail::reach_fault_point(place);
}

}  // namespace dragonn
