// SPDX-License-Identifier: MIT
/// Tests of plans: evidence, candidates, trials on stand-ins, the search and what it proposes.
#include "trainer/planner/planner.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/config_keys.h"
#include "trainer/planner/screen.h"
#include "trainer/planner/stand_in.h"

namespace dragonn::trainer::testing {
namespace {

using Json = nlohmann::json;
using Settings = std::vector<std::string>;

/// A network on which bytes count: four workers, computing takes what `step_ms` says.
const Settings kSlow{"network.model=alpha-beta", "network.gbps=0.001", "network.latency_us=100",
                     "network.compute=zero",     "network.step_ms=1",  "comm.workers=4"};

Settings joined(Settings first, const Settings& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

ConfigVariants quick_variants(const Settings& overrides = kSlow) {
  RawConfig raw = read_toml(kQuickConfig, "quick.toml");
  for (const std::string& setting : overrides) apply_override(raw, setting);
  return ConfigVariants(std::move(raw));
}

/// Rows for the quick network: topk is near dense, gtopk far behind.
const std::vector<Evidence>& quick_evidence() {
  static const std::vector<Evidence> rows{
      {"mlp", 700, "sgd", 4, 16, 1, 1, {"compression.method=topk", "compression.density=0.1"}, "9 of 10", "a.md"},
      {"mlp", 700, "sgd", 4, 16, 20, 1, {"compression.method=gtopk", "compression.density=0.1"}, "8 of 10", "a.md"}};
  return rows;
}

/// Returns the candidates for the quick network.
std::vector<Candidate> quick_candidates(const ConfigVariants& variants, std::span<const Evidence> table,
                                        const CandidateRules& rules) {
  return list_candidates(variants, make_network(variants.with({})).arena(), table, rules);
}

TrialModel stand_in_of(const layers::Network& network) {
  return {[&](int rank) { return stand_in_network(network, rank); }, stand_in_data(1)};
}

/// Returns the times between the steps of a run of the network itself.
std::vector<double> run_times(const RunSpec& config) {
  const TemporaryFolder folder;
  quick_run(config, static_cast<int>(config.comm.workers), folder.path());
  std::vector<double> ends, times;
  std::istringstream lines(read_text_file(folder.path() / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.at("kind") == "step") ends.push_back(json.at("time"));
  }
  for (std::size_t i = 1; i < ends.size(); ++i) times.push_back(ends[i] - ends[i - 1]);
  return times;
}

TEST_SUITE("trainer") {
  TEST_CASE("evidence speaks for models of one name and size, the same optimizer, and as many workers") {
    const Evidence& row = quick_evidence().front();
    CHECK(speaks_for(row, {"mlp", 700, "sgd", 4}));
    CHECK(speaks_for(row, {"mlp", 2800, "sgd", 16}));
    CHECK_FALSE(speaks_for(row, {"mlp", 2900, "sgd", 4}));
    CHECK_FALSE(speaks_for(row, {"mlp", 170, "sgd", 4}));
    CHECK_FALSE(speaks_for(row, {"mlp", 700, "adam", 4}));
    CHECK_FALSE(speaks_for(row, {"mlp", 700, "sgd", 17}));
    CHECK_FALSE(speaks_for(row, {"resnet20", 700, "sgd", 4}));
  }

  TEST_CASE("of rows with the same settings the one with the fewest workers that suffice counts") {
    std::vector<Evidence> table;
    for (const int workers : {8, 2, 4}) table.push_back({"mlp", 700, "sgd", workers, workers, 1, 1, {"a=b"}, "", ""});
    const auto of = [&](int workers) { return evidence_for({"mlp", 700, "sgd", workers}, table); };
    REQUIRE(of(3).size() == 1);
    CHECK(of(3).front()->workers == 4);
    CHECK(of(8).front()->workers == 8);
    CHECK(of(9).empty());
  }

  TEST_CASE("the table of evidence names pages that exist, and no settings twice for one run") {
    std::set<std::string> seen;
    for (const Evidence& row : all_evidence()) {
      CAPTURE(fmt::format("{} {}", row.model, fmt::join(row.settings, " ")));
      CHECK(std::filesystem::exists(std::filesystem::path(DRAGONN_SOURCE_DIR) / "docs" / "results" / row.page));
      CHECK(row.workers <= row.most_workers);
      CHECK(row.seeds >= 1);
      const std::string key =
          fmt::format("{} {} {} {}", row.model, row.parameters, row.workers, fmt::join(row.settings, " "));
      CHECK(seen.insert(key).second);
    }
  }

  TEST_CASE("algorithms, codes without loss and levels do not change convergence, other settings do") {
    const ConfigVariants variants = quick_variants(joined(kSlow, {"compression.method=topk"}));
    const RunSpec own = variants.with({});
    for (const char* setting : {"comm.dense_algorithm=native", "compression.codec.indices=smallest",
                                "compression.overlap=true", "comm.hierarchy=off", "compression.fusion_mib=1"}) {
      CAPTURE(setting);
      CHECK(convergence_changes(own, variants.with(Settings{setting})).empty());
    }
    for (const char* setting : {"compression.density=0.2", "compression.codec.values=int8", "compression.bucket=model",
                                "compression.memory=none", "update.scheme=local"}) {
      CAPTURE(setting);
      CHECK_FALSE(convergence_changes(own, variants.with(Settings{setting})).empty());
    }
  }

  TEST_CASE("what was never measured, or far behind dense, is listed only if asked for") {
    const ConfigVariants variants = quick_variants();
    const auto names = [&](const CandidateRules& rules) {
      std::set<std::string> found;
      for (const Candidate& candidate : quick_candidates(variants, quick_evidence(), rules))
        if (!candidate.is_own) found.insert(candidate.family);
      return found;
    };
    CHECK(names({}) == std::set<std::string>{"dense", "topk 0.1"});
    CHECK(names({.most_worse_percent = 0.5}) == std::set<std::string>{"dense"});
    CHECK(names({.most_worse_percent = 20}).contains("gtopk 0.1, whole model"));
    const auto all = names({.unmeasured = true});
    CHECK(all.contains("oktopk 0.01, whole model"));
    CHECK(all.contains("dense, H = 15"));
    CHECK_FALSE(all.contains("gtopk 0.1, whole model"));  // it was measured, and is far behind
  }

  TEST_CASE("of a list that is too long the settings that lie least behind dense are kept") {
    const std::vector<Evidence> table(quick_evidence().rbegin(), quick_evidence().rend());  // the worst first
    CandidateRules rules{.most_worse_percent = 99};
    const std::size_t all = quick_candidates(quick_variants(), table, rules).size();
    rules.most = all - 2;
    std::set<std::string> methods;
    for (const Candidate& candidate : quick_candidates(quick_variants(), table, rules))
      methods.insert(candidate.config.compression.method);
    CHECK(methods == std::set<std::string>{"dense", "topk"});
  }

  TEST_CASE("settings that have no effect on an exchange are not listed") {
    const std::vector<Evidence>& evidence = quick_evidence();
    const auto values = [&](const std::string& family, const std::string& key, const Settings& more = {}) {
      std::set<std::string> found;
      const ConfigVariants variants = quick_variants(joined(kSlow, more));
      for (const Candidate& candidate : quick_candidates(variants, evidence, {.most_worse_percent = 99})) {
        if (candidate.is_own || !candidate.family.starts_with(family)) continue;
        for (const std::string& setting : candidate.settings)
          if (setting.starts_with(key + "=")) found.insert(setting.substr(key.size() + 1));
      }
      return found;
    };
    using Values = std::set<std::string>;
    // Of topk by tensor the biases stay dense; gtopk takes the whole model, whose last gradient is the last of all.
    CHECK(values("topk", "comm.dense_algorithm") == Values{"ring", "native"});
    CHECK(values("topk", "compression.overlap") == Values{"false", "true"});
    CHECK(values("gtopk", "comm.dense_algorithm").empty());
    CHECK(values("gtopk", "compression.overlap") == Values{"false"});
    CHECK(values("topk", "compression.overlap", {"train.clip=local", "train.clip_norm=1"}) == Values{"false"});
    // Cut in two, the whole model can overlap.
    CHECK(values("gtopk", "compression.overlap", {"network.workers_per_node=2"}) == Values{"false", "true"});
  }

  TEST_CASE("a config that overlaps is offered local steps, which do not") {
    Evidence local = quick_evidence().front();
    local.settings = {"compression.method=dense", "update.scheme=local", "update.inner_steps=5"};
    const ConfigVariants variants = quick_variants(joined(kSlow, {"compression.overlap=true"}));
    std::size_t found = 0;
    for (const Candidate& candidate : quick_candidates(variants, std::vector{local}, {})) {
      if (candidate.evidence == nullptr) continue;
      ++found;
      CHECK_FALSE(candidate.config.compression.overlap);
    }
    CHECK(found > 0);
  }

  TEST_CASE("settings that do not fit the model are not listed") {
    Evidence misfit = quick_evidence().front();  // the network has fewer layers than fragments
    misfit.settings = {"update.scheme=local", "update.inner_steps=9", "update.fragments=9", "compression.method=topk"};
    std::vector<Evidence> table = quick_evidence();
    table.push_back(misfit);
    const ConfigVariants variants = quick_variants();
    REQUIRE_NOTHROW(variants.with(misfit.settings));
    CHECK(quick_candidates(variants, table, {}).size() == quick_candidates(variants, quick_evidence(), {}).size());
  }

  TEST_CASE("the config as it is comes first, with the evidence for its settings") {
    const auto own = [](const Settings& settings) {
      return quick_candidates(quick_variants(joined(kSlow, settings)), quick_evidence(), {}).front();
    };
    CHECK(own({}).convergence == Convergence::kDense);
    CHECK(own({"compression.method=topk", "compression.density=0.1"}).evidence == &quick_evidence()[0]);
    CHECK(own({"compression.method=gtopk", "compression.density=0.1"}).evidence == &quick_evidence()[1]);
    CHECK(own({"compression.method=topk", "compression.density=0.2"}).convergence == Convergence::kUnknown);
    CHECK(own({"compression.method=topk"}).settings.empty());
  }

  TEST_CASE("a config of another update scheme is overridden in a file, not by settings") {
    const ConfigVariants variants =
        quick_variants(joined(kSlow, {"update.scheme=local", "update.outer.learning_rate=0.5"}));
    const Settings synchronous{"update.scheme=synchronous"};
    CHECK(variants.with(synchronous).update.scheme.name == "synchronous");
    CHECK_FALSE(variants.can_override(synchronous));
    CHECK(variants.can_override(Settings{"compression.method=topk"}));
    CHECK(variants.needed(Settings{"compression.method=topk", "seed=7", "compression.method=dense"}).empty());
    CHECK(variants.needed(Settings{"compression.density=0.1", "compression.method=topk", "seed=8"}) ==
          Settings{"compression.method=topk", "seed=8"});
  }

  TEST_CASE("a trial on stand-ins takes the virtual time of a run of the network") {
    log::set_level(log::Level::kError);
    const Settings lengths{"train.max_steps=8", "train.epochs=4", "train.replica_check_every=0",
                           "compression.density_schedule=constant"};
    const std::vector<Settings> cases{
        {"compression.method=dense"},
        {"compression.method=dense", "compression.overlap=true", "compression.bucket=0.0001"},
        {"compression.method=topk", "compression.memory=residual"},
        {"compression.method=topk", "compression.memory=residual", "network.nodes=[3, 1]",
         "network.up_gbps=[0.002, 0.0005]"},
        {"compression.method=topk", "compression.memory=residual", "network.workers_per_node=2"},
        {"update.scheme=local", "update.inner_steps=2", "optimizer.momentum=0"}};
    for (const Settings& settings : cases) {
      CAPTURE(fmt::format("{}", fmt::join(settings, " ")));
      const RunSpec config = quick_variants(joined(joined(kSlow, lengths), settings)).with({});
      const layers::Network network = make_network(config);
      const TrialResult trial = run_trial(config, stand_in_of(network), {.ahead = 1, .counted = 2});
      const auto period = static_cast<double>(config.update.steps_per_exchange());
      REQUIRE(trial.step_seconds.size() == 2);
      // A step of the run pays one latency more or less than the one before it.
      const std::vector<double> times = run_times(config);
      const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
      CHECK(period * trial.seconds() == doctest::Approx(mean).epsilon(0.005));
      CHECK(trial.ideal_seconds == doctest::Approx(1e-3));
      CHECK(trial.utilization == doctest::Approx(1e-3 / trial.seconds()));
    }
  }

  TEST_CASE("stand-ins have the parameters of the network, and gradients that are partly common") {
    const RunSpec config = quick_config();
    const layers::Network network = make_network(config);
    std::vector<std::vector<float>> gradients;
    for (const int rank : {0, 0, 1}) {
      layers::Network stand_in = stand_in_network(network, rank);
      stand_in.initialize(1);
      REQUIRE(stand_in.arena().size() == network.arena().size());
      for (std::size_t i = 0; i < network.arena().parameters().size(); ++i)
        CHECK(stand_in.arena().parameters()[i].name == network.arena().parameters()[i].name);
      const std::vector<float> input{0};
      const std::vector<std::int32_t> labels{0};
      stand_in.forward(View<const float>(std::span(input)), View<const std::int32_t>(std::span(labels)), 1,
                       layers::Mode::kTrain);
      stand_in.backward();
      const auto values = stand_in.arena().gradients().host();
      gradients.emplace_back(values.begin(), values.end());
    }
    CHECK(gradients[0] == gradients[1]);
    CHECK(gradients[0] != gradients[2]);
    double product = 0, squares = 0;
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      product += static_cast<double>(gradients[0][i]) * gradients[2][i];
      squares += static_cast<double>(gradients[0][i]) * gradients[0][i];
    }
    CHECK(product / squares == doctest::Approx(0.5).epsilon(0.3));
  }

  TEST_CASE("predictions of plain networks are near the trials") {
    for (const Settings& settings : std::vector<Settings>{{"compression.method=dense"},
                                                          {"compression.method=topk", "compression.memory=residual"}}) {
      const RunSpec config = quick_variants(joined(kSlow, settings)).with({});
      const layers::Network network = make_network(config);
      const double trial = run_trial(config, stand_in_of(network), {}).seconds();
      CHECK(Screen(network).seconds(config) == doctest::Approx(trial).epsilon(0.1));
    }
  }

  TEST_CASE("the search finds the fastest of candidates although predictions of a kind are off by a factor") {
    const ConfigVariants variants = quick_variants(joined(kSlow, {"network.workers_per_node=2"}));
    std::vector<Candidate> candidates = quick_candidates(variants, quick_evidence(), {.unmeasured = true});
    REQUIRE(candidates.size() > 60);
    std::size_t number = 0, fastest = 0;
    for (Candidate& candidate : candidates) {
      candidate.predicted_seconds = 1 + 0.01 * static_cast<double>(number * 7 % 53);
      ++number;
    }
    const auto truth = [](const Candidate& candidate) {
      return candidate.predicted_seconds * (candidate.family == "topk 0.1" ? 0.4 : 2);
    };
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (truth(candidates[i]) < truth(candidates[fastest])) fastest = i;
    const Settings best = candidates[fastest].settings;
    std::size_t trials = 0;
    const TryCandidate try_candidate = [&](const Candidate& candidate, const TrialLength& length) {
      ++trials;
      return TrialResult{.step_seconds = std::vector<double>(length.counted, truth(candidate))};
    };
    const SearchReport report = search(candidates, try_candidate, {});
    CHECK(candidates.front().settings == best);
    CHECK(report.is_complete);
    CHECK(report.tried < report.listed);
    CHECK(trials > report.tried);
    CHECK(trials <= report.tried + SearchRules{}.finalists + 1);  // the config as it is, too
    std::vector<Candidate> all = candidates;
    CHECK(search(all, try_candidate, {.try_all = true}).tried == all.size());
  }

  TEST_CASE("a search whose time is over tries the config as it is, and says so") {
    std::vector<Candidate> candidates = quick_candidates(quick_variants(), quick_evidence(), {});
    for (Candidate& candidate : candidates) candidate.predicted_seconds = 1;
    const TryCandidate try_candidate = [](const Candidate&, const TrialLength&) {
      return TrialResult{.step_seconds = {1}};
    };
    const SearchReport report = search(candidates, try_candidate, {.seconds = 0});
    CHECK_FALSE(report.is_complete);
    CHECK(report.tried == 1);
    CHECK(candidates.front().is_own);
  }

  TEST_CASE("of equally fast candidates the one less behind dense is first, and parts that do not fit are left out") {
    const Evidence near{"mlp", 700, "sgd", 4, 4, 1, 1, {}, "", ""}, far{"mlp", 700, "sgd", 4, 4, 2, 1, {}, "", ""};
    const RunSpec config = quick_variants().with({});
    std::vector<Candidate> candidates;
    for (const char* family : {"far", "near", "refused", "slow"}) {
      Candidate& candidate = candidates.emplace_back(Candidate{.config = config, .family = family});
      candidate.predicted_seconds = 1;
      if (candidate.family != "slow") candidate.evidence = candidate.family == "far" ? &far : &near;
    }
    const TryCandidate try_candidate = [](const Candidate& candidate, const TrialLength&) {
      if (candidate.family == "refused") throw ConfigError("does not fit");
      return TrialResult{.step_seconds = {candidate.family == "far" ? 1 : candidate.family == "near" ? 1.005 : 1.02}};
    };
    const SearchReport report = search(candidates, try_candidate, {});
    CHECK(report.refused == 1);
    REQUIRE(candidates.size() == 3);
    CHECK(candidates[0].family == "near");
    CHECK(candidates[1].family == "far");
    CHECK(candidates[2].family == "slow");
  }

  TEST_CASE("bounds name the link that decides") {
    const RunSpec config = quick_variants(joined(kSlow, {"network.up_gbps=[0.001, 0.0001, 0.001, 0.001]"})).with({});
    const layers::Network network = make_network(config);
    const std::vector<Bound> bounds =
        find_bounds(config, [&](const RunSpec& other) { return run_trial(other, stand_in_of(network), {}).seconds(); });
    const auto saved = [&](const std::string& part) {
      const auto found = std::ranges::find(bounds, part, &Bound::part);
      return found == bounds.end() ? 0.0 : found->saved;
    };
    CHECK(saved("the link out of node 1") > 0.3);
    CHECK(saved("the link out of node 0") == 0);
    CHECK(saved("the rates of all links") >= saved("the link out of node 1"));
    CHECK(bounds.front().part == "the rates of all links");
  }

  TEST_CASE("a plan proposes what is measured and fast, and its file is the config that it tried") {
    const ConfigVariants variants = quick_variants();
    const Plan plan = make_plan(variants, quick_evidence(), {});
    REQUIRE(plan.proposals.size() == 2);
    const Proposal& first = plan.proposals.front();
    CHECK(first.candidate.family == "topk 0.1");
    CHECK(first.seconds < plan.own.seconds);
    CHECK(first.low <= first.seconds);
    CHECK(plan.step.seconds == 1e-3);
    CHECK(plan.own.candidate.convergence == Convergence::kDense);
    CHECK(std::ranges::count(first.settings, "compression.method=topk") == 1);
    CHECK(std::ranges::none_of(first.settings,
                               [](const std::string& setting) { return setting == "update.scheme=synchronous"; }));
    const RunSpec written = parse_config(to_toml(plan, first, variants), "planned.toml");
    CHECK(config_changes(written, first.candidate.config).empty());
    CHECK(describe(plan).find("--set compression.method=topk") != std::string::npos);
    const Json json = Json::parse(to_json(plan, true));
    CHECK(json.at("candidates").size() == plan.candidates.size());
    CHECK(json.at("proposals")[0].at("evidence").at("page") == "docs/results/a.md");
    const Plan tight = make_plan(variants, quick_evidence(), {.memory_bytes = 1});
    CHECK(tight.proposals.empty());
  }

  TEST_CASE("a plan weighs the densities of a schedule by the learning rate by the steps that have them") {
    // Ten epochs, six of them at a tenth of the rate.
    const Settings rate =
        joined(kSlow, {"compression.method=topk", "compression.include_vectors=yes", "compression.density=0.05",
                       "train.max_steps=0", "train.epochs=10", "schedule.name=milestones", "schedule.milestones=[4]"});
    const auto own = [](const Settings& settings) { return make_plan(quick_variants(settings), {}, {}).own; };
    const auto at = [&](const char* density) { return own(joined(rate, {density})); };
    const auto by_rate = [&](const Settings& more) {
      return own(joined(joined(rate, {"compression.density_schedule=rate", "compression.rate.densities=[0.5]"}), more));
    };
    const Proposal dense = at("compression.density=0.5"), sparse = at("compression.density=0.05");
    const Proposal both = by_rate({});
    CHECK(both.seconds == doctest::Approx(0.4 * dense.seconds + 0.6 * sparse.seconds).epsilon(0.01));
    CHECK(both.candidate.predicted_seconds ==
          doctest::Approx(0.4 * dense.candidate.predicted_seconds + 0.6 * sparse.candidate.predicted_seconds));
    REQUIRE(both.candidate.trial);
    CHECK(both.candidate.trial->bytes_sent ==
          doctest::Approx(0.4 * dense.candidate.trial->bytes_sent + 0.6 * sparse.candidate.trial->bytes_sent));
    // A budget finds the first density on the plan's network, too.
    const Proposal within = by_rate({"compression.rate.bytes_share=0.3"});
    const double dense_bytes = own(kSlow).candidate.trial->bytes_sent;
    CHECK(within.candidate.trial->bytes_sent == doctest::Approx(0.3 * dense_bytes).epsilon(0.03));
    CHECK_THROWS_AS(by_rate({"compression.rate.bytes_share=0.01"}), ConfigError);
  }

  TEST_CASE("a plan refuses what it cannot try") {
    const auto refusal = [](const Settings& overrides) -> std::string {
      try {
        make_plan(quick_variants(overrides), {}, {});
        return "";
      } catch (const ConfigError& error) {
        return error.what();
      }
    };
    CHECK(refusal({}).find("--network FILE or --measure") != std::string::npos);
    CHECK(refusal(joined(kSlow, {"comm.workers=1"})).find("expected 2 or more") != std::string::npos);
    CHECK(refusal(joined(kSlow, {"update.scheme=local", "update.inner_seconds=1", "optimizer.momentum=0"}))
              .find("leave out steps") != std::string::npos);
  }
}

}  // namespace
}  // namespace dragonn::trainer::testing
