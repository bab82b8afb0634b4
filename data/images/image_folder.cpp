// SPDX-License-Identifier: MIT
/// The data set `image_folder`: JPEG and PNG files in a folder for each class, as ImageNet's; read while training goes
/// on.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/folder.h"
#include "data/images/image_cache.h"
#include "data/images/image_dataset.h"
#include "data/images/image_file.h"
#include "data/share_items.h"

namespace dragonn::data {
namespace {

constexpr std::int64_t kRgb = 3;
/// The proportions of a random crop, and the attempts to find one within the image: Szegedy et al., arXiv:1409.4842,
/// section 6, as torchvision's RandomResizedCrop carries it out.
constexpr double kMinRatio = 3.0 / 4, kMaxRatio = 4.0 / 3;
constexpr int kAttempts = 10;

/// The steps of an image on its way into a batch.
struct ImageRules {
  std::int64_t side = 0;
  std::int64_t evaluation_resize = 0;
  bool augment = true;
  double smallest_area = 0;
  std::array<PixelTable, kRgb> tables{};  ///< per channel
  std::size_t threads = 1;
  bool skips = false;
};

/// The part of an image that a sample shows.
struct Crop {
  Region region;
  bool mirrored = false;
};

/// Returns the largest part in the middle whose proportions are allowed.
Region central_crop(ImageSize size) {
  Region region{0, 0, size.height, size.width};
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  if (ratio < kMinRatio) region.height = std::llround(static_cast<double>(size.width) / kMinRatio);
  if (ratio > kMaxRatio) region.width = std::llround(static_cast<double>(size.height) * kMaxRatio);
  region.top = (size.height - region.height) / 2;
  region.left = (size.width - region.width) / 2;
  return region;
}

std::int64_t draw_below(std::int64_t bound, Rng& rng) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(bound)));
}

Region draw_region(ImageSize size, double smallest_area, Rng& rng) {
  const auto area = static_cast<double>(size.height * size.width);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double target = area * (smallest_area + (1 - smallest_area) * rng.uniform_double());
    const double low = std::log(kMinRatio), high = std::log(kMaxRatio);
    const double ratio = std::exp(low + (high - low) * rng.uniform_double());
    const std::int64_t width = std::llround(std::sqrt(target * ratio));
    const std::int64_t height = std::llround(std::sqrt(target / ratio));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    const std::int64_t top = draw_below(size.height - height + 1, rng);
    return {top, draw_below(size.width - width + 1, rng), height, width};
  }
  return central_crop(size);
}

