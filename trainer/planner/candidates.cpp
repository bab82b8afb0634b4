// SPDX-License-Identifier: MIT
#include "trainer/planner/candidates.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codec/values/value_codec.h"
#include "core/error.h"
#include "exchange/exchange_rules.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer {
namespace {

using Settings = std::vector<std::string>;

constexpr std::string_view kScheme = "update.scheme=";

bool is_of_update(const std::string& table) {
  return table == "update" || table.starts_with("update.");
}

bool chooses_scheme(std::span<const std::string> settings) {
  return std::ranges::any_of(settings, [](const std::string& setting) { return setting.starts_with(kScheme); });
}

Settings joined(const Settings& first, const Settings& second) {
  Settings all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

/// Returns "topk 0.01, int8", "chunktopk 0.25, mag2, H = 15 in 3 fragments"; bucket and memory only distinguish.
std::string name_of(const RunSpec& config) {
  const CompressionConfig& compression = config.compression;
  std::string name = compression.method;
  if (compression.selects()) name += fmt::format(" {:g}", compression.density);
  if (is_by_rate(compression)) name += " and more by the rate";
  if (!compression.is_dense() && compression.collective.name != find_method(compression.method).collective)
    name += fmt::format(" by {}", compression.collective.name);
  if (compression.coding().is_lossy()) name += ", " + compression.codec.values.name;
  if (compression.selects() && compression.bucket.is(BucketScope::kModel)) name += ", whole model";
  const UpdateTraits traits = config.update.traits();
  if (traits.delays) name += ", delayed";
  if (!config.update.steps_locally()) return name;
  name += fmt::format(", H = {}", traits.steps_per_exchange);
  if (traits.fragments > 1) name += fmt::format(" in {} fragments", traits.fragments);
  if (traits.overlap_steps > 0) name += fmt::format(" behind {}", traits.overlap_steps);
  return name;
}

/// Lists the settings of further families, of which most were never measured.
std::vector<Settings> further_settings(const RunSpec& own) {
  std::vector<Settings> list;
  const auto add = [&](Settings settings) { list.push_back(joined(evidence_resets(), settings)); };
  for (const char* method : {"topk", "dgc", "dragonn", "gtopk", "oktopk", "sidco_e", "mstopk"}) {
    for (const char* density : {"0.01", "0.001"}) {
      add({fmt::format("compression.method={}", method), fmt::format("compression.density={}", density)});
    }
  }
  for (const char* method : {"topk", "gtopk"})
    add({fmt::format("compression.method={}", method), "compression.density=0.01", "compression.codec.values=int8"});
  add({"compression.method=qsgd"});
  add({"compression.method=dense", "update.delay_steps=1"});
  add({"compression.method=topk", "compression.density=0.01", "update.delay_steps=1"});
  // Each worker clips its own gradient where it steps by itself.
  Settings clip;
  if (own.train.clip == Clip::kGlobal) clip.emplace_back("train.clip=local");
  for (const int steps : {5, 15, 30}) {
    const Settings local{"update.scheme=local", fmt::format("update.inner_steps={}", steps)};
    add(joined(joined(clip, local), {"compression.method=dense"}));
    add(joined(joined(clip, local),
               {"compression.method=dense", fmt::format("update.fragments={}", 5), "update.overlap_steps=0"}));
    add(joined(joined(clip, local), {"compression.method=chunktopk", "compression.memory=residual",
                                     "compression.density=0.25", "compression.codec.values=mag2"}));
  }
  return list;
}

/// Collects families, each once.
class Families {
 public:
  Families(const ConfigVariants& variants, const CandidateRules& rules)
      : variants_(variants), rules_(rules), own_(variants.with({})) {}

  void add(const Settings& settings, Convergence convergence, const Evidence* evidence = nullptr) {
    RunSpec config;
    try {
      config = variants_.with(settings);
    } catch (const ConfigError&) {
      return;  // parts that do not fit this config's others
    }
    // Two configs that differ from a third one in the same way are the same.
    Known known{name_of(config), convergence_changes(own_, config)};
    std::string name = known.name;
    for (const Known& other : known_) {
      if (other.changes == known.changes) return;
      if (other.name == known.name) name = fmt::format("{} ({})", known.name, difference(known, other));
    }
    const bool is_allowed = evidence == nullptr ? convergence == Convergence::kDense || rules_.unmeasured
                                                : evidence->worse_percent <= rules_.most_worse_percent;
    if (is_allowed) families_.push_back({name, settings, evidence, convergence, known.changes.empty()});
    // One that is left out is known all the same: another list may not bring it back.
    known_.push_back(std::move(known));
  }
  std::vector<Family> take() { return std::move(families_); }

 private:
  struct Known {
    std::string name;
    std::vector<std::string> changes;  // from the config as it is
  };

  /// Returns "key = value" of the first key in which two families differ.
  static std::string difference(const Known& family, const Known& other) {
    const auto is_own = [&](const std::string& change) { return !std::ranges::count(other.changes, change); };
    const auto change = std::ranges::find_if(family.changes, is_own);
    if (change == family.changes.end()) return "as configured";
    return fmt::format("{} = {}", change->substr(0, change->find(' ')), change->substr(change->rfind("-> ") + 3));
  }

  const ConfigVariants& variants_;
  const CandidateRules& rules_;
  RunSpec own_;
  std::vector<Known> known_;
  std::vector<Family> families_;
};

/// Returns whether no bucket is summed densely at any density of a run, so that the algorithm of such sums has no
/// effect.
bool sums_nothing_densely(const RunSpec& config, const ParameterArena& arena) {
  // The first density of a budget is not known yet.
  if (config.compression.is_dense() || bytes_share(config.compression) > 0) return false;
  const exchange::ExchangeRules& rules = config.rules;
  const std::vector<exchange::Bucket> buckets = exchange::make_buckets(arena, rules.buckets);
  std::vector<double> densities;
  if (density_decides(config.compression))
    densities = sparse_densities(config.compression, static_cast<std::uint64_t>(config.train.epochs), 1);
  densities.push_back(config.compression.density);
  return std::ranges::none_of(densities, [&](double density) {
    return std::ranges::any_of(buckets, [&](const exchange::Bucket& bucket) {
      return exchange::form_of(rules, bucket, density) == exchange::ExchangeForm::kDense;
    });
  });
}

/// Returns whether a config asks for an overlap with backward that its exchange does not allow: it is like one that
/// does not ask.
bool overlaps_in_vain(const RunSpec& config, const ParameterArena& arena) {
  const comm::Nodes nodes = given_nodes(config, static_cast<int>(config.comm.workers));
  return config.compression.overlap && !overlap_obstacle(config, arena, rules_on(config, nodes)).empty();
}

/// Returns all combinations of settings that change no result but by rounding.
std::vector<Settings> combinations(const RunSpec& config, const ParameterArena& arena) {
  const CompressionConfig& compression = config.compression;
  const bool is_dense = compression.is_dense();
  std::vector<std::vector<std::string>> choices;
  const comm::Nodes nodes = given_nodes(config, static_cast<int>(config.comm.workers));
  if (nodes.count() > 1 && nodes.most() > 1) choices.push_back({"comm.hierarchy=off", "comm.hierarchy=node"});
  choices.push_back({"compression.overlap=false", "compression.overlap=true"});
  if (compression.selects() && !compression.coding().is_lossy())
    choices.push_back({"compression.codec.indices=raw32", "compression.codec.indices=smallest"});
  std::vector<std::string> algorithms{"comm.dense_algorithm=ring"};
  if (is_dense) algorithms.emplace_back("comm.dense_algorithm=rabenseifner");
  // MPI's own algorithm is none of ours, which the virtual cluster runs.
  if (config.comm.process_backend() != Backend::kMpi) algorithms.emplace_back("comm.dense_algorithm=native");
  if (!sums_nothing_densely(config, arena)) choices.push_back(std::move(algorithms));
  if (is_dense && config.update.scheme.entry().overlaps)
    choices.push_back({"compression.bucket=auto", "compression.bucket=1", "compression.bucket=4"});
  std::vector<Settings> all{{}};
  for (const std::vector<std::string>& values : choices) {
    std::vector<Settings> longer;
    for (const Settings& settings : all) {
      for (const std::string& value : values) longer.push_back(joined(settings, {value}));
    }
    all = std::move(longer);
  }
  return all;
}

/// Returns whether the config is dense in every step, as the runs to which evidence compares.
bool is_plainly_dense(const RunSpec& config) {
  return config.compression.is_dense() && !config.compression.coding().is_lossy() && !config.update.steps_locally() &&
         !config.update.traits().delays;
}

}  // namespace

RunSpec ConfigVariants::with(std::span<const std::string> settings) const {
  RawConfig raw = raw_;
  if (chooses_scheme(settings)) {
    std::erase_if(raw.keys, [](const RawKey& key) { return is_of_update(key.table); });
    std::erase_if(raw.tables, [](const RawTable& table) { return is_of_update(table.name); });
  }
  return RunSpec(resolve_config(std::move(raw), settings, /*complete=*/true));
}

std::vector<std::string> ConfigVariants::needed(std::span<const std::string> settings) const {
  Settings left(settings.begin(), settings.end());
  const std::string wanted = to_toml(with(left));
  for (std::size_t i = 0; i < left.size();) {
    Settings fewer = left;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    bool is_same = false;
    try {
      is_same = to_toml(with(fewer)) == wanted;
    } catch (const ConfigError&) {
      is_same = false;
    }
    if (is_same)
      left = std::move(fewer);
    else
      ++i;
  }
  return left;
}

bool ConfigVariants::can_override(std::span<const std::string> settings) const {
  try {
    return to_toml(RunSpec(resolve_config(raw_, settings, /*complete=*/true))) == to_toml(with(settings));
  } catch (const ConfigError&) {
    return false;
  }
}

std::vector<Family> families(const ConfigVariants& variants, std::size_t parameters, std::span<const Evidence> table,
                             const CandidateRules& rules) {
  const RunSpec own = variants.with({});
  Families all(variants, rules);
  all.add(joined(evidence_resets(), {"compression.method=dense"}), Convergence::kDense);
  const EvidenceQuestion question{own.model.name, parameters, own.optimizer.name, static_cast<int>(own.comm.workers)};
  std::vector<const Evidence*> rows = evidence_for(question, table);
  // Where the list is too long for all, those that lie furthest behind dense are left out.
  std::ranges::stable_sort(rows, {}, &Evidence::worse_percent);
  for (const Evidence* row : rows) all.add(joined(evidence_resets(), row->settings), Convergence::kMeasured, row);
  if (rules.unmeasured) {
    for (const Settings& settings : further_settings(own)) all.add(settings, Convergence::kUnknown);
  }
  return all.take();
}

std::vector<Candidate> list_candidates(const ConfigVariants& variants, const ParameterArena& arena,
                                       std::span<const Evidence> table, const CandidateRules& rules) {
  const RunSpec own = variants.with({});
  std::vector<Candidate> candidates{{.settings = {}, .config = own, .family = "as configured", .is_own = true}};
  Candidate& first = candidates.front();
  if (is_plainly_dense(own)) first.convergence = Convergence::kDense;
  CandidateRules everything = rules;
  everything.most_worse_percent = 1e9;
  for (const Family& family : families(variants, arena.size(), table, everything)) {
    if (!family.is_own) continue;
    first.evidence = family.evidence;
    first.convergence = family.convergence;
    first.family = family.name;
  }
  for (const Family& family : families(variants, arena.size(), table, rules)) {
    std::vector<Candidate> variants_of;
    std::vector<Settings> all;
    try {
      all = combinations(variants.with(family.settings), arena);
    } catch (const ConfigError&) {
      continue;  // its parts do not fit this model
    }
    for (const Settings& neutral : all) {
      Candidate candidate{.settings = joined(family.settings, neutral),
                          .config = {},
                          .evidence = family.evidence,
                          .convergence = family.convergence,
                          .family = family.name};
      try {
        candidate.config = variants.with(candidate.settings);
        if (overlaps_in_vain(candidate.config, arena)) continue;
      } catch (const ConfigError&) {
        continue;
      }
      variants_of.push_back(std::move(candidate));
    }
    if (candidates.size() + variants_of.size() > rules.most + 1) break;
    std::ranges::move(variants_of, std::back_inserter(candidates));
  }
  return candidates;
}

}  // namespace dragonn::trainer
