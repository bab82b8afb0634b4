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

}  // namespace

void ImageStore::keep_first(std::int64_t limit) {
  if (limit <= 0 || static_cast<std::size_t>(limit) >= count()) return;
  labels.resize(static_cast<std::size_t>(limit));
  pixels.resize(count() * image_size());
  labels.shrink_to_fit();
  pixels.shrink_to_fit();
}

ImageStore ImageStore::take_last(std::int64_t images) {
  const std::size_t left = count() - static_cast<std::size_t>(images);
  ImageStore last{height, width, channels, {}, {}};
  last.labels.assign(labels.begin() + static_cast<std::ptrdiff_t>(left), labels.end());
  last.pixels.assign(pixels.begin() + static_cast<std::ptrdiff_t>(left * image_size()), pixels.end());
  keep_first(static_cast<std::int64_t>(left));
  return last;
}

SettingSpecs image_settings(bool augment_default) {
  return {
      {"augment", augment_default,
       "true: random crop after padding by 4 pixels, and horizontal flip if that keeps the class"},
      {"normalize", true, "true: subtract the mean and divide by the standard deviation of each channel"},
      SettingSpec::integer(
          "resize", 0, "enlarge images to this many rows and columns, after the crop; 0: their stored size", 0, 4096)};
}

SettingSpecs image_file_settings(bool augment_default) {
  const auto limit = [](const std::string& split) {
    return SettingSpec::integer(split + "_limit", 0, "use only the first N " + split + " images; 0: all", 0);
  };
  SettingSpecs specs = image_settings(augment_default);
  specs.insert(specs.begin(),
               {limit("train"), limit("test"),
                SettingSpec::integer("validation", 0,
                                     "evaluate on the last N training images, which are then not trained "
                                     "on, in place of the test images; 0: on the test images",
                                     0)});
  return specs;
}

PixelTable pixel_table(const ChannelMoments& moments) {
  PixelTable table;
  for (std::size_t pixel = 0; pixel < table.size(); ++pixel) {
    table[pixel] = (static_cast<float>(pixel) / 255.0f - moments.mean) / moments.deviation;
  }
  return table;
}

ImageDataset::ImageDataset(ImageStore store, const ImageTraits& traits, const Settings& settings)
    : store_(std::move(store)),
      classes_(traits.classes),
      augment_(settings.flag("augment")),
      mirrors_(traits.mirrors),
      side_(settings.integer("resize")) {
  for (const ChannelMoments& moments : traits.moments) {
    tables_.push_back(pixel_table(settings.flag("normalize") ? moments : ChannelMoments{}));
  }
  DRAGONN_CHECK(tables_.size() == static_cast<std::size_t>(store_.channels), "moments of {} channels for images of {}",
                tables_.size(), store_.channels);
  DRAGONN_CHECK(store_.pixels.size() == store_.count() * store_.image_size(), "{} pixels for {} images",
                store_.pixels.size(), store_.count());
  if (side_ != 0 && side_ < std::max(store_.height, store_.width)) {
    throw ConfigError(fmt::format("data.resize = {}: should be 0, or at least the {} x {} pixels of the images", side_,
                                  store_.height, store_.width));
  }
  rows_ = between(store_.height, side_);
  columns_ = between(store_.width, side_);
}

ImageDataset::Placement ImageDataset::draw_placement(Rng& rng) const {
  Placement placement;
  placement.row_offset = static_cast<std::int64_t>(rng.below(2 * kPadding + 1)) - kPadding;
  placement.column_offset = static_cast<std::int64_t>(rng.below(2 * kPadding + 1)) - kPadding;
  placement.mirrored = mirrors_ && rng.below(2) == 1;
  return placement;
}

Shape ImageDataset::sample_shape() const {
  if (side_ != 0) return {side_, side_, store_.channels};
  return {store_.height, store_.width, store_.channels};
}

