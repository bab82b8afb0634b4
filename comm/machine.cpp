// SPDX-License-Identifier: MIT
#include "comm/machine.h"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <vector>

namespace dragonn::comm {

PlaceOnMachine place_on_machine(Communicator& communicator) {
  using HostName = std::array<char, 256>;
  HostName mine{};
  ::gethostname(mine.data(), mine.size() - 1);
  std::vector<HostName> names(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const HostName>(&mine, 1), std::span<HostName>(names));
  const auto here = names.begin() + communicator.rank();
  return {.rank = static_cast<int>(std::count(names.begin(), here, mine)),
          .ranks = static_cast<int>(std::ranges::count(names, mine))};
}

}  // namespace dragonn::comm