bool is_image_name(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

/// Returns the names in a folder that `wanted` takes, ascending: the order of a folder is the file system's.
template <class Wanted>
std::vector<std::string> names_in(const std::filesystem::path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (wanted(item)) names.push_back(item.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// The files `folder`/CLASS/*.jpg, *.jpeg and *.png, by class and then by name. Their paths take little more memory
/// than the files' names.
class FolderList {
 public:
  /// Lists a split. @throws ConfigError if the folder is missing or has no class; DataError naming the class whose
  /// folder has no image.
  explicit FolderList(const std::filesystem::path& folder) : folder_(folder) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
      throw ConfigError(fmt::format(
          "{}: no such folder: data.path must name a folder with train/CLASS/ and val/CLASS/, of .jpg, .jpeg or .png",
          folder.string()));
    }
    classes_ = names_in(folder, [](const auto& item) { return item.is_directory(); });
    if (classes_.empty()) {
      throw ConfigError(fmt::format("{}: no class: it must have a folder of images for each", folder.string()));
    }
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      const std::filesystem::path place = folder / classes_[label];
      const auto files = names_in(place, [](const auto& item) { return is_image_name(item.path()); });
      if (files.empty()) {
        throw DataError(fmt::format("{}: an empty class: it has no .jpg, .jpeg or .png", place.string()));
      }
      for (const std::string& file : files) {
        names_ += file;
        ends_.push_back(names_.size());
        labels_.push_back(static_cast<std::int32_t>(label));
      }
    }
  }

  std::size_t size() const { return labels_.size(); }
  /// Returns the number of classes, which are numbered by ascending name.
  int classes() const { return static_cast<int>(classes_.size()); }
  std::int32_t label(std::size_t index) const { return labels_[index]; }
  std::filesystem::path path(std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return folder_ / classes_[static_cast<std::size_t>(labels_[index])] / names_.substr(begin, ends_[index] - begin);
  }
  /// Makes the labels those of another split. @throws DataError naming the class that `other` does not have.
  void take_labels_of(const FolderList& other) {
    std::vector<std::int32_t> new_labels;
    for (const std::string& name : classes_) {
      const auto found = std::ranges::lower_bound(other.classes_, name);
      if (found == other.classes_.end() || *found != name) {
        throw DataError(
            fmt::format("{}: a class that {} does not have", (folder_ / name).string(), other.folder_.string()));
      }
      new_labels.push_back(static_cast<std::int32_t>(found - other.classes_.begin()));
    }
    for (std::int32_t& label : labels_) label = new_labels[static_cast<std::size_t>(label)];
    classes_ = other.classes_;
  }
  /// Returns a hash of the names of all classes and files.
  std::uint64_t fingerprint() const {
    std::string text = names_ + '/';
    for (const std::string& name : classes_) text += name + '/';
    const std::array parts{hash_bytes(std::as_bytes(std::span(text))), hash_bytes(std::as_bytes(std::span(labels_))),
                           hash_bytes(std::as_bytes(std::span(ends_)))};
    return hash_bytes(std::as_bytes(std::span(parts)));
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> classes_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint64_t> ends_;  ///< of the files' names in names_
  std::string names_;
};

/// The images of one split.
class ImageFolder final : public SampleDataset {
 public:
  /// @param cached the split's first image in the cache.
  ImageFolder(FolderList files, std::int64_t limit, const ImageRules& rules, std::shared_ptr<const ImageCache> cache,
              std::size_t cached)
      : files_(std::move(files)),
        size_(limit == 0 ? files_.size() : std::min(files_.size(), static_cast<std::size_t>(limit))),
        rules_(rules),
        cache_(std::move(cache)),
        cached_(cached) {}

  std::size_t size() const override { return size_; }
  Shape sample_shape() const override { return {rules_.side, rules_.side, kRgb}; }
  int classes() const override { return files_.classes(); }
  void read(std::size_t index, Rng* augmentation, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    Workplace place;
    if (const auto label = read(index, augmentation, place, sample, kNoRank)) labels.push_back(*label);
  }

  /// The memory of a thread that reads images.
  struct Workplace {
    ImageReader reader;
    std::vector<std::uint8_t> pixels;
  };
  /// Reads an image into `sample`. Other errors than its being bad are thrown. @param augmentation null for evaluation.
  /// @return its label; nothing if it is bad and to be skipped: the first time its fault is logged.
  std::optional<std::int32_t> read(std::size_t index, Rng* augmentation, Workplace& place, std::span<float> sample,
                                   int rank) const {
    const std::size_t file = index * files_.size() / size_;  // with a limit, every class has its share
    place.pixels.resize(sample.size());
    try {
      read_pixels(file, augmentation, place.reader, place.pixels);
    } catch (const DataError& error) {
      if (!rules_.skips) throw;
      report(file, error, rank);
      return std::nullopt;
    }
    for (std::size_t i = 0; i < sample.size(); i += kRgb) {
      for (std::size_t c = 0; c < kRgb; ++c) sample[i + c] = rules_.tables[c][place.pixels[i + c]];
    }
    return files_.label(file);
  }
  std::size_t threads() const { return rules_.threads; }

 private:
  std::unique_ptr<SampleReader> reader(int rank) const override;
  void read_pixels(std::size_t file, Rng* augmentation, ImageReader& reader, std::vector<std::uint8_t>& pixels) const {
    if (augmentation == nullptr || !rules_.augment) {
      const RgbView image = part(file, reader, [](ImageSize size) { return Region{0, 0, size.height, size.width}; });
      const ImageSize resized = with_shorter_side(image.size, rules_.evaluation_resize);
      const auto begin = [&](std::int64_t length) {  // rounded as torchvision's CenterCrop does
        return std::llrint(static_cast<double>(length - rules_.side) / 2);
      };
      const Region window{begin(resized.height), begin(resized.width), rules_.side, rules_.side};
      reader.resampler.resize(image, resized, window, false, pixels);
      return;
    }
    const RgbView image =
        part(file, reader, [&](ImageSize size) { return draw_region(size, rules_.smallest_area, *augmentation); });
    const bool mirrored = augmentation->below(2) == 1;
    const Region window{0, 0, rules_.side, rules_.side};
    reader.resampler.resize(image, {rules_.side, rules_.side}, window, mirrored, pixels);
  }

  template <class Choose>
  RgbView part(std::size_t file, ImageReader& reader, const Choose& choose) const {
    if (cache_ == nullptr) return reader.read(files_.path(file), choose);
    const RgbView image = cache_->image(cached_ + file);
    if (image.size.height == 0) {
      throw DataError(fmt::format("{}: it was damaged when the cache was made", files_.path(file).string()));
    }
    return image.part(choose(image.size));
  }

  void report(std::size_t file, const DataError& error, int rank) const {
    const std::lock_guard lock(mutex_);
    if (!reported_.insert(file).second) return;
    log::warning(rank, "a bad image is left out (data.bad_samples): {}", error.what());
  }

  FolderList files_;
  std::size_t size_;
  ImageRules rules_;
  std::shared_ptr<const ImageCache> cache_;  // shared by the splits
  std::size_t cached_;
  mutable std::mutex mutex_;
  mutable std::set<std::size_t> reported_;
};

/// Reads the images of a batch on several threads.
class FolderReader final : public SampleReader {
 public:
  FolderReader(const ImageFolder& images, int rank) : images_(images), rank_(rank), workplaces_(images.threads()) {}

  void read(std::span<const std::uint32_t> samples, const Augmentation* augmentation, Batch& batch) override {
    const auto row = [&](std::size_t place) {
      return batch.inputs.host().subspan(place * batch.sample_size, batch.sample_size);
    };
    labels_.assign(samples.size(), std::nullopt);
    share_items(workplaces_.size(), samples.size(), [&](std::size_t place, std::size_t thread) {
      std::optional<std::int32_t>& label = labels_[place];
      if (augmentation == nullptr) {
        label = images_.read(samples[place], nullptr, workplaces_[thread], row(place), rank_);
        return;
      }
      // All ranks train on the same number of samples, so the next good image takes the place of a bad one.
      for (std::size_t tried = 0; tried < images_.size() && !label; ++tried) {
        Rng stream = augmentation->stream(samples[place]);
        label =
            images_.read((samples[place] + tried) % images_.size(), &stream, workplaces_[thread], row(place), rank_);
      }
      if (!label) throw DataError("no image is left: all are bad");
    });
    for (std::size_t place = 0; place < samples.size(); ++place) {
      if (!labels_[place]) continue;  // a bad image: those behind it move up
      if (place != batch.count) std::ranges::copy(row(place), row(batch.count).begin());
      batch.labels.push_back(*labels_[place]);
      ++batch.count;
    }
  }

 private:
  const ImageFolder& images_;
  int rank_;
  std::vector<ImageFolder::Workplace> workplaces_;   ///< one for each thread
  std::vector<std::optional<std::int32_t>> labels_;  ///< of the batch that is read
};

std::unique_ptr<SampleReader> ImageFolder::reader(int rank) const {
  return std::make_unique<FolderReader>(*this, rank);
}

/// Returns a list of one number for each channel.
std::array<float, kRgb> per_channel(const Settings& settings, const std::string& key) {
  const std::vector<double>& numbers = settings.numbers(key);
  if (numbers.size() != kRgb) {
    throw ConfigError(fmt::format("data.{}: {} numbers: should be 3, for red, green and blue", key, numbers.size()));
  }
  return {static_cast<float>(numbers[0]), static_cast<float>(numbers[1]), static_cast<float>(numbers[2])};
}

/// Returns the shorter side of an image in evaluation. Its default is torchvision's proportion: 256 for 224, 342 for
/// 299.
std::int64_t evaluation_resize(const Settings& settings) {
  const std::int64_t side = settings.integer("side"), given = settings.integer("evaluation_resize");
  if (given == 0) return (16 * side + 7) / 14;  // 8/7, rounded
  if (given >= side) return given;
  throw ConfigError(fmt::format(
      "data.evaluation_resize = {}: should be 0 (8/7 of data.side), or at least data.side, {}", given, side));
}

/// Returns a warning where evaluation sees little of an image, as with a small side and a large shorter side.
std::vector<std::string> small_crop(const ImageRules& rules) {
  if (2 * rules.side >= rules.evaluation_resize) return {};
  return {
      fmt::format("data.evaluation_resize = {}: evaluation sees the middle {} pixels (data.side) of a shorter side of "
                  "{}, less than half; evaluation_resize = 0 takes 8/7 of side",
                  rules.evaluation_resize, rules.side, rules.evaluation_resize)};
}

ImageRules rules_of(const Settings& settings) {
  ImageRules rules{.side = settings.integer("side"),
                   .evaluation_resize = evaluation_resize(settings),
                   .augment = settings.flag("augment"),
                   .smallest_area = settings.number("smallest_area"),
                   .threads = static_cast<std::size_t>(settings.integer("decode_threads")),
                   .skips = settings.text("bad_samples") == "skip"};
  const bool normalize = settings.flag("normalize");
  const auto mean = per_channel(settings, "mean"), deviation = per_channel(settings, "deviation");
  for (std::size_t c = 0; c < rules.tables.size(); ++c) {
    if (!(deviation[c] > 0)) throw ConfigError(fmt::format("data.deviation: {}: should be above 0", deviation[c]));
    rules.tables[c] = pixel_table(normalize ? ChannelMoments{mean[c], deviation[c]} : ChannelMoments{});
  }
  return rules;
}

/// Opens the cache of both splits, the training images first.
std::shared_ptr<const ImageCache> open_cache(const FolderList& train, const FolderList& test, const ImageRules& rules,
                                             const std::string& path, BadSamples& bad) {
  const ImageCacheRules cache_rules{
      .images = train.size() + test.size(),
      .shorter_side = rules.evaluation_resize,
      .fingerprint = stream_key(train.fingerprint(), "image cache", {test.fingerprint()}),
      .threads = rules.threads,
      .path = [&](std::size_t i) { return i < train.size() ? train.path(i) : test.path(i - train.size()); },
      .fault = [&](const DataError& fault) { bad.accept([&] { throw fault; }); }};
  return std::make_shared<const ImageCache>(path, cache_rules);
}

DatasetSplits load(const Settings& settings, const std::string& path, std::uint64_t /*seed*/) {
  require_own_folder(path, "image_folder");
  const ImageRules rules = rules_of(settings);
  const std::filesystem::path folder = path;
  FolderList train(folder / "train"), test(folder / "val");
  test.take_labels_of(train);
  BadSamples bad(settings);
  std::shared_ptr<const ImageCache> cache;
  if (!settings.text("cache").empty()) cache = open_cache(train, test, rules, settings.text("cache"), bad);
  const std::size_t train_files = train.size();
  DatasetSplits splits;
  splits.train =
      std::make_shared<const ImageFolder>(std::move(train), settings.integer("train_limit"), rules, cache, 0);
  splits.test =
      std::make_shared<const ImageFolder>(std::move(test), settings.integer("test_limit"), rules, cache, train_files);
  splits.notes = bad.notes("images");
  splits.warnings = small_crop(rules);
  return splits;
}

SettingSpecs specs() {
  return {
      SettingSpec::integer("side", 224, "rows and columns of a sample, in pixels", 1, 4096),
      SettingSpec::integer("evaluation_resize", 0,
                           "shorter side of an image in evaluation, in pixels, before its middle is cut out; at least "
                           "side; 0: 8/7 of side, 256 for 224",
                           0, 8192),
      SettingSpec::flag("augment", true,
                        "true: random resized crop, and horizontal flip; false: the middle, as in evaluation"),
      SettingSpec::number("smallest_area", 0.08, "smallest random crop, as a share of the image's area", 0, 1)
          .above_minimum(),
      SettingSpec::flag("normalize", true, "true: subtract mean and divide by deviation"),
      {"mean", std::vector<double>{0.485, 0.456, 0.406}, "means of red, green and blue, for pixels in [0, 1]"},
      {"deviation", std::vector<double>{0.229, 0.224, 0.225}, "standard deviations of red, green and blue"},
      SettingSpec::integer("decode_threads", 2,
                           "threads of each worker that decode images; results do not depend on it", 1, 256),
      bad_samples_setting("files that are damaged or too large (in training, the next good image takes the place)"),
      SettingSpec::text("cache", "",
                        "file of decoded images with shorter sides of evaluation_resize, memory-mapped; made by the "
                        "first run; empty: decode the files in every epoch"),
      SettingSpec::integer("train_limit", 0, "use only N training images, spread evenly over the list; 0: all", 0),
      SettingSpec::integer("test_limit", 0, "use only N test images, spread evenly over the list; 0: all", 0),
  };
}

const Registration<DatasetEntry> registration{
    {{"image_folder", "JPEG and PNG files as train/CLASS/* and val/CLASS/*, ImageNet's layout",
      "Deng et al., ImageNet: A Large-Scale Hierarchical Image Database, 2009", specs()},
     load}};

}  // namespace
}  // namespace dragonn::data
