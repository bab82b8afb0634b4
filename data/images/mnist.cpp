// SPDX-License-Identifier: MIT
/// The data sets `mnist` and `fashion_mnist`: four IDX files, each plain or with .gz.
#include <filesystem>
#include <string>

#include "data/folder.h"
#include "data/images/idx.h"
#include "data/images/image_dataset.h"

namespace dragonn::data {
namespace {

constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;

/// Returns the plain file if it is there, else the compressed one.
std::filesystem::path find_file(const std::string& folder, const std::string& file, const std::string& name) {
  const std::filesystem::path plain = std::filesystem::path(folder) / file;
  const std::filesystem::path compressed = plain.string() + ".gz";
  if (std::filesystem::exists(plain)) return plain;
  if (std::filesystem::exists(compressed)) return compressed;
  throw missing_data(plain.string() + "[.gz]: no such file", name, folder);
}

ImageStore read_split(const std::string& folder, const std::string& split, const std::string& name) {
  return read_idx_images(find_file(folder, split + "-images-idx3-ubyte", name),
                         find_file(folder, split + "-labels-idx1-ubyte", name), kSide, kSide, kClasses);
}

DatasetEntry entry(const std::string& name, const std::string& summary, const std::string& source,
                   const ImageTraits& traits) {
  const auto load = [name, traits](const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
    require_folder(folder, name);
    return make_image_splits(read_split(folder, "train", name), read_split(folder, "t10k", name), traits, settings);
  };
  return {{name, summary, source, image_file_settings(false)}, true, {kSide, kSide, 1}, kClasses, load};
}

// Moments over all pixels of the 60,000 training images.
const Registration<DatasetEntry> mnist{entry("mnist", "28x28 grey digits of 10 classes, IDX files",
                                             "LeCun et al., Gradient-based learning applied to document recognition",
                                             {kClasses, {{0.1307f, 0.3081f}}, false})};
const Registration<DatasetEntry> fashion_mnist{
    entry("fashion_mnist", "28x28 grey pieces of clothing of 10 classes, IDX files", "Xiao et al., arXiv:1708.07747",
          {kClasses, {{0.2860f, 0.3530f}}, true})};

}  // namespace
}  // namespace dragonn::data
