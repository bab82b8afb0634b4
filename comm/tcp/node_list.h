// SPDX-License-Identifier: MIT
/// Slurm's lists of hosts.
#pragma once

#include <string>
#include <string_view>

namespace dragonn::comm {

/// The first host of a list in Slurm's compressed form: of "n[01-03,07],gpu2" it is "n01", of "r[1-2]n[08-09]" "r1n08".
/// Empty if the list is damaged.
std::string first_host(std::string_view list);

}  // namespace dragonn::comm
