// SPDX-License-Identifier: MIT
/// The version of this build.
#pragma once

#include <string>
#include <string_view>

namespace dragonn {

/// Returns `git describe` of the sources ("v0.1.0-12-gabcdef0", with "-dirty" for changed files), or the project's
/// version ("0.1.0") if the sources came without a repository. summary.json records it.
std::string_view version();

/// Returns what a program prints for `--version`: its name, the version, and whether the build has fault points.
std::string version_line(std::string_view program);

}  // namespace dragonn
