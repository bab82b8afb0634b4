// SPDX-License-Identifier: MIT
/// Component: a registered component as a config chose it.
#pragma once

#include <string>

#include "core/settings.h"

namespace dragonn {

/// The name of a registered component, with its settings.
struct Component {
  std::string name;
  Settings settings;
};

}  // namespace dragonn
