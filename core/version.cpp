// SPDX-License-Identifier: MIT
#include "core/version.h"

#include "core/version_text.h"

namespace dragonn {

std::string_view version() {
  return kVersionText;
}

}  // namespace dragonn
