// SPDX-License-Identifier: MIT
/// The errors that dragonn throws, and the checks that throw them.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

#include <fmt/core.h>

namespace dragonn {

/// Base of every error of this project. `what()` is one line that names the thing, the value seen and the valid values.
class Error : public std::runtime_error {
 public:
  /// Makes an error of one line that a terminal can show (one_line_message), whatever names and texts it quotes.
  explicit Error(const std::string& message);
};

/// The user asked for something impossible: a config key, a command line, a missing path. Programs exit with 2.
class ConfigError : public Error {
  using Error::Error;
};

/// A file that must be there is not.
class MissingFileError : public ConfigError {
  using ConfigError::ConfigError;
};

/// Shapes or sizes do not fit together.
class ShapeError : public Error {
  using Error::Error;
};

/// A file is damaged or not of the expected format. The message names the file and the offset or line.
class DataError : public Error {
  using Error::Error;
};

/// The operating system refused a read, a write or memory (full disk, permission).
class SystemError : public Error {
  using Error::Error;
};

/// A rank died, timed out or disagreed. The group of ranks is dead afterwards.
class CommError : public Error {
  using Error::Error;
};

/// A device cannot do an operation, or memory of one device was given to another.
class DeviceError : public Error {
  using Error::Error;
};

/// Returns the exit code of a program that ends with this error: 2 for a ConfigError, otherwise 1.
int exit_code(const std::exception& error);

namespace detail {
[[noreturn]] void check_failed(const char* condition, const std::string& message, std::source_location where);
}  // namespace detail

/// Declares that the calling thread works for `rank` while this object lives.
class ScopedRank {
 public:
  explicit ScopedRank(int rank);
  ~ScopedRank();
  ScopedRank(const ScopedRank&) = delete;
  ScopedRank& operator=(const ScopedRank&) = delete;

 private:
  int previous_;
};

inline constexpr int kNoRank = -1;
/// Returns the rank; kNoRank outside of any scope.
int this_rank();
/// Returns "rank 2, " as a prefix for errors; empty outside of any scope.
std::string this_rank_prefix();

}  // namespace dragonn

/// Throws Error unless `condition` holds; stays on in release builds. Further arguments are a fmt string and its
/// values.
#define DRAGONN_CHECK(condition, ...)                                                                           \
  do {                                                                                                          \
    if (!(condition)) [[unlikely]]                                                                              \
      ::dragonn::detail::check_failed(#condition, ::fmt::format(__VA_ARGS__), std::source_location::current()); \
  } while (false)

/// Works like DRAGONN_CHECK, for inner loops; release builds leave it out.
#ifdef NDEBUG
#define DRAGONN_ASSERT(condition) ((void)0)
#else
#define DRAGONN_ASSERT(condition) DRAGONN_CHECK(condition, "assertion")
#endif
