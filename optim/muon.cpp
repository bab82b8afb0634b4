// SPDX-License-Identifier: MIT
/// Muon: momentum, orthogonalized, for the matrices of hidden layers; AdamW for all other parameters.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/devices.h"
#include "kernels/nn/orthogonalize.h"
#include "optim/clip.h"
#include "optim/name_patterns.h"
#include "optim/optimizer.h"
#include "optim/optimizer_parts.h"
#include "optim/weight_decay.h"

namespace dragonn::optim {
namespace {

using kernels::GradientView;

/// The root mean square of an orthogonalized matrix's elements is 1 / sqrt(max(rows, columns)); times this factor and
/// that root it is that of a typical AdamW update, so one learning rate and weight decay serve both.
constexpr double kAdamUpdateSize = 0.2;

/// Slices may cut a matrix, and Muon needs whole ones. Slices come in the order of the arena, so the momentum pass of
/// each adds to one matrix of g', and the slice with its last element triggers the update. Where a slice is cut changes
/// no bit.
///
/// State: b for every element of a matrix, m and v for every other parameter. Scratch memory: g' and what
/// orthogonalize() takes, for the largest matrix.
class Muon final : public Optimizer {
 public:
  Muon(const Settings& settings, ParameterArena& arena)
      : arena_(arena),
        decay_(settings, arena),
        adam_(settings, /*decoupled=*/true),
        momentum_(static_cast<float>(settings.number("momentum"))),
        nesterov_(settings.flag("nesterov")),
        steps_(static_cast<int>(settings.integer("newton_schulz_steps"))),
        adamw_factor_(settings.number("adamw_rate_factor")) {
    cut(settings.text("matrices"));
    std::size_t largest = 0, scratch = 0, rest = 0;
    for (const Part& part : parts_) {
      if (!part.is_matrix) {
        rest += part.end - part.begin;
        continue;
      }
      largest = std::max(largest, part.end - part.begin);
      scratch = std::max(scratch, spec_of(part).scratch_floats());
    }
    first_ = zeros(arena.size(), arena);
    second_ = zeros(rest, arena);
    direction_ = zeros(largest, arena);
    scratch_ = zeros(scratch, arena);
  }

  void begin_step(double learning_rate, std::uint64_t step) override {
    DRAGONN_CHECK(gathered_ == 0, "muon: the slices of the last step left out the end of a matrix");
    learning_rate_ = static_cast<float>(learning_rate);
    adam_.begin_step(adamw_factor_ * learning_rate, step);
  }

  void update(const Slice& slice, const GradientView& gradient, float scale) override {
    DRAGONN_CHECK(!slice.momentum_applied && !slice.learning_rate_applied,
                  "muon is not defined on a gradient with momentum or learning rate in it");
    for (const Part& part : parts_) {
      const std::size_t begin = std::max(part.begin, slice.offset);
      const std::size_t end = std::min(part.end, slice.offset + slice.size);
      if (begin >= end) continue;
      const GradientView own = gradient.slice(begin - slice.offset, end - begin);
      if (part.is_matrix)
        update_matrix(part, begin, own, scale);
      else
        update_rest(part, begin, own, scale);
    }
  }
  bool needs_dense(const Slice& /*slice*/) const override { return true; }

  std::vector<StateArray> state() override { return {{"first", first_.view()}, {"second", second_.view()}}; }

 protected:
  void abandon_step() override { gathered_ = 0; }

 private:
  /// One matrix, or neighbours that AdamW updates.
  struct Part {
    std::size_t begin = 0, end = 0;  // in the arena
    bool is_matrix = false;
    std::int64_t rows = 0, columns = 0;  // of a matrix
    std::size_t second = 0;              // of others: where their v begins in second_
  };

  /// Cuts the arena into parts. @param patterns of the matrices; empty: the model's hidden ones.
  void cut(const std::string& patterns) {
    const std::vector<std::string> chosen = split_list(patterns);
    for (const std::string& pattern : chosen)
      require_match(fmt::format("optimizer.matrices = \"{}\"", patterns), pattern, arena_, /*matrices=*/true);
    std::size_t second = 0;
    for (const ParameterId id : arena_.layout()) {
      const Parameter& parameter = arena_[id];
      const bool is_chosen =
          std::ranges::any_of(chosen, [&](const std::string& pattern) { return matches(pattern, parameter.name); });
      const bool is_matrix =
          parameter.shape.rank() == 2 && (chosen.empty() ? parameter.role == ParameterRole::kHiddenMatrix : is_chosen);
      const std::size_t end = parameter.offset + parameter.size;
      if (is_matrix)
        parts_.push_back({parameter.offset, end, true, parameter.shape[0], parameter.shape[1]});
      else if (!parts_.empty() && !parts_.back().is_matrix)
        parts_.back().end = end;
      else
        parts_.push_back({.begin = parameter.offset, .end = end, .second = second});
      if (!is_matrix) second += parameter.size;
    }
    if (std::ranges::none_of(parts_, &Part::is_matrix))
      throw ConfigError(
          "optimizer.name = \"muon\": the model has no linear map between hidden layers: expected \"adamw\", or "
          "optimizer.matrices with patterns of names");
  }

