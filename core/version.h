// SPDX-License-Identifier: MIT
/// The version of this build.
#pragma once

#include <string_view>

namespace dragonn {

/// `git describe` of the sources ("v0.1.0-12-gabcdef0", "-dirty" behind it for changed files), or where they came
/// without a repository the project's version ("0.1.0"). Recorded in summary.json.
std::string_view version();

}  // namespace dragonn
