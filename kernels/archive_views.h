// SPDX-License-Identifier: MIT
/// Archive views: saves and loads arrays of any device; archives hold host memory.
#pragma once

#include <string>

#include "core/archive.h"
#include "kernels/devices.h"

namespace dragonn::kernels {

/// Puts the values of `view` into the archive.
template <class T>
void put_view(Archive& archive, const std::string& name, View<const T> view) {
  HostMirror<T> mirror;
  archive.put_array<T>(name, mirror.of(view));
}

/// Reads a field of view.size() values into `view`. @throws DataError if the archive lacks it or it has another size;
/// `view` is then unchanged.
template <class T>
void get_view(const Archive& archive, const std::string& name, View<T> view) {
  if (view.device().is_cpu()) return archive.get_array(name, view.host());
  Buffer<T> values(view.size());
  archive.get_array(name, values.host());
  transfer(std::as_const(values).view(), view);
}

}  // namespace dragonn::kernels
