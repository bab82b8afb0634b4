// SPDX-License-Identifier: MIT
#include "core/error.h"

#include <utility>

#include <fmt/format.h>

#include "core/printable.h"

namespace dragonn {

Error::Error(const std::string& message) : std::runtime_error(one_line_message(message)) {}

int exit_code(const std::exception& error) {
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? 2 : 1;
}

void detail::check_failed(const char* condition, const std::string& message, std::source_location where) {
  throw Error(fmt::format("{} ({} failed at {}:{})", message, condition, where.file_name(), where.line()));
}

namespace {
// The thread's, and no parameter: kernels and readers of files know no communicator, but their errors name the rank.
thread_local int current = kNoRank;
}  // namespace

ScopedRank::ScopedRank(int rank) : previous_(std::exchange(current, rank)) {}
ScopedRank::~ScopedRank() {
  current = previous_;
}

int this_rank() {
  return current;
}

std::string this_rank_prefix() {
  return current == kNoRank ? "" : fmt::format("rank {}, ", current);
}

}  // namespace dragonn
