// SPDX-License-Identifier: MIT
/// Vector loops of batch normalization over a piece of rows, dispatched at run time to the best instruction set.
#pragma once

#include <cstddef>

namespace dragonn::kernels::detail {

/// A piece of [rows, channels] data. Pointers to data point at the piece's first row, the others at channel 0.
struct MomentsPiece {
  const float* input = nullptr;
  std::size_t rows = 0;
  std::size_t channels = 0;
  float* mean = nullptr;       ///< of the piece
  float* deviation = nullptr;  ///< sum of squared differences from that mean
};

struct NormalizePiece {
  const float* input = nullptr;
  const float* residual = nullptr;  ///< null if there is none
  std::size_t rows = 0;
  std::size_t channels = 0;
  const float* mean = nullptr;
  const float* factor = nullptr;  ///< scale / standard deviation
  const float* shift = nullptr;
  bool relu = false;
  float* output = nullptr;
};

/// The source from which backward learns which outputs the ReLU cut off.
enum class ReluMask {
  kNone,       ///< no ReLU
  kRecompute,  ///< from the input, as forward computed it
  kOutput,     ///< from the output
};

struct BackwardPiece {
  const float* input = nullptr;
  const float* output = nullptr;  ///< for ReluMask::kOutput
  const float* output_gradient = nullptr;
  const float* other_gradient = nullptr;  ///< added to output_gradient, or null
  std::size_t rows = 0;
  std::size_t channels = 0;
  ReluMask mask = ReluMask::kNone;
  const float* mean = nullptr;
  const float* factor = nullptr;
  const float* shift = nullptr;
};

/// Computes y = max(0, (x - mean) * factor + shift + residual).
void batch_norm_normalize(const NormalizePiece& piece);
void batch_norm_moments(const MomentsPiece& piece);
/// Reduces the gradient g behind the ReLU: sum[c] = sum of g, moment[c] = sum of g * (x - mean). Stores g to `masked`
/// unless it is null.
void batch_norm_reduce(const BackwardPiece& piece, float* sum, float* moment, float* masked);
/// Computes input_gradient = factor * g + (x - mean) * slope + offset.
void batch_norm_input_gradient(const BackwardPiece& piece, const float* slope, const float* offset,
                               float* input_gradient);

}  // namespace dragonn::kernels::detail
