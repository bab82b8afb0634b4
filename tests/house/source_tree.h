// SPDX-License-Identifier: MIT
/// The source tree as text, for tests of the rules that hold over all files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dragonn::test {

/// The root folder of the sources.
std::filesystem::path source_root();

/// The folders that hold code, in the order of the house plan, then the tests.
const std::vector<std::string>& code_folders();

/// Returns the paths relative to the root, ascending, of every file under `folder` (or of the root folder itself for
/// ".", without its subfolders) whose name ends with one of `endings`.
std::vector<std::string> files_in(const std::string& folder, const std::vector<std::string>& endings);
/// Sources and headers in all code folders.
std::vector<std::string> code_files();

std::string read(const std::string& relative_path);
std::vector<std::string> lines_of(const std::string& relative_path);

/// Returns the place of an offence for a test's message: "file:line: ".
std::string place(const std::string& file, std::size_t line_index);

}  // namespace dragonn::test
