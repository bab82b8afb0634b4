// SPDX-License-Identifier: MIT
/// Checks of whether a model fits its data.
#pragma once

#include <cstdint>
#include <string_view>

#include "layers/network.h"

namespace dragonn::layers {

/// Requires samples to be images that can be halved `halvings` times: before each halving a side must have two pixels.
/// @throws ConfigError naming the model, the sample's shape and what would fit.
void require_image(std::string_view model, const ModelContext& context, int halvings);
/// Requires samples to be images with sides of `smallest` pixels at least. @throws ConfigError likewise.
void require_image_side(std::string_view model, const ModelContext& context, std::int64_t smallest);
/// Requires samples to have `rank` axes, time first: 1 for [steps] of tokens, 2 for [steps, features]. @throws
/// ConfigError naming the model, the sample's shape and what would fit.
void require_sequence(std::string_view model, const ModelContext& context, std::size_t rank);
/// @throws ConfigError if there are fewer than two classes.
void require_classes(std::string_view model, const ModelContext& context);

/// Returns the setting `width` of models that exist in smaller sizes, too.
SettingSpec width_setting();
/// Returns a number of channels times the setting `width`, rounded, and at least 1.
std::int64_t scaled_channels(std::int64_t channels, double width);

}  // namespace dragonn::layers
