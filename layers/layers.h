// SPDX-License-Identifier: MIT
/// Factories of all layers that a model can be built from.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "kernels/nn/activation.h"
#include "kernels/nn/recurrent.h"
#include "layers/layer.h"

namespace dragonn::layers {

/// The rule for the distribution of a linear or convolution layer's first weights.
enum class WeightInit {
  kHeFanIn,        ///< normal, variance 2 / fan in
  kHeFanOut,       ///< normal, variance 2 / fan out
  kXavierUniform,  ///< uniform, variance 2 / (fan in + fan out)
  kFanInUniform,   ///< uniform in +-1 / sqrt(fan in)
};

/// The distribution of first weights: by a rule from the layer's size, or given.
using WeightDistribution = std::variant<WeightInit, Initializer>;

/// The distribution of a bias's first values.
enum class BiasInit {
  kZero,
  kFanInUniform,  ///< uniform in +-1 / sqrt(fan in of the weights)
};

struct LinearSettings {
  std::int64_t outputs = 1;
  bool bias = true;
  WeightDistribution weight_init = WeightInit::kFanInUniform;
  BiasInit bias_init = BiasInit::kZero;
  std::int64_t padding = 0;  ///< the last outputs, whose rows are ParameterSpec::padding
};
/// Linear layer: [batch, (steps,) inputs] to [batch, (steps,) outputs]. Parameters weight [outputs, inputs], bias
/// [outputs].
Layer linear(const LinearSettings& settings);

struct EmbeddingSettings {
  std::int64_t tokens = 1;  ///< valid tokens are 0 to tokens - padding - 1
  std::int64_t width = 1;
  Initializer weight_init = Initializer::normal(1);
  std::int64_t padding = 0;  ///< the last rows that are ParameterSpec::padding
};
/// Embedding: [batch, steps] tokens to [batch, steps, width]. Parameter weight [tokens, width]. A later linear layer
/// that is tied to it shares the weight if it has `width` inputs and `tokens` outputs.
Layer embedding(const EmbeddingSettings& settings);

/// The way in which the two directions of a recurrent layer make one output.
enum class DirectionJoin {
  kConcatenate,  ///< [batch, steps, 2 * hidden]
  kSum,          ///< [batch, steps, hidden]
};

struct RecurrentSettings {
  kernels::Cell cell = kernels::Cell::kLstm;
  std::int64_t hidden = 1;
  bool bidirectional = false;
  DirectionJoin join = DirectionJoin::kConcatenate;
  bool carries_state = false;  ///< the next batch continues this one
  double initial_bound = 0;    ///< first parameters are uniform in +-bound; 0: 1 / sqrt(hidden)
};
/// Recurrent layer: [batch, steps, inputs] to [batch, steps, hidden], with zeros behind the samples' lengths.
/// Parameters of each direction: weight_ih [gates * hidden, inputs], weight_hh [gates * hidden, hidden], bias_ih and
/// bias_hh [gates * hidden]; those of the other direction end in _reverse. @throws ConfigError if that carries state.
Layer recurrent(const RecurrentSettings& settings);

struct ConvolutionSettings {
  std::int64_t outputs = 1;  ///< channels
  kernels::Window vertical, horizontal;
  std::int64_t groups = 1;
  bool bias = false;
  WeightDistribution weight_init = WeightInit::kHeFanOut;
  BiasInit bias_init = BiasInit::kZero;
};
/// Returns the settings for a square window.
ConvolutionSettings square_convolution(std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                                       std::int64_t padding);
/// Convolution: [batch, height, width, channels] to [batch, height', width', outputs]. Parameters weight [kernel
/// height, kernel width, channels / groups, outputs] (HWIO), bias [outputs].
Layer convolution(const ConvolutionSettings& settings);

struct BatchNormSettings {
  bool relu = false;      ///< applies max(0, .) in the same pass
  bool residual = false;  ///< a second input of the output's shape, added before the ReLU
  float epsilon = 1e-5f;
  float momentum = 0.1f;  ///< weight of a new batch in the running statistics
};
/// Normalizes every channel (last axis). Parameters weight (starts at 1), bias; statistics: running mean and variance.
Layer batch_norm(const BatchNormSettings& settings);

/// Normalizes the last axis of every sample and step. Parameters weight (the scale, starts at 1), bias.
Layer layer_norm();

/// Attention: [batch, steps, 3 * width], the queries, keys and values one after the other, to [batch, steps, width]. It
/// uses no step behind a sample's length (the output there is zero), nor later ones if `causal`.
Layer attention(std::int64_t heads, bool causal);

/// Position embedding: adds a learned vector to each step of [batch, steps, width]. Parameter weight [max_steps,
/// width]. It starts as BERT's and ViT's if nothing else is said.
Layer position_embedding(std::int64_t max_steps, const Initializer& weight_init = Initializer::normal(0.02));

/// Transposition: [batch, a, b] to [batch, b, a].
Layer swap_axes();

/// Elementwise activation.
Layer activation(kernels::Activation activation);

/// Sum of two inputs of one shape, cut at 0 if `relu`.
Layer residual_add(bool relu);

/// Pooling of images; `window` applies to both axes. Padding does not count in averages.
Layer max_pooling(const kernels::Window& window);
Layer average_pooling(const kernels::Window& window);
/// Mean of every channel: [batch, height, width, channels] to [batch, 1, 1, channels].
Layer global_average_pooling();

/// Concatenation of the channels of any number of images [batch, height, width, channels] of one size.
Layer concatenate();

/// Factors for whole channels: [batch, height, width, channels] times [batch, channels].
Layer scale_channels();

/// Local response normalization (kernels/nn/channels.h), with Krizhevsky et al.'s numbers (NIPS 2012, section 3.3).
struct LocalResponseSettings {
  std::int64_t size = 5;  ///< channels in a neighbourhood; odd
  float alpha = 5e-4f;    ///< 5 times the paper's, which does not divide by the size
  float beta = 0.75f;
  float k = 2;
};
/// Divides every channel by a power of the squares of its neighbours. @throws ConfigError if the size is even.
Layer local_response(const LocalResponseSettings& settings);

// The next layers are views: the same values under another shape.

/// Flattens [batch, ...] to [batch, product]: images in NHWC order (channels fastest).
Layer flatten();
/// Adds an axis: [batch, steps, features] to [batch, steps, features, 1], an image whose height is time.
Layer add_channel();
/// Merges two axes: [batch, steps, features, channels] to [batch, steps, features * channels].
Layer merge_channels();
/// Turns pixels into steps: [batch, height, width, channels] to [batch, height * width, channels].
Layer merge_pixels();
/// Turns steps into pixels: [batch, steps, channels] to [batch, steps, 1, channels], an image one pixel wide.
Layer steps_to_pixels();

/// Sets the steps of [batch, steps, ...] behind the samples' lengths to zero.
Layer mask_steps();

/// Lookahead convolution of [batch, steps, features]: output t is the sum over j in [0, context] of weight_j * input t
/// + j, feature by feature. The input behind the samples' lengths must be zeros, as recurrent layers leave it.
/// Parameter weight [context + 1, features].
/// Source: Wang et al., "Lookahead convolution layer for unidirectional recurrent neural networks", 2016.
Layer lookahead(std::int64_t context);

/// Dropout: zeroes a share `rate` in [0, 1) of the elements in training. Draws are keyed by (seed, step, rank, layer).
Layer dropout(double rate);

/// The shortcut without parameters: takes every `stride`-th pixel, and pads with channels of zeros on both sides.
Layer padded_shortcut(std::int64_t output_channels, std::int64_t stride);

}  // namespace dragonn::layers
