// SPDX-License-Identifier: MIT
/// The folder that data.path names.
#pragma once

#include <string>

#include "core/error.h"

namespace dragonn::data {

/// The error for data that scripts/get_data.sh fetches and that is not there. Names `missing` and the command.
ConfigError missing_data(const std::string& missing, const std::string& name, const std::string& folder);
/// Checks that `folder` exists. @throws ConfigError (missing_data).
void require_folder(const std::string& folder, const std::string& name);
/// The same for data sets that are a user's own to get: the error names no command.
void require_own_folder(const std::string& folder, const std::string& name);

}  // namespace dragonn::data
