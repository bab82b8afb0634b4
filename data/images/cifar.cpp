// SPDX-License-Identifier: MIT
/// The data sets `cifar10` and `cifar100`, in their binary version: records of label bytes and 3 planes of 32x32
/// pixels.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "data/folder.h"
#include "data/images/image_dataset.h"

namespace dragonn::data {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::int64_t kChannels = 3;

/// One of the two formats.
struct CifarFormat {
  std::string name;
  int classes = 0;
  std::size_t label_bytes = 0;  ///< per record; the last one is the label (CIFAR-100 puts the coarse label in front)
  std::vector<ChannelMoments> moments;
  std::string train_file;  ///< empty: all data_batch_*.bin
  std::string test_file;
};

// Moments over all pixels of the 50,000 training images.
const CifarFormat kCifar10{"cifar10",       10, 1, {{0.4914f, 0.2470f}, {0.4822f, 0.2435f}, {0.4465f, 0.2616f}}, "",
                           "test_batch.bin"};
const CifarFormat kCifar100{"cifar100",  100,       2, {{0.5071f, 0.2673f}, {0.4865f, 0.2564f}, {0.4409f, 0.2762f}},
                            "train.bin", "test.bin"};

/// Appends the records of one file. @throws DataError with file and offset.
void append_records(const std::filesystem::path& file, const CifarFormat& format, ImageStore& store) {
  const std::vector<std::byte> bytes = read_file(file);
  const std::size_t record = format.label_bytes + store.image_size();
  const std::size_t count = bytes.size() / record;
  if (count == 0 || bytes.size() % record != 0) {
    throw DataError(fmt::format("{}: truncated: the record at byte {} ends at byte {}, and should have {} bytes",
                                file.string(), count * record, bytes.size(), record));
  }
  store.labels.reserve(store.count() + count);
  store.pixels.reserve(store.pixels.size() + count * store.image_size());
  for (std::size_t begin = 0; begin < bytes.size(); begin += record) {
    const std::size_t label_at = begin + format.label_bytes - 1;
    const auto label = static_cast<std::uint8_t>(bytes[label_at]);
    if (label >= format.classes) {
      throw DataError(fmt::format("{}: label {} at byte {}: {} has labels 0 to {}", file.string(), label, label_at,
                                  format.name, format.classes - 1));
    }
    store.labels.push_back(label);
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data() + label_at + 1);
    store.pixels.insert(store.pixels.end(), pixels, pixels + store.image_size());
  }
}

ImageStore read_files(const std::vector<std::filesystem::path>& files, const CifarFormat& format) {
  ImageStore store{kSide, kSide, kChannels, {}, {}};
  for (const std::filesystem::path& file : files) append_records(file, format, store);
  return store;
}

/// Returns all data_batch_*.bin that exist, by name: a part of the training set is a valid training set.
std::vector<std::filesystem::path> training_batches(const std::string& folder, const std::string& name) {
  std::vector<std::filesystem::path> files;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string file = item.path().filename().string();
    if (file.starts_with("data_batch_") && file.ends_with(".bin")) files.push_back(item.path());
  }
  std::ranges::sort(files);
  if (files.empty()) throw missing_data(folder + ": no data_batch_*.bin in it", name, folder);
  return files;
}

std::filesystem::path required_file(const std::string& folder, const std::string& file, const std::string& name) {
  std::filesystem::path path = std::filesystem::path(folder) / file;
  if (!std::filesystem::exists(path)) throw missing_data(path.string() + ": no such file", name, folder);
  return path;
}

DatasetEntry entry(const CifarFormat& format, const std::string& summary) {
  const auto load = [&format](const Settings& settings, const std::string& folder, std::uint64_t /*seed*/) {
    require_folder(folder, format.name);
    const auto train = format.train_file.empty() ? training_batches(folder, format.name)
                                                 : std::vector{required_file(folder, format.train_file, format.name)};
    const auto test = required_file(folder, format.test_file, format.name);
    return make_image_splits(read_files(train, format), read_files({test}, format), {format.classes, format.moments},
                             settings);
  };
  return {{format.name, summary, "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
           image_file_settings(true)},
          load,
          true,
          {kSide, kSide, kChannels},
          format.classes};
}

const Registration<DatasetEntry> cifar10{entry(kCifar10, "32x32 colour images of 10 classes, binary version")};
const Registration<DatasetEntry> cifar100{
    entry(kCifar100, "32x32 colour images of 100 classes (fine labels), binary version")};

}  // namespace
}  // namespace dragonn::data
