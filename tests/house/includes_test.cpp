// SPDX-License-Identifier: MIT
/// Tests of the house plan (docs/design.md, section 2): the folders that each folder may include.
#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/house/source_tree.h"

namespace dragonn::test {
namespace {

using Folders = std::set<std::string>;

/// The folders that each folder may include. A folder may always include itself.
const std::map<std::string, Folders>& may_include() {
  static const Folders below_trainer{"core",     "kernels", "codec",    "layers", "optim",
                                     "compress", "comm",    "exchange", "data"};
  static const std::map<std::string, Folders> table = [] {
    std::map<std::string, Folders> rows{
        {"core", {}},
        {"kernels", {"core"}},
        {"layers", {"core", "kernels"}},
        {"optim", {"core", "kernels"}},
        {"codec", {"core", "kernels"}},
        {"compress", {"core", "kernels", "codec"}},
        {"comm", {"core", "kernels", "codec"}},
        {"exchange", {"core", "kernels", "codec", "compress", "comm"}},
        {"data", {"core"}},
        {"trainer", below_trainer},
        {"report", {"core"}},
        {"library", {"core", "kernels", "comm", "optim", "exchange", "trainer"}},
        {"program", below_trainer},
    };
    rows["program"].insert("trainer");
    rows["bench"] = rows["tests"] = Folders(code_folders().begin(), code_folders().end());
    return rows;
  }();
  return table;
}

/// The rooms of a folder that each room of it may include; the folder's own name is the room of the files that are in
/// none. A folder that may include another may include all of its rooms.
const std::map<std::string, Folders>& subfolders() {
  static const std::map<std::string, Folders> table{
      {"kernels", {}},
      {"kernels/cuda", {"kernels"}},
      {"kernels/nn", {"kernels"}},
      {"kernels/nn/cuda", {"kernels", "kernels/nn", "kernels/cuda"}},
      {"kernels/gradient", {"kernels"}},
      {"kernels/gradient/cuda", {"kernels", "kernels/gradient", "kernels/cuda"}},
      {"layers", {}},
      {"layers/models", {"layers"}},
      {"compress", {}},
      {"compress/sidco", {"compress"}},
      {"comm", {}},
      {"comm/cuda", {"comm"}},
      {"comm/virtual", {"comm"}},
      {"comm/local", {"comm", "comm/virtual"}},
      {"comm/mpi", {"comm"}},
      {"comm/tcp", {"comm"}},
      {"comm/elastic", {"comm", "comm/tcp"}},
      {"comm/sparse", {"comm"}},
      {"bench", {}},
      {"bench/cuda", {"bench"}},
      {"bench/exchange", {"bench"}},
      {"data", {}},
      {"data/images", {"data"}},
      {"data/text", {"data"}},
      {"data/speech", {"data", "data/text"}},
      {"trainer/update", {}},
      {"trainer/config", {"trainer/update"}},
      {"trainer/cost_model", {"trainer/config"}},
      {"trainer/metrics", {"trainer/config"}},
      {"trainer/weights", {}},
      {"trainer/run", {"trainer/update", "trainer/config", "trainer/cost_model", "trainer/metrics", "trainer/weights"}},
      {"trainer/update/schemes", {"trainer/update", "trainer/config", "trainer/run"}},
      {"trainer/planner", {"trainer/update", "trainer/config", "trainer/cost_model", "trainer/metrics", "trainer/run"}},
      {"trainer", {"trainer/config", "trainer/run", "trainer/update"}},
  };
  return table;
}

/// Third-party headers that only some places may include: the beginning of the header's name, and of the paths.
struct Confined {
  std::string header;
  std::vector<std::string> places;
};
const std::vector<Confined>& confined_headers() {
  static const std::vector<Confined> list{
      {"mpi.h", {"comm/", "tests/comm"}},
      {"oneapi/", {"kernels/", "bench/", "tests/kernels/"}},
      {"dnnl", {"kernels/", "bench/", "tests/kernels/"}},
      {"jpeglib.h", {"data/images/image_file.cpp", "tests/data/"}},
      {"png.h", {"data/images/image_file.cpp", "tests/data/"}},
      {"hwy/", {"kernels/", "tests/kernels/"}},
      {"toml++/", {"trainer/config/toml_config.cpp"}},
      {"spdlog/", {"core/log.cpp"}},
      {"xxhash.h", {"core/hash.cpp"}},
      {"utf8proc.h", {"core/printable.cpp", "data/text/utf8.cpp"}},
      {"CLI/", {"trainer/command_line.cpp", "bench/", "report/main.cpp", "program/"}},
      {"doctest/", {"tests/"}},
      {"cu",  // CUDA, cuBLAS, cuDNN, CUB
       {"kernels/cuda/", "kernels/nn/cuda/", "kernels/gradient/cuda/", "bench/cuda/", "tests/cuda_emulation/"}},
      {"nccl", {"comm/cuda/", "tests/cuda_emulation/"}},
  };
  return list;
}

struct Include {
  std::string name;
  bool project = false;  ///< "folder/file.h", as opposed to <header>
};
std::optional<Include> include_of(const std::string& line) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return std::nullopt;
  return Include{match[2], match[1] == "\""};
}

std::string first_folder(const std::string& path) {
  return path.substr(0, path.find('/'));
}

/// Returns "kernels/nn" for "kernels/nn/pooling.h".
std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

/// Calls `check(file, line index, include)` for every include line of the tree.
template <class Check>
void for_each_include(const Check& check) {
  for (const std::string& file : code_files()) {
    const auto lines = lines_of(file);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (const auto include = include_of(lines[i])) check(file, i, *include);
    }
  }
}

