// SPDX-License-Identifier: MIT
// Plans as text, JSON and TOML.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/program.h"
#include "core/units_text.h"
#include "trainer/planner/planner.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPages = "docs/results/";

const char* name_of(Convergence convergence) {
  return convergence == Convergence::kDense ? "dense" : convergence == Convergence::kMeasured ? "measured" : "unknown";
}

/// Returns "31.2 ms (30 to 33 ms)", or the time alone if the range is that.
std::string range_text(double seconds, double low, double high) {
  const std::string text = seconds_text(seconds), from = seconds_text(low), to = seconds_text(high);
  return from == text && to == text ? text : fmt::format("{} ({} to {})", text, from, to);
}

std::string evidence_text(const Candidate& candidate) {
  if (candidate.convergence == Convergence::kDense) return "every step exchanges all gradients: nothing is left out";
  if (candidate.evidence == nullptr) return "never measured";
  const Evidence& evidence = *candidate.evidence;
  const std::string difference = evidence.worse_percent == 0
                                     ? "as dense"
                                     : fmt::format("{:.2g} % {} than dense", std::abs(evidence.worse_percent),
                                                   evidence.worse_percent > 0 ? "worse" : "better");
  return fmt::format("{}: {}, with {} workers, {} ({}{})", difference, evidence.measured, evidence.workers,
                     evidence.seeds == 1 ? "one seed" : fmt::format("{} seeds", evidence.seeds), kPages, evidence.page);
}

/// Returns the lines of what a proposal gives.
std::string describe(const Proposal& proposal, const Proposal& own) {
  const Candidate& candidate = proposal.candidate;
  std::string text =
      fmt::format("{}: a step takes {}", candidate.family, range_text(proposal.seconds, proposal.low, proposal.high));
  if (!candidate.is_own && proposal.seconds > 0)
    text += fmt::format(", {} as fast as the config", ratio_text(own.seconds / proposal.seconds));
  text += "\n";
  if (candidate.trial) {
    text +=
        fmt::format("   computes {} of the time; a worker sends {} a step and needs {} of memory\n",
                    percent_text(std::min(1.0, candidate.trial->utilization)), bytes_text(candidate.trial->bytes_sent),
                    bytes_text(static_cast<double>(proposal.memory_bytes)));
  }
  return text + fmt::format("   convergence: {}\n", evidence_text(candidate));
}

std::string bounds_text(const std::vector<Bound>& bounds) {
  if (bounds.empty()) return "no part of the cluster matters alone";
  std::vector<std::string> parts;
  for (const Bound& bound : bounds) parts.push_back(fmt::format("{} {}", bound.part, percent_text(bound.saved)));
  return fmt::format("a step's time falls, if twice as good, by: {}", fmt::join(parts, ", "));
}

Json to_json_value(const Evidence* evidence) {
  if (evidence == nullptr) return nullptr;
  return {{"worse_percent", evidence->worse_percent},
          {"measured", evidence->measured},
          {"workers", evidence->workers},
          {"seeds", evidence->seeds},
          {"page", kPages + evidence->page}};
}

Json to_json_value(const Candidate& candidate) {
  Json json{{"family", candidate.family},
            {"settings", candidate.settings},
            {"convergence", name_of(candidate.convergence)},
            {"predicted_seconds", candidate.predicted_seconds}};
  if (candidate.trial) json["seconds"] = candidate.trial->seconds();
  return json;
}

Json to_json_value(const Proposal& proposal) {
  const Candidate& candidate = proposal.candidate;
  Json json = to_json_value(candidate);
  json["changes"] = proposal.settings;
  json["can_override"] = proposal.can_override;
  json["seconds"] = proposal.seconds;
  json["seconds_low"] = proposal.low;
  json["seconds_high"] = proposal.high;
  json["memory_bytes"] = proposal.memory_bytes;
  if (candidate.trial) {
    json["ideal_seconds"] = candidate.trial->ideal_seconds;
    json["utilization"] = candidate.trial->utilization;
    json["bytes_sent"] = candidate.trial->bytes_sent;
    json["most_bytes_sent"] = candidate.trial->most_bytes;
  }
  json["evidence"] = to_json_value(candidate.evidence);
  return json;
}

}  // namespace

std::string describe(const Plan& plan) {
  std::string text =
      fmt::format("network: {}; {} workers\nstep: forward and backward take {}, {}\n", plan.network, plan.workers,
                  range_text(plan.step.seconds, plan.step.low, plan.step.high), plan.step.source);
  text += fmt::format(
      "search: {} candidates, {} of them with stand-in gradients on the virtual cluster, in {}{}\n\n",
      plan.search.listed, plan.search.tried, seconds_text(plan.search.seconds),
      plan.search.is_complete ? "" : "; the time was over before all promising ones were tried (--seconds)");
  text += "as it is, " + describe(plan.own, plan.own);
  if (!plan.has_evidence)
    text +=
        "\nno sparse method was measured for this model, optimizer and number of workers: --unmeasured proposes some\n";
  if (plan.proposals.empty()) return text + "\nnothing to propose\n";
  for (std::size_t i = 0; i < plan.proposals.size(); ++i) {
    const Proposal& proposal = plan.proposals[i];
    text += fmt::format("\n{}. {}", i + 1, describe(proposal, plan.own));
    if (i == 0) text += fmt::format("   {}\n", bounds_text(plan.bounds));
    for (const std::string& setting : proposal.settings) text += fmt::format("   --set {}\n", setting);
    if (proposal.settings.empty()) text += "   the config as it is\n";
    if (!proposal.can_override)
      text += "   (the config has keys of another update scheme, which --set does not remove: use --output)\n";
  }
  return text;
}

std::string to_json(const Plan& plan, bool all_candidates) {
  Json json{{"version", 1},
            {"network", plan.network},
            {"workers", plan.workers},
            {"step",
             {{"seconds", plan.step.seconds},
              {"seconds_low", plan.step.low},
              {"seconds_high", plan.step.high},
              {"source", plan.step.source}}},
            {"gradients", "stand-in"},
            {"most_worse_percent", plan.most_worse_percent},
            {"unmeasured", plan.unmeasured},
            {"search",
             {{"listed", plan.search.listed},
              {"tried", plan.search.tried},
              {"refused", plan.search.refused},
              {"seconds", plan.search.seconds},
              {"complete", plan.search.is_complete}}},
            {"own", to_json_value(plan.own)}};
  json["proposals"] = Json::array();
  for (const Proposal& proposal : plan.proposals) json["proposals"].push_back(to_json_value(proposal));
  json["bounds"] = Json::array();
  for (const Bound& bound : plan.bounds) json["bounds"].push_back({{"part", bound.part}, {"saved", bound.saved}});
  if (!all_candidates) return json.dump(2) + "\n";
  json["candidates"] = Json::array();
  for (const Candidate& candidate : plan.candidates) json["candidates"].push_back(to_json_value(candidate));
  return json.dump(2) + "\n";
}

std::string to_toml(const Plan& plan, const Proposal& proposal, const ConfigVariants& variants) {
  return fmt::format(
             "# Written by dragonn plan {}: {}, {} workers.\n# A step is expected to take {}.\n# Convergence: {}.\n\n",
             version(), plan.network, plan.workers, range_text(proposal.seconds, proposal.low, proposal.high),
             evidence_text(proposal.candidate)) +
         to_toml(variants.with(proposal.candidate.settings));
}

}  // namespace dragonn::trainer
