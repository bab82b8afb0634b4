// SPDX-License-Identifier: MIT
/// FragmentSchedule: when the parts of a model are exchanged that take turns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragonn::trainer {

/// An exchange of a fragment, from the step after which it begins to the one after which its result arrives.
struct FragmentTurn {
  std::size_t fragment = 0;
  std::uint64_t arrives = 0;  ///< steps of the run

  friend bool operator==(const FragmentTurn&, const FragmentTurn&) = default;
};

/// The turns of `fragments` fragments, each once in `round` steps: results arrive after every round / fragments steps,
/// fragment 0's first. Source: Streaming DiLoCo, arXiv:2501.18512, section 2.3; torchft's order.
struct FragmentSchedule {
  std::uint64_t round = 1;      ///< a multiple of `fragments`
  std::uint64_t fragments = 1;  ///< at least 1
  std::uint64_t overlap = 0;    ///< steps from the beginning to the arrival, below round / fragments

  std::uint64_t interval() const { return round / fragments; }
  /// Returns the first turn that arrives after more than `done` steps.
  FragmentTurn next(std::uint64_t done) const {
    const std::uint64_t turn = done / interval();
    return {static_cast<std::size_t>(turn % fragments), (turn + 1) * interval()};
  }
  /// Returns whether that turn begins after `done` steps. Without overlap it begins where it arrives.
  bool begins(std::uint64_t done) const { return overlap > 0 && next(done).arrives == done + overlap; }
};

}  // namespace dragonn::trainer
