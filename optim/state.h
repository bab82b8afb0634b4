// SPDX-License-Identifier: MIT
/// Helpers for the state that optimizers keep: arrays of one float per parameter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "core/archive.h"
#include "core/buffer.h"
#include "core/parameter.h"

namespace dragonn::optim {

/// Zeros, as many as the arena has parameters, on its device. @throws DeviceError unless that is the host.
inline Buffer<float> make_state(const ParameterArena& arena) {
  Buffer<float> state(arena.size(), arena.values().device());
  std::ranges::fill(state.host(), 0.0f);
  return state;
}

inline void save_state(Archive& archive, const std::string& name, const Buffer<float>& state) {
  archive.put_array(name, state.host());
}

/// @throws DataError if the archive lacks the field or it has another size.
inline void load_state(const Archive& archive, const std::string& name, Buffer<float>& state) {
  archive.get_array(name, state.host());
}

}  // namespace dragonn::optim
