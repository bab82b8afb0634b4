// SPDX-License-Identifier: MIT
#include "report/text.h"

namespace dragonn::report {

std::string markup_escaped(std::string_view text) {
  std::string result;
  for (char letter : text) {
    if (letter == '<') {
      result += "&lt;";
    } else if (letter == '&') {
      result += "&amp;";
    } else {
      result += letter;
    }
  }
  return result;
}

}  // namespace dragonn::report
