// SPDX-License-Identifier: MIT
/// ImageDataset: labelled 8-bit images in memory, the base of all image data sets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/settings.h"
#include "data/sample_dataset.h"

namespace dragonn::data {

/// Images in the layout of files: per image `channels` planes, each row by row.
struct ImageStore {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::vector<std::uint8_t> pixels;  ///< [count, channels, height, width]
  std::vector<std::uint8_t> labels;  ///< [count]

  std::size_t image_size() const { return static_cast<std::size_t>(height * width * channels); }
  std::size_t count() const { return labels.size(); }
  /// Forgets all but the first `limit` images; 0 keeps all.
  void keep_first(std::int64_t limit);
  /// Takes the last `images` images out of this store and returns them; fewer than count().
  ImageStore take_last(std::int64_t images);
};

/// Mean and standard deviation of a channel, for pixels scaled to [0, 1].
struct ChannelMoments {
  float mean = 0;
  float deviation = 1;
};

/// The float of every pixel value: (pixel / 255 - mean) / deviation.
using PixelTable = std::array<float, 256>;
PixelTable pixel_table(const ChannelMoments& moments);

/// The differences between image data sets when pixels become floats.
struct ImageTraits {
  int classes = 0;                      ///< at most 256
  std::vector<ChannelMoments> moments;  ///< one per channel
  bool mirrors = true;                  ///< a mirrored image still shows its class (a digit does not)
};

/// Declares the settings of every image data set in memory: augment, normalize, resize.
SettingSpecs image_settings(bool augment_default);
/// Declares the settings of image data sets that read files: train_limit, test_limit, validation, and the above.
SettingSpecs image_file_settings(bool augment_default);

/// Turns a stored image into floats, channels last, by pixel_table(); without `normalize` pixel / 255. With `augment`
/// and a random stream the image is first padded with 4 black pixels on each side and cropped back at a random place,
/// then mirrored with probability 1/2 if the traits allow. With `resize` the result is enlarged to that side,
/// bilinearly.
class ImageDataset final : public SampleDataset {
 public:
  /// @param settings hold image_settings().  @param store has labels below traits.classes.
  ImageDataset(ImageStore store, const ImageTraits& traits, const Settings& settings);

  std::size_t size() const override { return store_.count(); }
  Shape sample_shape() const override;
  int classes() const override { return classes_; }
  void read(std::size_t index, Rng* augmentation, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override;

 private:
  /// The source of an output's pixels: source = output + offset, with columns counted from the right if mirrored.
  struct Placement {
    std::int64_t row_offset = 0;
    std::int64_t column_offset = 0;
    bool mirrored = false;
  };
  Placement draw_placement(Rng& rng) const;
  /// Returns a stored pixel of a plane, at a place of the output of stored size.
  std::uint8_t pixel(const std::uint8_t* plane, const Placement& place, std::int64_t row, std::int64_t column) const;
  void write_enlarged(const std::uint8_t* planes, const Placement& place, std::span<float> sample) const;

  /// The two neighbours that a row or column of an enlarged image lies between.
  struct Between {
    std::int64_t low = 0;
    std::int64_t high = 0;
    float weight = 0;  ///< of the high one
  };
  static std::vector<Between> between(std::int64_t stored, std::int64_t side);

  ImageStore store_;
  int classes_;
  bool augment_;
  bool mirrors_;
  std::int64_t side_;                    ///< of enlarged images; 0: the stored size
  std::vector<Between> rows_, columns_;  ///< [side_]
  std::vector<PixelTable> tables_;       ///< per channel
};

/// Makes both splits, cut to train_limit and test_limit. `settings` hold image_file_settings(). With `validation` the
/// last training images take the place of the test images. @throws ConfigError if no image is left for training.
DatasetSplits make_image_splits(ImageStore train, ImageStore test, const ImageTraits& traits, const Settings& settings);

}  // namespace dragonn::data