TEST_SUITE("house") {
  TEST_CASE("every folder includes only what the house plan lets it include") {
    std::size_t seen = 0;
    for_each_include([&](const std::string& file, std::size_t line, const Include& include) {
      if (!include.project) return;
      ++seen;
      const std::string from = first_folder(file), to = first_folder(include.name);
      INFO(place(file, line), from, " may not include ", to);
      CHECK((from == to || may_include().at(from).contains(to)));
    });
    CHECK(seen > code_files().size());  // else the pattern does not match any more
  }

  TEST_CASE("every room of a folder includes only the rooms below it") {
    std::set<std::string> seen;
    for_each_include([&](const std::string& file, std::size_t line, const Include& include) {
      if (!include.project || first_folder(file) != first_folder(include.name)) return;
      const std::string from = folder_of(file), to = folder_of(include.name);
      if (from == to) return;
      INFO(place(file, line), from, " may not include ", to);
      // Folders without an entry have no rooms, or what is in them belongs to one program or test alone.
      if (!subfolders().contains(first_folder(file))) return;
      REQUIRE(subfolders().contains(from));
      CHECK(subfolders().at(from).contains(to));
      seen.insert(from);
    });
    CHECK(seen.size() > 15);  // else the pattern does not match any more
  }

  TEST_CASE("project headers are included by their path from the root") {
    for_each_include([](const std::string& file, std::size_t line, const Include& include) {
      if (!include.project) return;
      // Headers written at build time are in no folder of the tree.
      if (std::filesystem::exists(source_root() / (include.name + ".in"))) return;
      INFO(place(file, line), include.name);
      CHECK(std::filesystem::exists(source_root() / include.name));
    });
  }

  TEST_CASE("heavy and optional third-party headers stay where they belong") {
    for_each_include([](const std::string& file, std::size_t line, const Include& include) {
      if (include.project) return;
      for (const Confined& confined : confined_headers()) {
        if (!include.name.starts_with(confined.header)) continue;
        INFO(place(file, line), "<", include.name, ">");
        CHECK(std::ranges::any_of(confined.places, [&](const std::string& p) { return file.starts_with(p); }));
      }
    });
  }

  TEST_CASE("no public header includes MPI, CUDA, JSON or oneDNN") {
    // Headers that a device's plans share are not public: only sources and headers of their kind may include them.
    const auto is_private = [](const std::string& name) {
      return name.starts_with("kernels/nn/onednn") || name.find("/cuda/") != std::string::npos;
    };
    for_each_include([&](const std::string& file, std::size_t line, const Include& include) {
      // Nothing is installed of these two.
      if (file.starts_with("tests/") || file.starts_with("bench/")) return;
      if (!file.ends_with(".h") || is_private(file)) return;
      INFO(place(file, line), include.name);
      CHECK_FALSE(is_private(include.name));
      for (const char* heavy : {"mpi.h", "cu", "nccl", "nlohmann/", "oneapi/", "dnnl", "toml++/", "spdlog/"}) {
        CHECK_FALSE(include.name.starts_with(heavy));
      }
    });
  }
}

}  // namespace
}  // namespace dragonn::test
