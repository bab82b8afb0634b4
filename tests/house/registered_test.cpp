// SPDX-License-Identifier: MIT
/// Tests that compare the registered components with the list of sources.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "codec/indices/index_codec.h"
#include "codec/values/value_codec.h"
#include "comm/sparse/sparse_collective.h"
#include "compress/density_schedule.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "data/dataset.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tests/house/source_tree.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::test {
namespace {

struct Registered {
  std::string kind;
  RegistryEntry entry;
  std::string file;  ///< relative to the root; empty for entries that a test registers
};

std::string relative_to_root(const std::string& file) {
  // A compiler cache may give a path relative to the build folder, or another clone's object with that clone's path.
  static const std::vector<std::string> files = code_files();
  const auto found = std::ranges::find_if(files, [&](const std::string& known) { return file.ends_with("/" + known); });
  return found == files.end() ? std::string() : *found;
}

template <class Entry>
void append(std::vector<Registered>& all) {
  const auto& registry = Registry<Entry>::instance();
  for (const std::string& name : registry.names()) {
    const std::string file = relative_to_root(registry.file_of(name));
    if (!file.empty()) all.push_back({Entry::kKind, registry.at(name), file});
  }
}

std::vector<Registered> everything() {
  std::vector<Registered> all;
  append<compress::SparsifierEntry>(all);
  append<codec::QuantizerEntry>(all);
  append<codec::IndexCodecEntry>(all);
  append<codec::ValueCodecEntry>(all);
  append<compress::MemoryEntry>(all);
  append<compress::DensityScheduleEntry>(all);
  append<comm::SparseCollectiveEntry>(all);
  append<data::DatasetEntry>(all);
  append<layers::ModelEntry>(all);
  append<optim::OptimizerEntry>(all);
  append<optim::ScheduleEntry>(all);
  append<trainer::UpdateSchemeEntry>(all);
  return all;
}

/// The sources of families: one algorithm, or one format, under several names.
const std::map<std::string, std::set<std::string>>& families() {
  static const std::map<std::string, std::set<std::string>> table{
      {"compress/topk.cpp", {"topk", "cltk"}},
      {"compress/memories.cpp",
       {"none", "residual", "momentum_correction", "low_pass", "ef21", "ef21_sgdm", "econtrol"}},
      {"compress/sidco/sidco.cpp", {"sidco_e", "sidco_gp", "sidco_p"}},
      {"codec/values/scaled_integers.cpp", {"int4", "int8"}},
      {"codec/values/short_floats.cpp", {"bfloat16", "float16"}},
  };
  return table;
}

bool is_of_family(const Registered& item) {
  const auto family = families().find(item.file);
  return family != families().end() && family->second.contains(item.entry.name);
}

TEST_SUITE("house") {
  TEST_CASE("every source with a registration is linked, wherever it is") {
    std::set<std::string> registering;
    for (const Registered& item : everything()) registering.insert(item.file);
    for (const std::string& file : code_files()) {
      if (file.starts_with("tests/") || !file.ends_with(".cpp")) continue;
      if (read(file).find("const Registration<") == std::string::npos) continue;
      // Their subcommands are linked into the programs only, and the library's schemes into the library.
      if (file.starts_with("bench/") || file.starts_with("program/") || file.starts_with("library/")) continue;
      INFO(file);
      CHECK(registering.contains(file));
    }
  }

  TEST_CASE("every sparsifier, quantizer, memory and collective has a source of its own, or one with its family") {
    const std::map<std::string, std::string> kinds{{"sparsifier", "compress/"},
                                                   {"memory", "compress/"},
                                                   {"index codec", "codec/indices/"},
                                                   {"value codec", "codec/values/"},
                                                   {"quantizer", "codec/values/"},
                                                   {"collective", "comm/sparse/"},
                                                   {"update scheme", "trainer/update/schemes/"}};
    std::map<std::string, std::string> owner;
    for (const Registered& item : everything()) {
      if (!kinds.contains(item.kind)) continue;
      INFO(item.kind, " ", item.entry.name, " in ", item.file);
      CHECK(item.file.starts_with(kinds.at(item.kind)));
      CHECK((is_of_family(item) || owner.emplace(item.file, item.entry.name).second));
    }
    CHECK_FALSE(owner.empty());
  }

  TEST_CASE("a sparsifier's, quantizer's or collective's source is named after it") {
    const std::set<std::string> kinds{"sparsifier", "index codec", "value codec",
                                      "quantizer",  "collective",  "update scheme"};
    for (const Registered& item : everything()) {
      if (!kinds.contains(item.kind) || is_of_family(item)) continue;
      INFO(item.kind, " ", item.entry.name, " in ", item.file);
      CHECK(std::filesystem::path(item.file).stem().string().find(item.entry.name) != std::string::npos);
    }
  }

  TEST_CASE("everything registered says what it is, in a line, and declares its settings in full") {
    for (const Registered& item : everything()) {
      INFO(item.kind, " ", item.entry.name);
      CHECK_FALSE(item.entry.summary.empty());
      CHECK(item.entry.summary.find('\n') == std::string::npos);
      Settings settings(item.entry.settings);
      for (const SettingSpec& spec : item.entry.settings) {
        INFO("setting ", spec.name);
        CHECK_FALSE(spec.help.empty());
        CHECK_NOTHROW(settings.set(spec.name, spec.default_value));  // the default is in the declared range
      }
    }
  }

  TEST_CASE("the methods that the documents promise are registered") {
    for (const char* name : {"topk", "randomk", "hard_threshold", "dgc", "dragonn", "redsync", "gaussiank", "mstopk",
                             "chunktopk", "sidco_e", "sidco_gp", "sidco_p", "oktopk", "exdyna", "cltk"}) {
      CHECK(Registry<compress::SparsifierEntry>::instance().contains(name));
    }
    for (const char* name : {"signsgd", "qsgd"}) CHECK(Registry<codec::QuantizerEntry>::instance().contains(name));
    for (const char* name : {"none", "residual", "momentum_correction", "low_pass", "ef21", "ef21_sgdm", "econtrol"}) {
      CHECK(Registry<compress::MemoryEntry>::instance().contains(name));
    }
    for (const char* name : {"dense", "allgather", "index_union", "dsa", "gtopk", "oktopk", "exdyna", "cltk"}) {
      CHECK(Registry<comm::SparseCollectiveEntry>::instance().contains(name));
    }
    for (const char* name : {"mlp", "vgg16", "resnet20", "resnet18"}) {
      CHECK(Registry<layers::ModelEntry>::instance().contains(name));
    }
  }
}

}  // namespace
}  // namespace dragonn::test
