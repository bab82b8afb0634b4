// SPDX-License-Identifier: MIT
#include "data/images/image_dataset.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::data {
namespace {

/// Black pixels on each side before a crop: He et al. (arXiv:1512.03385), section 4.2.
constexpr std::int64_t kPadding = 4;

SettingSpec limit_spec(const std::string& split) {
  return {split + "_limit", std::int64_t{0}, "use only the first N " + split + " images; 0: all", 0};
}

}  // namespace

void ImageStore::keep_first(std::int64_t limit) {
  if (limit <= 0 || static_cast<std::size_t>(limit) >= count()) return;
  labels.resize(static_cast<std::size_t>(limit));
  pixels.resize(count() * image_size());
  labels.shrink_to_fit();
  pixels.shrink_to_fit();
}

SettingSpecs image_settings(bool augment_default) {
  return {{"augment", augment_default,
           "true: random crop after padding by 4 pixels, and horizontal flip where it keeps the class"},
          {"normalize", true, "true: subtract the mean and divide by the standard deviation of each channel"}};
}

SettingSpecs image_file_settings(bool augment_default) {
  SettingSpecs specs{limit_spec("train"), limit_spec("test")};
  for (SettingSpec& spec : image_settings(augment_default)) specs.push_back(std::move(spec));
  return specs;
}

ImageDataset::ImageDataset(ImageStore store, const ImageTraits& traits, const Settings& settings)
    : store_(std::move(store)),
      classes_(traits.classes),
      augment_(settings.flag("augment")),
      mirrors_(traits.mirrors),
      tables_(static_cast<std::size_t>(store_.channels)) {
  DRAGONN_CHECK(traits.moments.size() == tables_.size(), "moments of {} channels for images of {}",
                traits.moments.size(), tables_.size());
  DRAGONN_CHECK(store_.pixels.size() == store_.count() * store_.image_size(), "{} pixels for {} images",
                store_.pixels.size(), store_.count());
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    const ChannelMoments moments = settings.flag("normalize") ? traits.moments[channel] : ChannelMoments{};
    for (std::size_t pixel = 0; pixel < tables_[channel].size(); ++pixel) {
      tables_[channel][pixel] = (static_cast<float>(pixel) / 255.0f - moments.mean) / moments.deviation;
    }
  }
}

ImageDataset::Placement ImageDataset::draw_placement(Rng& rng) const {
  Placement placement;
  placement.row_offset = static_cast<std::int64_t>(rng.below(2 * kPadding + 1)) - kPadding;
  placement.column_offset = static_cast<std::int64_t>(rng.below(2 * kPadding + 1)) - kPadding;
  placement.mirrored = mirrors_ && rng.below(2) == 1;
  return placement;
}

void ImageDataset::read(std::size_t index, Rng* augmentation, std::span<float> sample,
                        std::vector<std::int32_t>& labels) const {
  DRAGONN_CHECK(index < size() && sample.size() == store_.image_size(), "image {} of {} into {} floats, not {}", index,
                size(), sample.size(), store_.image_size());
  const Placement place = augment_ && augmentation != nullptr ? draw_placement(*augmentation) : Placement{};
  const std::int64_t height = store_.height, width = store_.width, channels = store_.channels;
  const std::uint8_t* plane = store_.pixels.data() + index * store_.image_size();
  for (std::int64_t channel = 0; channel < channels; ++channel, plane += height * width) {
    const std::array<float, 256>& table = tables_[static_cast<std::size_t>(channel)];
    float* out = sample.data() + channel;
    for (std::int64_t row = 0; row < height; ++row) {
      const std::int64_t source_row = row + place.row_offset;
      const bool outside = source_row < 0 || source_row >= height;
      for (std::int64_t column = 0; column < width; ++column, out += channels) {
        // The crop is mirrored, not the image: so the offset applies after counting from the right.
        const std::int64_t source = (place.mirrored ? width - 1 - column : column) + place.column_offset;
        const bool black = outside || source < 0 || source >= width;
        *out = table[black ? 0 : plane[source_row * width + source]];
      }
    }
  }
  labels.push_back(store_.labels[index]);
}

DatasetSplits make_image_splits(ImageStore train, ImageStore test, const ImageTraits& traits,
                                const Settings& settings) {
  train.keep_first(settings.integer("train_limit"));
  test.keep_first(settings.integer("test_limit"));
  return {std::make_shared<const ImageDataset>(std::move(train), traits, settings),
          std::make_shared<const ImageDataset>(std::move(test), traits, settings)};
}

}  // namespace dragonn::data
