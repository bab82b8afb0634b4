// SPDX-License-Identifier: MIT
/// Selection: a method's compensate and select, or a bare kernel, on one gradient, for `dragonn-bench compress`.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/sparsifier.h"

namespace dragonn::bench {

/// The thresholds that a method selects with.
enum class Thresholds {
  kMethod,   ///< its own
  kSettled,  ///< a threshold known before the pass, fixed or fed back, is replaced by the exact k-th magnitude
  kExact,    ///< a sampled threshold is replaced, too: the cost of the method without its estimate
};

/// A gradient to select from.
struct Subject {
  View<const float> gradient;
  float exact_threshold = 0;  ///< the k-th largest magnitude
  std::size_t k = 0;
};

/// Selections of one kind, step after step.
class Selection {
 public:
  virtual ~Selection() = default;

  /// Runs one selection and returns its seconds.
  virtual double run(const Subject& subject) = 0;
  /// The entries that the last run selected.
  virtual const SparseVector& selected() const = 0;
  /// Returns the elements of the gradient that the last run read.
  virtual std::size_t elements_read() const = 0;
  /// Returns the threshold; NaN if there is none.
  virtual float threshold() const = 0;
};

/// The selection to be measured, and its input.
struct SelectionSpec {
  std::string name;        ///< sparsifier or kernel
  Settings settings = {};  ///< the sparsifier's
  bool is_fused = false;   ///< accumulated into a residual in the same pass; otherwise selected from a given acc
  std::size_t numel = 0;
  double density = 0;
  Thresholds thresholds = Thresholds::kMethod;
  Device device = {};  ///< the gradient's
};

/// Makes the selection of a sparsifier with memory `residual` or `none`. Every step begins with an empty memory, so
/// that all measure the same. `observe` is called after each, as by an exchange of one worker.
std::unique_ptr<Selection> make_method_selection(const SelectionSpec& spec);

/// A pass of kernels/ without a method, or a baseline (bench/selection.h).
struct KernelName {
  std::string name;
  bool is_fused;
  std::optional<DeviceType> device = {};  ///< the only one that has it
  std::string obstacle = {};              ///< why it is missing on that device; empty if it is not
};
const std::vector<KernelName>& kernel_names();
/// Makes the selection of a kernel. @param spec one of kernel_names(), with its is_fused; settings and thresholds do
/// not matter.
std::unique_ptr<Selection> make_kernel_selection(const SelectionSpec& spec);

/// Baseline: another library's selection, for comparison in `dragonn-bench compress`. Each registers itself from its
/// own file.
/// Selects the entries above the threshold, or the k largest, from memory of one type of device.
struct BaselineEntry : RegistryEntry {
  static constexpr const char* kKind = "baseline";
  DeviceType device = DeviceType::kCpu;
  std::string obstacle;  ///< why this build does not have it, as "CUB 3.0 has none"; empty if it does
  /// @param selected on the gradient's device, with room for a selection (kernels::reserve_selection); overwritten.
  std::function<void(const Subject& subject, SparseVector& selected)> select;
};

}  // namespace dragonn::bench
