// SPDX-License-Identifier: MIT
#include "kernels/nn/padded_shortcut.h"

#include <algorithm>

namespace dragonn::kernels {
namespace {

/// Calls copy(input offset, output offset) for every pixel that has an output, with the offsets of its first channel.
template <class Copy>
void for_each_kept_pixel(const PaddedShortcutSpec& spec, const Copy& copy) {
  std::size_t output = 0;
  for (std::size_t image = 0; image < spec.batch; ++image) {
    for (std::size_t row = 0; row < spec.height; row += spec.stride) {
      for (std::size_t column = 0; column < spec.width; column += spec.stride) {
        copy(((image * spec.height + row) * spec.width + column) * spec.channels, output);
        output += spec.output_channels;
      }
    }
  }
}

std::size_t zeros_before(const PaddedShortcutSpec& spec) {
  return (spec.output_channels - spec.channels) / 2;
}

void forward_cpu(const PaddedShortcutSpec& spec, TypedView<const float> input, TypedView<float> output) {
  std::fill_n(output.data(), output.size(), 0.0f);
  for_each_kept_pixel(spec, [&](std::size_t from, std::size_t to) {
    std::copy_n(input.data() + from, spec.channels, output.data() + to + zeros_before(spec));
  });
}

void backward_cpu(const PaddedShortcutSpec& spec, TypedView<const float> output_gradient,
                  TypedView<float> input_gradient) {
  std::fill_n(input_gradient.data(), input_gradient.size(), 0.0f);
  for_each_kept_pixel(spec, [&](std::size_t to, std::size_t from) {
    std::copy_n(output_gradient.data() + from + zeros_before(spec), spec.channels, input_gradient.data() + to);
  });
}

}  // namespace

constinit decltype(padded_shortcut_forward) padded_shortcut_forward("padded_shortcut_forward", forward_cpu);
constinit decltype(padded_shortcut_backward) padded_shortcut_backward("padded_shortcut_backward", backward_cpu);

}  // namespace dragonn::kernels
