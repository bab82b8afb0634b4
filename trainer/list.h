// SPDX-License-Identifier: MIT
/// Every registered component, for `dragonn-train --list`.
#pragma once

#include <string>

namespace dragonn::trainer {

/// One line each, "kind name: summary", by kind, names ascending.
std::string list_components();

}  // namespace dragonn::trainer
