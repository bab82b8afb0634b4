// SPDX-License-Identifier: MIT
/// Component: a registered thing as a config chose it.
#pragma once

#include <string>

#include "core/settings.h"

namespace dragonn {

/// A component by name, with its settings.
struct Component {
  std::string name;
  Settings settings;
};

}  // namespace dragonn
