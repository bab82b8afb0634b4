// SPDX-License-Identifier: MIT
/// The selections that `dragonn-bench compress` measures: sparsifiers with a memory, kernels and baselines.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
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
constexpr std::array<const char*, 3> choices(Thresholds) {
  return {"method", "settled", "exact"};
}

/// A gradient to select from.
struct Subject {
  View<const float> gradient;
  float exact_threshold = 0;  ///< the k-th largest magnitude
  std::size_t k = 0;
};

/// Selections of one kind, step after step.
class Selection {
 public:
  explicit Selection(const Device& device) : device_(device) {}
  virtual ~Selection() = default;

  /// Runs one selection and returns its seconds.
  double run(const Subject& subject);
  /// The entries that the last run selected.
  virtual const SparseVector& selected() const = 0;
  /// Returns the elements of the gradient that the last run read.
  std::size_t elements_read() const { return elements_read_; }
  /// Returns the threshold; NaN if there is none.
  virtual float threshold() const { return std::numeric_limits<float>::quiet_NaN(); }

 private:
  virtual void select(const Subject& subject) = 0;
  /// Empties the memory: every step measures the same.
  virtual void finish() = 0;

  Device device_;
  std::size_t elements_read_ = 0;
};

/// The selection to be measured, and its input.
struct SelectionSpec {
  std::string name;        ///< sparsifier or kernel
  bool is_kernel = false;  ///< a kernel of kernel_names(), with its is_fused; settings and thresholds do not matter
  Settings settings = {};  ///< the sparsifier's
  bool is_fused = false;   ///< accumulated into a memory in the same pass; otherwise selected from a given acc
  std::string memory = "residual";  ///< of a fused sparsifier
  std::size_t numel = 0;
  double density = 0;
  Thresholds thresholds = Thresholds::kMethod;
  Device device = {};         ///< the gradient's
  std::string obstacle = {};  ///< why it cannot be measured; empty if it can
};

/// Makes the selection of a kernel, or of a sparsifier with its memory or `none`, which observes its counts
/// after each step as in an exchange of one worker.
std::unique_ptr<Selection> make_selection(const SelectionSpec& spec);

/// A pass of kernels/ without a method, or a baseline.
struct KernelName {
  std::string name;
  bool is_fused;
  std::optional<DeviceType> device = {};  ///< the only one that has it
  std::string obstacle = {};              ///< why it is missing on that device; empty if it is not
};
std::vector<KernelName> kernel_names();

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
