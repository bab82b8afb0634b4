// SPDX-License-Identifier: MIT
/// Checks of the folder that data.path names.
#pragma once

#include <string>

#include "core/error.h"

namespace dragonn::data {

/// Makes the error for missing data that scripts/get_data.sh fetches. It names `missing` and the command.
ConfigError missing_data(const std::string& missing, const std::string& name, const std::string& folder);
/// Checks that `folder` exists. @throws ConfigError (missing_data).
void require_folder(const std::string& folder, const std::string& name);
/// Checks the folder of a data set that users provide: the error names no command.
void require_own_folder(const std::string& folder, const std::string& name);

}  // namespace dragonn::data
