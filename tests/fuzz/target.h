// SPDX-License-Identifier: MIT
/// Target: a reader of bytes from outside, which a fuzzer gives any bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dragonn::fuzz {

using Bytes = std::span<const std::byte>;

/// A reader either takes the bytes or throws an Error of this project. All else is a finding: another exception, an
/// access or an operation that a sanitizer reports, a leak, much memory for few bytes, a long time.
struct Target {
  const char* name;
  void (*read)(Bytes bytes);
};

/// Returns the targets of a program. Each program defines it.
std::span<const Target> targets();

/// Returns the bytes as text.
std::string text_of(Bytes bytes);
/// Returns the parts of an input that stands for several files or values: what lies between bytes 0, the rest in the
/// last part.
std::vector<Bytes> parts_of(Bytes bytes, std::size_t count);
/// Writes a file in a folder of this process, over an earlier one of that name. Returns its path.
std::filesystem::path write_file(const std::string& name, Bytes bytes);

}  // namespace dragonn::fuzz
