// SPDX-License-Identifier: MIT
/// Vector loops of Winograd's convolution over a chunk of tiles, dispatched at run time to the best instruction set.
/// For .cpp files of this folder only.
///
/// A tile is 2 x 2 outputs of a 3 x 3 convolution with strides of 1, and the 4 x 4 inputs that they read. With the
/// matrices B, G and A of F(2 x 2, 3 x 3) (Lavin and Gray, arXiv:1509.09308, section 4.1) a tile is A^T [(G g G^T) *
/// (B^T d B)] A, where * multiplies 16 elements one by one. Over channels each of these 16 positions is a matrix
/// product.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragonn::kernels::detail {

/// The positions of a transformed tile.
inline constexpr std::size_t kWinogradPositions = 16;
/// The channels of a block: inputs and outputs have whole blocks.
inline constexpr std::size_t kWinogradBlock = 16;

/// Images [batch, height, width, channels] with a grid of tiles over them; tile (0, 0) begins at row and column
/// `first`.
struct WinogradImages {
  std::int64_t height = 0, width = 0;
  std::size_t channels = 0;
  std::int64_t first = 0;
  std::int64_t tiles_down = 0, tiles_across = 0;

  std::size_t tiles_per_image() const { return static_cast<std::size_t>(tiles_down * tiles_across); }
};

/// Neighbouring tiles, in the order of [batch, tiles_down, tiles_across].
struct WinogradChunk {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

/// The floats of a transformed chunk: [channels / 16, tiles, positions, 16], so that a tile is written and read in the
/// order of memory, and neighbouring rows of a position's matrix lie at a distance that the compiler knows.
constexpr std::size_t winograd_floats(std::size_t tiles, std::size_t channels) {
  return tiles * channels * kWinogradPositions;
}

/// Transforms the weights [3, 3, inputs, outputs] of a block of inputs to packed [positions, inputs, outputs]. With
/// `backward` the packed weights map outputs to inputs, [positions, outputs, inputs], as the gradient of the input
/// needs it.
void winograd_transform_weights(const float* weights, std::size_t inputs, std::size_t outputs, std::size_t block,
                                bool backward, float* packed);
/// Computes B^T d B for the 4 x 4 pixels of every tile; pixels outside of the image are 0. @param zeros [channels]
/// zeros.
void winograd_transform_input(const WinogradImages& images, const WinogradChunk& chunk, const float* input,
                              const float* zeros, float* transformed);
/// Multiplies at every position: product [tiles, outputs] = transformed [tiles, inputs] * packed [inputs, outputs].
void winograd_multiply(const float* transformed, const float* packed, std::size_t tiles, std::size_t inputs,
                       std::size_t outputs, float* product);
/// Computes A^T m A for every tile, plus the bias unless it is null; outputs outside of the image are left out.
void winograd_transform_output(const WinogradImages& images, const WinogradChunk& chunk, const float* product,
                               const float* bias, float* output);
/// Computes A y A^T for the 2 x 2 pixels of every tile.
void winograd_transform_output_gradient(const WinogradImages& images, const WinogradChunk& chunk,
                                        const float* output_gradient, const float* zeros, float* transformed);
/// Adds at every position the product of [inputs, tiles] and [tiles, outputs] to sums [positions, inputs, outputs].
void winograd_accumulate(const float* transformed_input, const float* transformed_gradient, std::size_t tiles,
                         std::size_t inputs, std::size_t outputs, float* sums);
/// Computes G^T u G of a block of inputs, where u adds up `groups` sums in ascending order.
/// @param gradient [3, 3, inputs, outputs], of which that block is written.
void winograd_transform_weights_gradient(const float* sums, std::size_t groups, std::size_t inputs, std::size_t outputs,
                                         std::size_t block, float* gradient);

}  // namespace dragonn::kernels::detail
