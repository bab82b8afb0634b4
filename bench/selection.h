// SPDX-License-Identifier: MIT
/// What `dragonn-bench compress` measures: a method's compensate and select, or a bare kernel, on one gradient.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/sparsifier.h"

namespace dragonn::bench {

/// Whose thresholds a method selects with.
enum class Thresholds {
  kMethod,   ///< its own
  kSettled,  ///< one that it knows before the pass, fixed or fed back, is replaced by the exact k-th magnitude
  kExact,    ///< one that it samples too: what the method costs without its estimate
};

/// A gradient to select from.
struct Subject {
  View<const float> gradient;
  float exact_threshold = 0;  ///< its k-th largest magnitude
  std::size_t k = 0;
};

/// Selections of one kind, step after step.
class Selection {
 public:
  virtual ~Selection() = default;

  /// Seconds of one selection.
  virtual double run(const Subject& subject) = 0;
  /// Entries that the last run selected.
  virtual const SparseVector& selected() const = 0;
  /// Elements of the gradient that the last run read.
  virtual std::size_t elements_read() const = 0;
  /// NaN if there is none.
  virtual float threshold() const = 0;
};

/// What is measured, and on what.
struct SelectionSpec {
  std::string name;        ///< sparsifier or kernel
  Settings settings = {};  ///< of the sparsifier
  bool is_fused = false;   ///< accumulated into a residual in the same pass; otherwise selected from a given acc
  std::size_t numel = 0;
  double density = 0;
  Thresholds thresholds = Thresholds::kMethod;
  Device device = {};  ///< of the gradient
};

/// A sparsifier with memory `residual` or `none`. Every step begins with an empty memory, so that all measure the same;
/// `observe` is called after each as by an exchange of one worker.
std::unique_ptr<Selection> make_method_selection(const SelectionSpec& spec);

/// A pass of kernels/ without a method, or a baseline (bench/baseline.h).
struct KernelName {
  std::string name;
  bool is_fused;
  std::optional<DeviceType> device = {};  ///< the only one that has it
  std::string obstacle = {};              ///< why it is not there on that device; empty if it is
};
const std::vector<KernelName>& kernel_names();
/// @param spec one of kernel_names(), with its is_fused; settings and thresholds do not matter.
std::unique_ptr<Selection> make_kernel_selection(const SelectionSpec& spec);

}  // namespace dragonn::bench
