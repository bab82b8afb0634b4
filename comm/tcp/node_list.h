// SPDX-License-Identifier: MIT
/// Slurm's compressed lists of hosts.
#pragma once

#include <string>
#include <string_view>

namespace dragonn::comm {

/// Returns the first host of a list in Slurm's compressed form: "n01" for "n[01-03,07],gpu2", "r1n08" for
/// "r[1-2]n[08-09]". Empty if the list is malformed.
std::string first_host(std::string_view list);

}  // namespace dragonn::comm