  kernels::OrthogonalizeSpec spec_of(const Part& part) const { return {part.rows, part.columns, steps_}; }

  void update_matrix(const Part& part, std::size_t begin, const GradientView& gradient, float scale) {
    DRAGONN_CHECK(begin == part.begin + gathered_,
                  "muon: a slice begins at {}, and its matrix is complete up to {}: slices come in the arena's order",
                  begin, part.begin + gathered_);
    // From zeros and with a rate of -1, SGD leaves what it would subtract: g' = g + mu b.
    const View<float> place = direction_.view().subview(gathered_, gradient.size());
    kernels::fill(0, place);
    kernels::sgd_update({.learning_rate = -1, .scale = scale, .momentum = momentum_, .nesterov = nesterov_}, gradient,
                        first_.view().subview(begin, gradient.size()), place);
    gathered_ += gradient.size();
    const std::size_t size = part.end - part.begin;
    if (gathered_ < size) return;
    gathered_ = 0;
    const kernels::OrthogonalizeSpec spec = spec_of(part);
    const View<float> direction = direction_.view().subview(0, size);
    constexpr double kGuard = 1e-7;  // of a division by zero
    const auto to_norm_1 = static_cast<float>(1.0 / (std::sqrt(squared_norm(direction)) + kGuard));
    kernels::orthogonalize(spec, to_norm_1, direction, scratch_.view().subview(0, spec.scratch_floats()));
    const double length = kAdamUpdateSize * std::sqrt(static_cast<double>(std::max(part.rows, part.columns)));
    decay_.for_ranges(part.begin, size, [&](std::size_t offset, std::size_t count, float decay) {
      kernels::sgd_update({.learning_rate = learning_rate_, .scale = static_cast<float>(length), .weight_decay = decay},
                          GradientView(direction.subview(offset - part.begin, count)), {},
                          arena_.values().subview(offset, count));
    });
  }

  void update_rest(const Part& part, std::size_t begin, const GradientView& gradient, float scale) {
    decay_.for_ranges(begin, gradient.size(), [&](std::size_t offset, std::size_t size, float decay) {
      kernels::adam_update(
          adam_.rule(scale, decay), gradient.slice(offset - begin, size), first_.view().subview(offset, size),
          second_.view().subview(part.second + offset - part.begin, size), arena_.values().subview(offset, size));
    });
  }

  ParameterArena& arena_;
  WeightDecay decay_;
  AdamSteps adam_;
  float momentum_;
  bool nesterov_;
  int steps_;
  double adamw_factor_;
  std::vector<Part> parts_;  // cover the arena in its order
  float learning_rate_ = 0;
  Buffer<float> first_;      // b of the matrices and m of the rest, [arena]
  Buffer<float> second_;     // v of the rest, without gaps
  Buffer<float> direction_;  // g' of the current matrix: [0, gathered_) are there; [largest matrix]
  Buffer<float> scratch_;
  std::size_t gathered_ = 0;
};

const Registration<OptimizerEntry> muon{[](OptimizerEntry& entry) {
  entry.name = "muon";
  entry.summary = "orthogonalized momentum for the matrices of hidden layers, AdamW for the rest";
  entry.source =
      "Jordan et al., Muon (2024), kellerjordan.github.io/posts/muon; scaled as in arXiv:2502.16982, equation 4";
  SettingSpecs own{
      {"momentum", 0.95, "momentum coefficient of the matrices", 0.0, 1.0},
      {"nesterov", true, "true: orthogonalize the gradient plus the momentum, false: the momentum"},
      {"newton_schulz_steps", std::int64_t{5}, "iterations of the orthogonalization", 1.0, 100.0},
      SettingSpec::text("matrices", "",
                        "patterns of the matrices' names, such as \"*.weight_hh*, *.qkv.weight\"; empty: the linear "
                        "maps between hidden layers, neither the first nor the last layer's"),
      SettingSpec::number("adamw_rate_factor", 1.0, "learning rate of AdamW, as a multiple of the matrices'", 0)
          .above_minimum()};
  for (SettingSpec& spec : AdamSteps::specs(0.95)) {
    spec.help += " (AdamW)";
    own.push_back(std::move(spec));
  }
  entry.settings = WeightDecay::specs(0.1, std::move(own));
  entry.floats_per_parameter = 2;
  entry.make = [](const Settings& settings, ParameterArena& arena) { return std::make_unique<Muon>(settings, arena); };
}};

}  // namespace
}  // namespace dragonn::optim
