// SPDX-License-Identifier: MIT
/// Adds a saved array to one in memory, for memories that take over the state of other ranks.
#pragma once

#include <string>
#include <utility>

#include "kernels/archive_views.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::compress {

/// Adds a field of values.size() floats to `values`, on any device. @throws DataError as kernels::get_view.
inline void add_saved(const Archive& archive, const std::string& name, View<float> values) {
  Buffer<float> saved(values.size(), values.device());
  kernels::get_view(archive, name, saved.view());
  kernels::add(values, std::as_const(saved).view(), values);
}

}  // namespace dragonn::compress
