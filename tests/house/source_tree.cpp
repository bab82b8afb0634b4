// SPDX-License-Identifier: MIT
#include "tests/house/source_tree.h"

#include <algorithm>
#include <sstream>

#include "core/file.h"

namespace dragonn::test {
namespace fs = std::filesystem;

fs::path source_root() {
  return DRAGONN_SOURCE_DIR;
}

const std::vector<std::string>& code_folders() {
  static const std::vector<std::string> folders{"core",     "kernels", "codec",    "layers",  "optim",
                                                "compress", "comm",    "exchange", "data",    "trainer",
                                                "bench",    "report",  "library",  "program", "tests"};
  return folders;
}

std::vector<std::string> files_in(const std::string& folder, const std::vector<std::string>& endings) {
  std::vector<std::string> files;
  const auto keep = [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const auto matches = [&](const std::string& ending) { return name.ends_with(ending); };
    if (entry.is_regular_file() && std::ranges::any_of(endings, matches)) {
      files.push_back(entry.path().lexically_relative(source_root()).generic_string());
    }
  };
  if (folder == ".") {
    for (const auto& entry : fs::directory_iterator(source_root())) keep(entry);
  } else {
    for (const auto& entry : fs::recursive_directory_iterator(source_root() / folder)) keep(entry);
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> code_files() {
  std::vector<std::string> files;
  for (const std::string& folder : code_folders())
    std::ranges::move(files_in(folder, {".h", ".def", ".cpp", ".cu"}), std::back_inserter(files));
  return files;
}

std::string read(const std::string& relative_path) {
  return read_text_file(source_root() / relative_path);
}

std::vector<std::string> lines_of(const std::string& relative_path) {
  std::istringstream text(read(relative_path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string place(const std::string& file, std::size_t line_index) {
  return file + ":" + std::to_string(line_index + 1) + ": ";
}

}  // namespace dragonn::test
