// SPDX-License-Identifier: MIT
/// Sparsifier: selects entries of acc = residual + gradient. Knows no communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/archive.h"
#include "core/component_traits.h"
#include "core/registry.h"
#include "core/shape.h"
#include "core/sparse_vector.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::compress {

/// The step's data for a sparsifier.
struct SelectContext {
  std::uint64_t seed = 1;  ///< the run's
  std::uint64_t step = 0;  ///< committed exchanges of the bucket so far
  int rank = 0;
  int world_size = 1;
  std::uint32_t bucket = 0;  ///< index of the bucket: a tensor, or a range of the arena
  double density = 1.0;      ///< target, in (0, 1]
  std::size_t k = 0;         ///< the entry's target: for most methods max(1, floor(density * n))
  /// The learning rate that acc's gradient was multiplied by: 1 unless the accumulator is folded.
  double learning_rate = 1.0;
  /// The bucket's tensors, one after the other, the same in every step; empty: one vector.
  std::span<const Shape> tensors = {};
};

/// Returns the target number of entries. @throws ConfigError unless density is in (0, 1].
std::size_t target_count(double density, std::size_t numel);

/// The outcome of an exchange, the same on every rank.
struct ExchangeOutcome {
  std::uint64_t step = 0;
  std::size_t numel = 0;
  std::size_t k = 0;
  std::span<const std::uint64_t> selected_counts;  ///< entries selected by each rank
  std::size_t global_count = 0;                    ///< entries of the exchanged sum
};

/// The sparsifier of one bucket. For every step: plan, (the memory runs the pass), propose and accept_proposal if there
/// is more than one rank, select, (exchange), observe.
class Sparsifier {
 public:
  virtual ~Sparsifier() = default;

  /// Returns the request for the one pass over (residual, gradient).
  virtual kernels::PassRequest plan(const SelectContext& context) = 0;
  /// Returns a number that the ranks must agree on before they select. Either every rank has one or none; rank 0's goes
  /// to all, to `accept_proposal`. Most methods have none, and the others ask once in many steps.
  virtual std::optional<float> propose(const SelectContext& /*context*/, View<const float> /*acc*/) { return {}; }
  virtual void accept_proposal(float /*value*/) {}
  /// Finishes from that pass, with further passes over acc if the method needs them. A pass that selects what the
  /// method does gives its selection away: `std::swap(pass.selected, selected)`, after reserve_selection. `selected` is
  /// overwritten: ascending unique indices, values equal to acc there (bit for bit, unless rescaled).
  virtual void select(const SelectContext& context, kernels::PassResult& pass, View<const float> acc,
                      SparseVector& selected) = 0;
  virtual void observe(const ExchangeOutcome& /*outcome*/) {}
  /// Returns the magnitude threshold of the last selection, NaN if the method has none.
  virtual float threshold() const { return threshold_; }

  virtual void save(Archive& /*archive*/, const std::string& /*prefix*/) const {}
  virtual void load(const Archive& /*archive*/, const std::string& /*prefix*/) {}

 protected:
  float threshold_ = std::numeric_limits<float>::quiet_NaN();
};

/// The band of a sparsifier's counts, in shares of the target: min(k, non-zero elements).
struct CountBand {
  double low = 1, high = 1;
  /// The steps until a threshold that is fed back has settled; from then on the mean count is in the band.
  std::uint64_t settling_steps = 0;
  bool may_miss_ties = false;  ///< a vector of equal magnitudes may have none above the threshold
};
inline constexpr CountBand kAnyCount{.low = 0, .high = std::numeric_limits<double>::infinity(), .may_miss_ties = true};

struct SparsifierEntry : RegistryEntry {
  static constexpr const char* kKind = "sparsifier";
  bool exact = false;  ///< at density 1 selects every non-zero entry
  /// Returns k, the target number of entries of a bucket (see SelectContext::tensors).
  std::function<std::size_t(const Settings&, std::size_t numel, std::span<const Shape> tensors, double density)>
      target = [](const Settings&, std::size_t numel, std::span<const Shape>, double density) {
        return target_count(density, numel);
      };
  /// The least and the most that the default settings select, of any values (compress/README.md).
  CountBand band = {};
  /// Returns the entries that these settings select of gradients of training, in shares of k: mean over ranks.
  std::function<CountForecast(const Settings&)> forecast = [](const Settings&) { return CountForecast{}; };
  /// The longest list of any rank, in shares of the mean over ranks, likewise.
  CountRange longest = {};
  /// The rule for P' workers instead of P. kReshard: rank r loads the state of rank r modulo P.
  ResizeRule resize = {};
  /// Returns the traits that hold for every selection with these settings.
  std::function<SelectionTraits(const Settings&)> traits = [](const Settings&) { return SelectionTraits{}; };
  /// Makes a sparsifier for buckets of `numel` elements on `device`. @throws DeviceError if that device lacks a kernel
  /// it needs.
  std::function<std::unique_ptr<Sparsifier>(const Settings&, std::size_t numel, const Device& device)> make;
};

/// An entry's `make` for a class with such a constructor.
template <class Method>
std::unique_ptr<Sparsifier> make_sparsifier(const Settings& settings, std::size_t numel, const Device& device) {
  return std::make_unique<Method>(settings, numel, device);
}

}  // namespace dragonn::compress
