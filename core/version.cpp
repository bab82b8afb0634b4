// SPDX-License-Identifier: MIT
#include "core/version.h"

#include <fmt/format.h>

#include "core/fault_point.h"
#include "core/version_text.h"

namespace dragonn {

std::string_view version() {
  return kVersionText;
}

std::string version_line(std::string_view program) {
  return fmt::format("{} {}{}", program, version(), has_fault_points() ? " (for tests: with fault points)" : "");
}

}  // namespace dragonn
