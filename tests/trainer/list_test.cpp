// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "comm/sparse/exchange_cost.h"
#include "core/error.h"
#include "tests/support/text.h"
#include "trainer/command_line.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"

namespace {

using dragonn::test::contains;

using namespace dragonn;
using namespace dragonn::trainer;

std::string error_of(const std::vector<std::string>& words) {
  try {
    list_components(words);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Evaluates a formula in words: sums of products of numbers, variables, brackets and min(a, b), where factors may
/// stand side by side.
class Formula {
 public:
  Formula(std::string text, std::map<char, double> variables)
      : text_(std::move(text)), variables_(std::move(variables)) {
    std::erase(text_, ' ');
  }

  double value() {
    const double result = sum();
    REQUIRE_MESSAGE(at_ == text_.size(), text_, " is no formula from place ", at_);
    return result;
  }

 private:
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  double sum() {
    double result = product();
    for (;;) {
      if (take('+')) {
        result += product();
      } else if (take('-')) {
        result -= product();
      } else {
        return result;
      }
    }
  }

  double product() {
    double result = factor();
    for (;;) {
      if (take('/')) {
        result /= factor();
      } else if (next() == '(' || std::isalnum(static_cast<unsigned char>(next())) != 0) {
        result *= factor();
      } else {
        return result;
      }
    }
  }

  double factor() {
    if (take('(')) return bracket();
    if (text_.compare(at_, 4, "min(") == 0) {
      at_ += 4;
      const double first = sum();
      REQUIRE(take(','));
      return std::min(first, bracket());
    }
    if (std::isdigit(static_cast<unsigned char>(next())) != 0) {
      std::size_t length = 0;
      const double number = std::stod(text_.substr(at_), &length);
      at_ += length;
      return number;
    }
    const char name = next();
    ++at_;
    REQUIRE_MESSAGE(variables_.contains(name), text_, ": unknown ", name);
    return variables_.at(name);
  }

  double bracket() {
    const double inner = sum();
    REQUIRE(take(')'));
    return inner;
  }

  std::string text_;
  std::map<char, double> variables_;
  std::size_t at_ = 0;
};

/// Every rank selects k entries of its own, except where ranks share k among them.
SelectionTraits traits_for(const std::string& collective) {
  return {.fixed_size = true, .at_most_k = true, .partitioned = collective == "exdyna"};
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("a collective's traffic in words is what it predicts") {
    const auto& registry = Registry<comm::SparseCollectiveEntry>::instance();
    for (const std::string& name : registry.names()) {
      CAPTURE(name);
      const comm::SparseCollectiveEntry& entry = registry.at(name);
      REQUIRE_FALSE(entry.traffic.empty());
      for (const int ranks : {2, 4, 8}) {
        for (const std::size_t k : {64, 4096, 40000}) {
          CAPTURE(ranks);
          CAPTURE(k);
          constexpr std::size_t kEntries = 1 << 16;
          Formula formula(entry.traffic, {{'k', static_cast<double>(k)}, {'n', kEntries}, {'P', ranks}});
          const double bytes = 4 * formula.value();
          comm::ExchangeSizes sizes = comm::expected_sizes(entry, traits_for(name), kEntries, k, ranks);
          sizes.computes_threshold = false;  // the formula is that of the other steps
          CHECK(bytes == doctest::Approx(entry.predict(Settings(entry.settings), sizes).bytes_sent));
        }
      }
    }
  }

  TEST_CASE("without words every component has its line") {
    const std::string all = list_components();
    for (const std::string& name : method_names()) CHECK(contains(all, "\nmethod " + name + ": "));
    for (const ComponentSlot& slot : config_schema().components) {
      for (const auto& [name, specs] : slot.registered) CHECK(contains(all, " " + name + ": "));
    }
    CHECK(contains(all, "\nnetwork 10gbe: "));
  }

  TEST_CASE("every component shows every setting, its default and its help") {
    for (const std::string& kind : component_kinds()) {
      CAPTURE(kind);
      CHECK_FALSE(list_components({kind}).empty());
    }
    const std::map<std::string, std::string> kinds{{"sparsifier", "sparsifiers"},
                                                   {"quantizer", "quantizers"},
                                                   {"index_codec", "index_codecs"},
                                                   {"collective", "collectives"},
                                                   {"memory", "memories"},
                                                   {"value_codec", "value_codecs"},
                                                   {"density_schedule", "density_schedules"}};
    // Some keys have shorter names than the kind that they choose.
    const std::map<std::string, std::string> by_key{{"indices", "index_codec"}, {"values", "value_codec"}};
    for (const ComponentSlot& slot : config_schema().components) {
      if (!slot.is_part()) continue;
      for (const auto& [name, specs] : slot.registered) {
        CAPTURE(name);
        const std::string kind = by_key.contains(slot.key) ? by_key.at(slot.key) : slot.key;
        const std::string text = list_components({kinds.at(kind), name});
        CHECK(text == list_components({kind, name}));
        for (const SettingSpec& spec : *specs) {
          CHECK(contains(text, "  " + spec.name + " = " + to_toml(spec.default_value) + "\n"));
          CHECK(contains(text, type_name(spec.default_value)));
          CHECK(contains(text, spec.help.substr(0, spec.help.find(' '))));
        }
      }
    }
  }

  TEST_CASE("a method shows its parts, their settings, its papers and its traffic") {
    const std::string dgc = list_components({"methods", "dgc"});
    for (const char* part : {"sparsifier dgc (", "collective allgather (", "memory momentum_correction with momentum (",
                             "ICLR 2018", "2 k (P-1) words of 4 bytes", "[compression.dgc]", "sample_ratio = "}) {
      CAPTURE(part);
      CHECK(contains(dgc, part));
    }
    CHECK(contains(list_components({"methods", "signsgd"}), "about 1 n (P-1) bits"));
    CHECK(contains(list_components({"networks", "1gbe"}), "436 us latency: gTop-k's cluster"));
    CHECK(contains(list_components({"networks", "1gbe-switch"}), "1 Gbit/s, 50 us latency"));
  }

  TEST_CASE("a name without its kind prints its component, or how to ask for each of several") {
    CHECK(list_components({"resnet20"}) == list_components({"models", "resnet20"}));
    CHECK(list_components({"compression.qsgd"}).starts_with(list_components({"methods", "qsgd"})));
    // A method comes first: its page names its parts.
    const std::string sidco = list_components({"sidco_gp"});
    CHECK(sidco.starts_with(list_components({"methods", "sidco_gp"})));
    CHECK(contains(sidco, "\n  dragonn-train --list sparsifiers sidco_gp\n"));
    const std::string oktopk = list_components({"compression", "oktopk"});
    CHECK(contains(oktopk, "\n  dragonn-train --list sparsifiers oktopk\n  dragonn-train --list collectives oktopk\n"));
    const std::string none = list_components({"constant"});
    CHECK(none ==
          "Several components have the name constant:\n  dragonn-train --list schedules constant\n"
          "  dragonn-train --list density_schedules constant\n");
    for (const std::string& kind : component_kinds()) {
      CAPTURE(kind);
      const std::string names = list_components({kind});
      const std::string first = names.substr(0, names.find(' '));
      CHECK(contains(list_components({first}), first));
    }
  }

  TEST_CASE("a table stands for the kinds that it chooses, or for its keys") {
    for (const auto& [table, kind] :
         {std::pair("data", "datasets"), {"model", "models"}, {"optimizer", "optimizers"}, {"network", "networks"}}) {
      CHECK(list_components({table}) == list_components({kind}));
    }
    CHECK(list_components({"data", "cifar10"}) == list_components({"datasets", "cifar10"}));
    for (const char* line : {"method dgc: ", "\nquantizer qsgd: ", "\ncollective gtopk: "})
      CHECK(contains(list_components({"compression"}), line));
    CHECK(contains(list_components({"compression.codec"}), "\nvalue codec int8: "));
    CHECK(contains(list_components({"train"}), "Keys of [train], with their defaults:\n"));
    CHECK(contains(list_components({"comm"}), "\n  backend = "));
    CHECK(contains(list_components({"comm", "backend"}), "\n  backend = "));
    CHECK(contains(list_components({"compression", "density"}), "\n  density = "));
    for (const ConfigKey& key : config_schema().keys) {
      if (!key.table.empty()) CHECK_FALSE(list_components({key.table}).empty());
    }
  }

  TEST_CASE("an unknown kind or name is refused with the nearest and all valid ones") {
    CHECK(contains(error_of({"modles"}), "unknown kind 'modles'; did you mean 'models'? valid: models, datasets, "));
    CHECK(contains(error_of({"methods", "dcg"}), "unknown method 'dcg'; did you mean 'dgc'? valid: "));
    CHECK(contains(error_of({"networks", "1gb"}), "did you mean '1gbe'?"));
    CHECK(error_of({"sidco_gpp"}) == "--list: no component 'sidco_gpp'; did you mean 'sidco_gp'?");
    CHECK(error_of({"dcg"}) == "--list: no component 'dcg'; did you mean 'dgc'?");
    CHECK(contains(error_of({"comn"}), "unknown kind 'comn'; did you mean 'comm'? valid: models, "));
    CHECK(contains(error_of({"comm", "bakend"}), "unknown key of comm 'bakend'; did you mean 'backend'?"));
    CHECK(contains(error_of({"xyzzyq"}), "unknown kind 'xyzzyq'; valid: models, "));
    CHECK(contains(error_of({"xyzzyq", "dgc"}), "unknown kind 'xyzzyq'; valid: models, "));
  }
}
