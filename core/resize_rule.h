// SPDX-License-Identifier: MIT
/// ResizeRule: the declared fate of a component's saved state when a run resumes with another number of workers.
#pragma once

#include <string>

namespace dragonn {

enum class OnResize {
  kStateless,  ///< there is no state. A component that saves some and says so nevertheless is refused
  kReshard,    ///< the new ranks take the state over, as the interface of the component says
  kRestart,    ///< the new ranks begin as a fresh run does
  kRefuse,     ///< the run does not resume
};

/// The rule for a component's state when a checkpoint of P workers resumes on P' of them. Every component that saves
/// state declares one.
struct ResizeRule {
  OnResize kind = OnResize::kStateless;
  /// The rule in words that follow the component's name in a log line: "restarts: its regions are one per worker".
  std::string how = {};
};

}  // namespace dragonn