std::vector<ImageDataset::Between> ImageDataset::between(std::int64_t stored, std::int64_t side) {
  std::vector<Between> places;
  for (std::int64_t i = 0; i < side; ++i) {
    // Pixels are squares: output i covers i to i + 1 of `side`, and its middle lies between the middles of two.
    const double middle =
        (static_cast<double>(i) + 0.5) * static_cast<double>(stored) / static_cast<double>(side) - 0.5;
    const double inside = std::clamp(middle, 0.0, static_cast<double>(stored - 1));
    const auto low = static_cast<std::int64_t>(inside);
    places.push_back({low, std::min(low + 1, stored - 1), static_cast<float>(inside - static_cast<double>(low))});
  }
  return places;
}

std::uint8_t ImageDataset::pixel(const std::uint8_t* plane, const Placement& place, std::int64_t row,
                                 std::int64_t column) const {
  // The crop is mirrored, not the image: so the offset applies after counting from the right.
  const std::int64_t y = row + place.row_offset;
  const std::int64_t x = (place.mirrored ? store_.width - 1 - column : column) + place.column_offset;
  const bool black = y < 0 || y >= store_.height || x < 0 || x >= store_.width;
  return black ? 0 : plane[y * store_.width + x];
}

void ImageDataset::write_enlarged(const std::uint8_t* planes, const Placement& place, std::span<float> sample) const {
  const auto mix = [](float low, float high, float weight) { return low + (high - low) * weight; };
  for (std::int64_t channel = 0; channel < store_.channels; ++channel) {
    const std::uint8_t* const plane = planes + channel * store_.height * store_.width;
    const PixelTable& table = tables_[static_cast<std::size_t>(channel)];
    const auto value = [&](std::int64_t row, std::int64_t column) { return table[pixel(plane, place, row, column)]; };
    float* out = sample.data() + channel;
    for (const Between& y : rows_) {
      for (const Between& x : columns_) {
        const float low = mix(value(y.low, x.low), value(y.low, x.high), x.weight);
        const float high = mix(value(y.high, x.low), value(y.high, x.high), x.weight);
        *out = mix(low, high, y.weight);
        out += store_.channels;
      }
    }
  }
}

void ImageDataset::read(std::size_t index, Rng* augmentation, std::span<float> sample,
                        std::vector<std::int32_t>& labels) const {
  DRAGONN_CHECK(index < size() && sample.size() == sample_shape().size(), "image {} of {} into {} floats, not {}",
                index, size(), sample.size(), sample_shape().size());
  const Placement place = augment_ && augmentation != nullptr ? draw_placement(*augmentation) : Placement{};
  const std::uint8_t* plane = store_.pixels.data() + index * store_.image_size();
  labels.push_back(store_.labels[index]);
  if (side_ != 0) return write_enlarged(plane, place, sample);
  for (std::int64_t channel = 0; channel < store_.channels; ++channel, plane += store_.height * store_.width) {
    const PixelTable& table = tables_[static_cast<std::size_t>(channel)];
    float* out = sample.data() + channel;
    for (std::int64_t row = 0; row < store_.height; ++row) {
      for (std::int64_t column = 0; column < store_.width; ++column, out += store_.channels) {
        *out = table[pixel(plane, place, row, column)];
      }
    }
  }
}

DatasetSplits make_image_splits(ImageStore train, ImageStore test, const ImageTraits& traits,
                                const Settings& settings) {
  if (const std::int64_t images = settings.integer("validation"); images > 0) {
    if (static_cast<std::size_t>(images) >= train.count()) {
      throw ConfigError(
          fmt::format("data.validation = {}: expected fewer than the {} training images", images, train.count()));
    }
    test = train.take_last(images);
  }
  train.keep_first(settings.integer("train_limit"));
  test.keep_first(settings.integer("test_limit"));
  return {std::make_shared<const ImageDataset>(std::move(train), traits, settings),
          std::make_shared<const ImageDataset>(std::move(test), traits, settings)};
}

}  // namespace dragonn::data
