// SPDX-License-Identifier: MIT
/// Connectionist temporal classification: the likelihood of a label sequence, whatever its alignment with the steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/targets.h"
#include "core/view.h"
#include "kernels/operation.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels {

/// The class of a step without a label.
inline constexpr std::int32_t kCtcBlank = 0;

struct CtcArguments {
  std::size_t batch = 1, steps = 1, classes = 2;
  TypedView<const float> logits;          ///< [batch, steps, classes]
  Targets targets;                        ///< a sequence per sample, of labels in [1, classes), in host memory
  std::span<const std::int32_t> lengths;  ///< [batch], valid steps; empty: all are
  TypedView<float> gradient;              ///< [batch, steps, classes], of the mean over the batch; empty if not wanted
  View<double> scratch;                   ///< ctc_scratch() values, on the device of the logits

  const Device& device() const { return logits.device(); }
};

/// Returns the doubles of scratch memory that a batch needs: those of one sample on the CPU, which takes them one by
/// one, those of all on other devices.
std::size_t ctc_scratch(const Device& device, std::size_t steps, const Targets& targets);

/// Returns the sum over the batch of -log p(labels | logits), by the forward-backward recursion over the labels with
/// blanks between them, in log space and double. O(steps * labels) per sample.
/// @throws DataError naming the sample for a label out of range, or for more labels (and blanks between equal
/// neighbours) than steps: no alignment exists. DeviceError if there is no row for the device.
/// Source: Graves et al., ICML 2006, equations 6 to 16.
extern Operation<double(const CtcArguments& arguments)> ctc;

namespace detail {
/// Returns the number of labels in the longest sequence.
std::size_t longest_sequence(const Targets& targets);
}  // namespace detail

}  // namespace dragonn::kernels
