// SPDX-License-Identifier: MIT
#include "optim/weight_decay.h"

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "optim/name_patterns.h"

namespace dragonn::optim {
namespace {

struct Rule {
  std::string pattern;
  float coefficient = 0;
};

/// Reads "PATTERN=COEFFICIENT, ..." . @throws ConfigError.
std::vector<Rule> read_rules(const std::string& text, const ParameterArena& arena) {
  const std::string where = fmt::format("optimizer.weight_decay_rules = \"{}\"", text);
  std::vector<Rule> rules;
  for (const std::string& part : split_list(text)) {
    const std::size_t sign = std::min(part.rfind('='), part.size());
    const std::string pattern(trim(std::string_view(part).substr(0, sign)));
    const std::string_view number = trim(std::string_view(part).substr(std::min(sign + 1, part.size())));
    double coefficient = 0;
    const auto [stop, error] = std::from_chars(number.begin(), number.end(), coefficient);
    if (pattern.empty() || error != std::errc() || stop != number.end() || !std::isfinite(coefficient) ||
        coefficient < 0)
      throw ConfigError(fmt::format(
          "{}: '{}' is no rule: expected PATTERN=COEFFICIENT with a coefficient of at least 0, such as *.bias=0", where,
          part));
    require_match(where, pattern, arena);
    rules.push_back({pattern, static_cast<float>(coefficient)});
  }
  return rules;
}

}  // namespace

WeightDecay::WeightDecay(const Settings& settings, const ParameterArena& arena) {
  const auto decay = static_cast<float>(settings.number("weight_decay"));
  const bool all = settings.flag("weight_decay_norm_bias");
  const std::vector<Rule> rules = read_rules(settings.text("weight_decay_rules"), arena);
  for (const ParameterId id : arena.layout()) {
    const Parameter& parameter = arena[id];
    const auto rule =
        std::ranges::find_if(rules, [&](const Rule& one) { return matches(one.pattern, parameter.name); });
    const float usual = all || is_weight(parameter.role) ? decay : 0.0f;
    const float coefficient = rule != rules.end() ? rule->coefficient : usual;
    const std::size_t end = parameter.offset + parameter.size;
    if (!ranges_.empty() && ranges_.back().coefficient == coefficient)
      ranges_.back().end = end;
    else
      ranges_.push_back({parameter.offset, end, coefficient});
  }
}

SettingSpecs WeightDecay::specs(double default_value, SettingSpecs own) {
  own.push_back({"weight_decay", default_value, "weight decay coefficient, per step and unit of learning rate", 0.0});
  own.push_back({"weight_decay_norm_bias", true,
                 "true: biases and normalization parameters decay, too, as in most papers' code"});
  own.push_back(SettingSpec::text("weight_decay_rules", "",
                                  "coefficients of single parameters as \"PATTERN=COEFFICIENT, ...\", such as "
                                  "\"embedding.*=0, *.bias=0\"; the first pattern that matches a name counts"));
  return own;
}

}  // namespace dragonn::optim
