// SPDX-License-Identifier: MIT
/// Checks of messages.
#pragma once

#include <string>

namespace dragonn::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace dragonn::test
