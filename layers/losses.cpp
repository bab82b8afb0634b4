// SPDX-License-Identifier: MIT
/// The losses: softmax cross-entropy of one class per sample or time step, sets of classes, and CTC.
#include <algorithm>

#include "core/buffer.h"
#include "layers/layer.h"
#include "layers/loss.h"

namespace dragonn::layers {
namespace {

Loss cross_entropy(TargetKind targets, std::size_t rank) {
  const auto plan = [=](const Device&, const Shape& output, std::size_t classes) -> LossPlan {
    return [=, columns = extent(output, rank - 1)](const LossPass& pass) {
      const LossResult loss = kernels::softmax_cross_entropy(
          pass.outputs, pass.targets.labels, {classes, pass.label_smoothing, columns, pass.count}, pass.gradient);
      if (targets == TargetKind::kClass && loss.count != pass.targets.labels.size())
        throw DataError(fmt::format("label {} of a sample: valid are 0 to {}", kIgnoredLabel, classes - 1));
      return loss;
    };
  };
  return {"this loss", targets, rank, plan, /*sums_rows=*/true};
}

}  // namespace

Loss softmax_cross_entropy_loss() {
  return cross_entropy(TargetKind::kClass, 2);
}

Loss sequence_cross_entropy_loss() {
  return cross_entropy(TargetKind::kClassPerStep, 3);
}

Loss multi_label_loss() {
  return {"the multi-label loss", TargetKind::kClassSet, 2,
          [](const Device&, const Shape&, std::size_t classes) -> LossPlan {
            return [=](const LossPass& pass) {
              return kernels::multi_label(pass.outputs, pass.targets, classes, pass.gradient);
            };
          }};
}

Loss ctc_loss() {
  return {"the CTC loss", TargetKind::kClassSequence, 3,
          [](const Device& device, const Shape& output, std::size_t classes) -> LossPlan {
            return [=, batch = extent(output, 0), steps = extent(output, 1),
                    scratch = std::make_shared<Buffer<double>>(0, device)](const LossPass& pass) -> LossResult {
              scratch->resize_discard(kernels::ctc_scratch(scratch->device(), steps, pass.targets));
              const double sum = kernels::ctc(
                  {batch, steps, classes, pass.outputs, pass.targets, pass.lengths, pass.gradient, scratch->view()});
              return {sum, 0, batch};
            };
          }};
}

std::size_t loss_chunk_rows(std::int64_t columns) {
  constexpr std::size_t kFloats = std::size_t{32} << 18, kRowsMultiple = 8;
  const std::size_t rows = kFloats / static_cast<std::size_t>(columns);
  return std::max(kRowsMultiple, rows / kRowsMultiple * kRowsMultiple);
}

}  // namespace dragonn::layers
