// SPDX-License-Identifier: MIT
/// The data sets `xc` and `synthetic_xc`: points with any number of labels out of very many (extreme classification).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/folder.h"
#include "data/sample_dataset.h"
#include "data/xc_file.h"

namespace dragonn::data {
namespace {

/// The number of network inputs that a sparse feature is spread over.
constexpr std::size_t kSpread = 4;

/// Adds `value` times the pattern of `key` to a sample: kSpread inputs, drawn with their signs from the seed.
void add_pattern(std::uint64_t seed, const char* purpose, std::uint64_t key, float value, std::span<float> sample) {
  Rng rng(seed, purpose, {key});
  for (std::size_t i = 0; i < kSpread; ++i) {
    float& input = sample[rng.below(sample.size())];
    input += (rng() & 1) != 0 ? value : -value;
  }
}

/// Scales a sample to a Euclidean norm with which its values are about 1, like an image's; zeros stay zeros.
void normalize(std::span<float> sample) {
  double squares = 0;
  for (const float value : sample) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double scale = std::sqrt(static_cast<double>(sample.size())) / std::sqrt(squares);
  for (float& value : sample) value = static_cast<float>(value * scale);
}

/// The projection is part of the data set: it does not change with the run's seed.
constexpr std::uint64_t kProjectionSeed = 1;

/// The points of a file, whose features are mapped to the inputs by a fixed sparse projection.
class PointDataset final : public SampleDataset {
 public:
  PointDataset(SparsePoints points, std::int64_t inputs) : points_(std::move(points)), inputs_(inputs) {}

  std::size_t size() const override { return points_.size(); }
  Shape sample_shape() const override { return {inputs_}; }
  int classes() const override { return points_.label_count(); }
  TargetKind target_kind() const override { return TargetKind::kClassSet; }
  void read(std::size_t index, Rng* /*augmentation*/, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    std::ranges::fill(sample, 0.0f);
    for (const SparseFeature& feature : points_.features(index)) {
      add_pattern(kProjectionSeed, "xc projection", feature.index, feature.value, sample);
    }
    normalize(sample);
    const std::span<const std::int32_t> own = points_.labels(index);
    labels.insert(labels.end(), own.begin(), own.end());
  }

 private:
  SparsePoints points_;
  std::int64_t inputs_;
};

/// The shape of a generated set.
struct SyntheticXc {
  std::int64_t inputs = 0;
  std::int64_t labels = 0;
  std::int64_t labels_per_point = 0;
  double exponent = 0;  ///< label r is drawn in proportion to (r + 1)^-exponent
  double noise = 0;     ///< deviation of the noise on every input; the patterns' is 1
};

/// Generated points: each draws labels from a power law and is the sum of their patterns, plus noise. Nothing is stored
/// but the law.
class SyntheticXcDataset final : public SampleDataset {
 public:
  SyntheticXcDataset(const SyntheticXc& spec, std::size_t size, std::uint64_t split, std::uint64_t seed)
      : spec_(spec), size_(size), split_(split), seed_(seed) {
    double sum = 0;
    for (std::int64_t label = 0; label < spec.labels; ++label) {
      sum += std::pow(static_cast<double>(label + 1), -spec.exponent);
      cumulative_.push_back(sum);
    }
  }

  std::size_t size() const override { return size_; }
  Shape sample_shape() const override { return {spec_.inputs}; }
  int classes() const override { return static_cast<int>(spec_.labels); }
  TargetKind target_kind() const override { return TargetKind::kClassSet; }
  void read(std::size_t index, Rng* /*augmentation*/, std::span<float> sample,
            std::vector<std::int32_t>& labels) const override {
    Rng rng(seed_, "synthetic xc", {split_, index});
    const auto begin = static_cast<std::ptrdiff_t>(labels.size());
    for (std::int64_t i = 0; i < spec_.labels_per_point; ++i) labels.push_back(draw(rng));
    std::sort(labels.begin() + begin, labels.end());
    labels.erase(std::unique(labels.begin() + begin, labels.end()), labels.end());
    std::ranges::fill(sample, 0.0f);
    for (auto label = labels.begin() + begin; label != labels.end(); ++label) {
      add_pattern(seed_, "synthetic xc pattern", static_cast<std::uint64_t>(*label), 1.0f, sample);
    }
    normalize(sample);
    for (float& value : sample) value += static_cast<float>(spec_.noise) * rng.normal();
    normalize(sample);
  }

