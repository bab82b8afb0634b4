// SPDX-License-Identifier: MIT
#include "comm/machine.h"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <vector>

namespace dragonn::comm {

namespace {

using HostName = std::array<char, 256>;

/// Collective. Returns the host names of all ranks.
std::vector<HostName> host_names(Communicator& communicator) {
  HostName mine{};
  ::gethostname(mine.data(), mine.size() - 1);
  std::vector<HostName> names(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const HostName>(&mine, 1), std::span<HostName>(names));
  return names;
}

}  // namespace

PlaceOnMachine place_on_machine(Communicator& communicator) {
  const std::vector<HostName> names = host_names(communicator);
  const auto here = names.begin() + communicator.rank();
  return {.rank = static_cast<int>(std::count(names.begin(), here, *here)),
          .ranks = static_cast<int>(std::ranges::count(names, *here))};
}

int first_rank_elsewhere(Communicator& communicator) {
  const std::vector<HostName> names = host_names(communicator);
  const auto other = std::ranges::find_if(names, [&](const HostName& name) { return name != names.front(); });
  return other == names.end() ? 1 : static_cast<int>(other - names.begin());
}

}  // namespace dragonn::comm
