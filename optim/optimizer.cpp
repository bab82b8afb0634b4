// SPDX-License-Identifier: MIT
#include "optim/optimizer.h"

#include "kernels/devices.h"

namespace dragonn::optim {

void Optimizer::save(Archive& archive, const std::string& prefix) {
  for (const auto& [name, values] : state()) kernels::put_view(archive, prefix + name, View<const float>(values));
}

void Optimizer::load(const Archive& archive, const std::string& prefix) {
  for (const auto& [name, values] : state()) kernels::get_view(archive, prefix + name, values);
  abandon_step();
}

}  // namespace dragonn::optim
