// SPDX-License-Identifier: MIT
/// The losses: softmax cross-entropy of one class per sample or time step, sets of classes, and CTC.
#include "core/buffer.h"
#include "layers/layer.h"
#include "layers/loss.h"

namespace dragonn::layers {
namespace {

Loss cross_entropy(TargetKind targets, std::size_t rank) {
  return {"this loss", targets, rank, [=](const Device&, const Shape& output) -> LossPlan {
            return
                [classes = extent(output, rank - 1), per_sample = targets == TargetKind::kClass](const LossPass& pass) {
                  const LossResult loss = kernels::softmax_cross_entropy(pass.outputs, pass.targets.labels, classes,
                                                                         pass.label_smoothing, pass.gradient);
                  if (per_sample && loss.count != pass.targets.labels.size())
                    throw DataError(fmt::format("label {} of a sample: valid are 0 to {}", kIgnoredLabel, classes - 1));
                  return loss;
                };
          }};
}

}  // namespace

Loss softmax_cross_entropy_loss() {
  return cross_entropy(TargetKind::kClass, 2);
}

Loss sequence_cross_entropy_loss() {
  return cross_entropy(TargetKind::kClassPerStep, 3);
}

Loss multi_label_loss() {
  return {"the multi-label loss", TargetKind::kClassSet, 2, [](const Device&, const Shape& output) -> LossPlan {
            return [classes = extent(output, 1)](const LossPass& pass) {
              return kernels::multi_label(pass.outputs, pass.targets, classes, pass.gradient);
            };
          }};
}

Loss ctc_loss() {
  return {"the CTC loss", TargetKind::kClassSequence, 3, [](const Device& device, const Shape& output) -> LossPlan {
            return [batch = extent(output, 0), steps = extent(output, 1), classes = extent(output, 2),
                    scratch = std::make_shared<Buffer<double>>(0, device)](const LossPass& pass) -> LossResult {
              scratch->resize_discard(kernels::ctc_scratch(scratch->device(), steps, pass.targets));
              const double sum = kernels::ctc(
                  {batch, steps, classes, pass.outputs, pass.targets, pass.lengths, pass.gradient, scratch->view()});
              return {sum, 0, batch};
            };
          }};
}

}  // namespace dragonn::layers
