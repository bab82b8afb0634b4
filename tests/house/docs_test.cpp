// SPDX-License-Identifier: MIT
/// Tests that the documents name files that exist.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/house/source_tree.h"

namespace dragonn::test {
namespace {

/// Top-level names that begin a path of this repository. Paths below build/ and runs/ are made by the user.
std::vector<std::string> root_names() {
  std::vector<std::string> names = code_folders();
  names.insert(names.end(), {"cmake", "configs", "docs", "scripts", ".ci"});
  return names;
}

/// Folders that git ignores: data sets that scripts/get_data.sh puts there.
bool is_ignored(const std::string& path) {
  const auto lines = lines_of(".gitignore");
  return std::ranges::any_of(lines, [&](const std::string& line) { return ("/" + path + "/").starts_with(line); });
}

bool is_repository_path(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || is_ignored(text)) return false;
  const auto names = root_names();
  return std::ranges::find(names, text.substr(0, slash)) != names.end();
}

/// Returns the words in backquotes and targets of links that look like paths of the repository. A word with a blank, a
/// wildcard or a placeholder in capitals (`NAME`) is no path.
std::vector<std::string> paths_named_in(const std::string& line) {
  static const std::regex quoted(R"(`([A-Za-z0-9_./-]+)`|\]\(([A-Za-z0-9_./-]+)\))");
  std::vector<std::string> paths;
  for (std::sregex_iterator match(line.begin(), line.end(), quoted), end; match != end; ++match) {
    paths.push_back((*match)[1].matched ? (*match)[1] : (*match)[2]);
  }
  return paths;
}

bool exists_for(const std::string& document, const std::string& path) {
  const auto folder = (source_root() / document).parent_path();
  return std::filesystem::exists(source_root() / path) || std::filesystem::exists(folder / path);
}

std::vector<std::string> documents() {
  std::vector<std::string> files = files_in(".", {".md"});
  std::vector<std::string> folders = code_folders();
  folders.insert(folders.end(), {"docs", "configs", "scripts"});
  for (const std::string& folder : folders) std::ranges::move(files_in(folder, {".md"}), std::back_inserter(files));
  return files;
}

TEST_SUITE("house") {
  TEST_CASE("every path that a document names exists") {
    for (const std::string& document : documents()) {
      const auto lines = lines_of(document);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        for (const std::string& path : paths_named_in(lines[i])) {
          if (!is_repository_path(path)) continue;
          INFO(place(document, i), path);
          CHECK(exists_for(document, path));
        }
      }
    }
  }

  TEST_CASE("every link between documents leads somewhere") {
    static const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
    for (const std::string& document : documents()) {
      const auto lines = lines_of(document);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        for (std::sregex_iterator match(lines[i].begin(), lines[i].end(), link), end; match != end; ++match) {
          const std::string target = (*match)[1];
          if (target.find("://") != std::string::npos) continue;
          INFO(place(document, i), target);
          CHECK(exists_for(document, target));
        }
      }
    }
  }

  TEST_CASE("the root README gives the two commands") {
    const auto lines = lines_of("README.md");
    const auto has = [&](const std::string& wanted) { return std::ranges::find(lines, wanted) != lines.end(); };
    CHECK(has("scripts/demo.sh"));
    CHECK(has("scripts/test.sh"));
  }
}

}  // namespace
}  // namespace dragonn::test
