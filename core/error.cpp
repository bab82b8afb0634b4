// SPDX-License-Identifier: MIT
#include "core/error.h"

#include <fmt/format.h>

#include "core/printable.h"

namespace dragonn {

Error::Error(const std::string& message) : std::runtime_error(one_line_message(message)) {}

int exit_code(const std::exception& error) {
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? 2 : 1;
}

namespace detail {

void check_failed(const char* condition, const std::string& message, std::source_location where) {
  throw Error(fmt::format("{} ({} failed at {}:{})", message, condition, where.file_name(), where.line()));
}

}  // namespace detail
}  // namespace dragonn
