// SPDX-License-Identifier: MIT
/// Optimizer state: arrays of one float per parameter.
#pragma once

#include <string>

#include "core/archive.h"
#include "core/buffer.h"
#include "core/parameter.h"
#include "kernels/archive_views.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::optim {

/// Makes an array of zeros for the parameters of the arena, on its device.
inline Buffer<float> make_state(const ParameterArena& arena) {
  Buffer<float> state(arena.size(), arena.values().device());
  kernels::fill(0, state.view());
  return state;
}

inline void save_state(Archive& archive, const std::string& name, const Buffer<float>& state) {
  kernels::put_view(archive, name, state.view());
}

/// Loads a state. @throws DataError if the archive lacks the field or it has another size.
inline void load_state(const Archive& archive, const std::string& name, Buffer<float>& state) {
  kernels::get_view(archive, name, state.view());
}

}  // namespace dragonn::optim
