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
    } else if (letter == '"') {
      result += "&quot;";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string network_text(const Network& network) {
  return dragonn::network_text(network.gbps, network.latency_us, network.preset);
}

std::string compute_text(const Network& network) {
  if (network.compute == "zero") return "compute takes no time";
  return network.compute == "measured" ? "compute time is measured CPU time" : "compute time is not described";
}

}  // namespace dragonn::report
