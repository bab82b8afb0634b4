// SPDX-License-Identifier: MIT
#include "comm/tcp/node_list.h"

namespace dragonn::comm {

std::string first_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() == ']') return "";
    if (list.front() != '[') {
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    const std::size_t end = list.find(']');
    if (end == std::string_view::npos) return "";
    const std::string_view ranges = list.substr(1, end - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of(",-"));
    if (first.empty() || first.find_first_not_of("0123456789") != std::string_view::npos) return "";
    host += first;
    list.remove_prefix(end + 1);
  }
  return host;
}

}  // namespace dragonn::comm