 private:
  std::int32_t draw(Rng& rng) const {
    const double place = rng.uniform_double() * cumulative_.back();
    const auto found = std::ranges::upper_bound(cumulative_, place);
    return static_cast<std::int32_t>(std::min(found, cumulative_.end() - 1) - cumulative_.begin());
  }

  SyntheticXc spec_;
  std::size_t size_;
  std::uint64_t split_;
  std::uint64_t seed_;
  std::vector<double> cumulative_;
};

SettingSpec inputs_spec() {
  return SettingSpec::integer("inputs", 4096, "number of network inputs that the features are projected to", 1,
                              1 << 24);
}

DatasetSplits load_files(const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
  require_own_folder(folder, "xc");
  BadSamples bad(settings);
  const auto read = [&](const std::string& split) {
    SparsePoints points = read_xc_file(std::filesystem::path(folder) / settings.text(split + "_file"), bad);
    points.keep_first(static_cast<std::size_t>(settings.integer(split + "_limit")));
    return points;
  };
  SparsePoints train = read("train"), test = read("test");
  if (train.label_count() != test.label_count() || train.feature_count() != test.feature_count()) {
    throw DataError(fmt::format("{}: {} has {} features and {} labels, {} has {} and {}", folder,
                                settings.text("train_file"), train.feature_count(), train.label_count(),
                                settings.text("test_file"), test.feature_count(), test.label_count()));
  }
  const std::int64_t inputs = settings.integer("inputs");
  return {std::make_shared<const PointDataset>(std::move(train), inputs),
          std::make_shared<const PointDataset>(std::move(test), inputs), bad.notes("points")};
}

DatasetSplits load_synthetic(const Settings& settings, const std::string& /*path*/, std::uint64_t seed) {
  const SyntheticXc spec{settings.integer("inputs"), settings.integer("labels"), settings.integer("labels_per_point"),
                         settings.number("exponent"), settings.number("noise")};
  const auto make = [&](std::uint64_t split, const char* samples) {
    return std::make_shared<const SyntheticXcDataset>(spec, static_cast<std::size_t>(settings.integer(samples)), split,
                                                      seed);
  };
  return {make(0, "train_samples"), make(1, "test_samples")};
}

const Registration<DatasetEntry> files{
    {{"xc",
      "points with sparse features and many labels each, in the Extreme Classification Repository's format",
      "Bhatia et al., The extreme classification repository, 2016",
      {inputs_spec(), SettingSpec::text("train_file", "train.txt", "file in data.path to train on"),
       SettingSpec::text("test_file", "test.txt", "file in data.path to evaluate on"),
       SettingSpec::integer("train_limit", 0, "use only the first N training points; 0: all", 0),
       SettingSpec::integer("test_limit", 0, "use only the first N test points; 0: all", 0),
       bad_samples_setting("points whose line is damaged, or has a label or feature out of range")}},
     load_files}};
const Registration<DatasetEntry> synthetic{
    {{"synthetic_xc",
      "generated points with many labels each, by default with the shape of Wiki10-31K; needs no files",
      "",
      {inputs_spec(), SettingSpec::integer("train_samples", 14146, "training points", 1),
       SettingSpec::integer("test_samples", 6616, "test points", 1),
       SettingSpec::integer("labels", 30938, "labels", 1, 1 << 24),
       SettingSpec::integer("labels_per_point", 19, "labels drawn for each point; repeated labels count once", 1,
                            10000),
       SettingSpec::number("exponent", 1.0,
                           "exponent of the power law: the r-th label is drawn in proportion to r^-exponent", 0, 10),
       SettingSpec::number("noise", 0.5,
                           "standard deviation of the noise on each input; that of a label's pattern is 1", 0, 100)}},
     load_synthetic,
     /*needs_path=*/false}};

}  // namespace
}  // namespace dragonn::data
