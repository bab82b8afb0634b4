// SPDX-License-Identifier: MIT
#include "layers/models/model_shapes.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace dragonn::layers {

void require_classes(std::string_view model, const ModelContext& context) {
  if (context.classes < 2)
    throw ConfigError(fmt::format("model {} for {} classes: it needs at least 2", model, context.classes));
}

void require_image(std::string_view model, const ModelContext& context, int halvings) {
  // Halving rounds up: s is down to one pixel after h halvings unless s > 2^h.
  require_image_side(model, context, halvings == 0 ? 1 : (std::int64_t{1} << (halvings - 1)) + 1);
}

void require_image_side(std::string_view model, const ModelContext& context, std::int64_t smallest) {
  require_classes(model, context);
  const Shape& sample = context.sample_shape;
  if (sample.rank() != 3 || sample.size() == 0 || std::min(sample[0], sample[1]) < smallest)
    throw ConfigError(
        fmt::format("model {} does not fit samples of shape {}: it needs images of shape [height, width, "
                    "channels], at least [{}, {}, 1]",
                    model, sample.to_string(), smallest, smallest));
}

void require_sequence(std::string_view model, const ModelContext& context, std::size_t rank) {
  require_classes(model, context);
  const Shape& sample = context.sample_shape;
  if (sample.rank() != rank || sample.size() == 0)
    throw ConfigError(fmt::format("model {} does not fit samples of shape {}: it needs sequences of shape {}", model,
                                  sample.to_string(), rank == 1 ? "[steps]" : "[steps, features]"));
}

SettingSpec width_setting() {
  return SettingSpec::number("width", 1.0, "factor of all channel counts; the published model has 1", 0, 16)
      .above_minimum();
}

std::int64_t scaled_channels(std::int64_t channels, double width) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * width));
}

}  // namespace dragonn::layers
