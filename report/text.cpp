// SPDX-License-Identifier: MIT
#include "report/text.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

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

std::size_t width(std::string_view text) {
  // Bytes that continue a character do not count.
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string result, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!line.empty() && width(line) + 1 + width(word) > columns) {
      result += line + '\n';
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    begin = end + 1;
  }
  return result + line + '\n';
}

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 1) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 600) return three_digits(seconds) + " s";
  return seconds < 7200 ? three_digits(seconds / 60) + " min" : three_digits(seconds / 3600) + " h";
}

std::string ratio_text(double ratio) {
  return three_digits(ratio) + "x";
}

std::string network_text(const Network& network) {
  return dragonn::network_text(network.gbps, network.latency_us, network.preset);
}

std::string compute_text(const Network& network) {
  if (network.compute == "zero") return "compute takes no time";
  return network.compute == "measured" ? "compute time is measured CPU time" : "compute time is not described";
}

}  // namespace dragonn::report
