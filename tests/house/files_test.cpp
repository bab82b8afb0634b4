// SPDX-License-Identifier: MIT
/// Tests of rules that every file keeps.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/house/source_tree.h"

namespace dragonn::test {
namespace {

bool contains_line(const std::vector<std::string>& lines, const std::string& wanted) {
  return std::ranges::find(lines, wanted) != lines.end();
}

/// Headers that Highway includes once per instruction set: they have guards of their own.
bool is_reincluded(const std::string& file) {
  return file.ends_with("-inl.h");
}

TEST_SUITE("house") {
  TEST_CASE("every source begins with its licence") {
    for (const std::string& file : code_files()) {
      INFO(file);
      const auto lines = lines_of(file);
      REQUIRE_FALSE(lines.empty());
      CHECK(lines[0] == "// SPDX-License-Identifier: MIT");
    }
  }

  TEST_CASE("every header is included once") {
    for (const std::string& file : code_files()) {
      if (!file.ends_with(".h") || is_reincluded(file)) continue;
      INFO(file);
      CHECK(contains_line(lines_of(file), "#pragma once"));
    }
  }

  TEST_CASE("every header says what it is for") {
    for (const std::string& file : code_files()) {
      if (!file.ends_with(".h")) continue;
      INFO(file);
      const auto lines = lines_of(file);
      REQUIRE(lines.size() > 1);
      CHECK(lines[1].starts_with("///"));
    }
  }

  TEST_CASE("nothing is left for later in the tree") {
    // Written in two parts, or this file would be an offence itself.
    const std::vector<std::string> marks{std::string("TO") + "DO", std::string("FIX") + "ME"};
    std::vector<std::string> files = code_files();
    for (const char* folder : {"scripts", "cmake", "docs", "configs"}) {
      std::ranges::move(files_in(folder, {".sh", ".py", ".cmake", ".md", ".toml", ".awk"}), std::back_inserter(files));
    }
    std::ranges::move(files_in(".", {".md", ".txt"}), std::back_inserter(files));
    for (const std::string& file : files) {
      const auto lines = lines_of(file);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        for (const std::string& mark : marks) {
          INFO(place(file, i), lines[i]);
          CHECK(lines[i].find(mark) == std::string::npos);
        }
      }
    }
  }

  TEST_CASE("every test case has a name that CTest takes for one") {
    const std::string begin = std::string("TEST_") + "CASE(";  // not a case itself
    for (const std::string& file : files_in("tests", {"_test.cpp", "_cases.cpp"})) {
      const std::string text = read(file);
      for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
        const std::string name = text.substr(at + begin.size(), text.find(") {", at) - at - begin.size());
        INFO(file, ": ", name);
        CHECK(name.find(';') == std::string::npos);  // CMake would make two of it
      }
    }
  }

  TEST_CASE("nothing is built for the processor at hand") {
    std::vector<std::string> files = files_in("cmake", {".cmake", ".in"});
    for (const std::string& folder : code_folders()) {
      std::ranges::move(files_in(folder, {"CMakeLists.txt"}), std::back_inserter(files));
    }
    for (const char* folder : {"scripts", ".ci"}) std::ranges::move(files_in(folder, {""}), std::back_inserter(files));
    std::ranges::move(files_in(".", {"CMakeLists.txt", "CMakePresets.json"}), std::back_inserter(files));
    for (const std::string& file : files) {
      INFO(file);
      const std::string text = read(file);
      CHECK(text.find("-march") == std::string::npos);
      CHECK(text.find("-mtune") == std::string::npos);
    }
  }

  TEST_CASE("every code folder has a README") {
    for (const std::string& folder : code_folders()) {
      INFO(folder);
      CHECK(std::filesystem::exists(source_root() / folder / "README.md"));
    }
  }
}

}  // namespace
}  // namespace dragonn::test
