// SPDX-License-Identifier: MIT
/// Helpers of the data tests: files with given bytes, registered data sets, errors as text.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "data/folder.h"
#include "data/sample_dataset.h"
#include "tests/support/text.h"

namespace dragonn::data {

using Bytes = std::vector<std::uint8_t>;
using Overrides = std::vector<std::pair<std::string, SettingValue>>;

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

inline DatasetSplits load_dataset(const std::string& name, const std::filesystem::path& folder,
                                  const Overrides& overrides = {}, std::uint64_t seed = 1) {
  const DatasetEntry& entry = Registry<DatasetEntry>::instance().at(name);
  Settings settings(entry.settings);
  for (const auto& [key, value] : overrides) settings.set(key, value);
  return entry.load(settings, folder.string(), seed);
}

/// The policy that leaves bad samples out.
inline BadSamples skipping() {
  Settings settings({bad_samples_setting("samples")});
  settings.set("bad_samples", std::string("skip"));
  return BadSamples(settings);
}

/// One sample of a data set of samples, by value.
struct Sample {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
};

inline Sample read(const Dataset& dataset, std::size_t index, Rng* augmentation = nullptr) {
  Sample sample{std::vector<float>(dataset.sample_shape().size()), {}};
  dynamic_cast<const SampleDataset&>(dataset).read(index, augmentation, sample.values, sample.labels);
  return sample;
}

inline std::vector<float> read_sample(const Dataset& dataset, std::size_t index, Rng* augmentation = nullptr) {
  return read(dataset, index, augmentation).values;
}

inline std::int32_t read_label(const Dataset& dataset, std::size_t index) {
  return read(dataset, index).labels.at(0);
}

/// The message of the Expected that `action` throws, or what happened instead.
template <class Expected, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

/// The folder of real data set `name` below DRAGONN_DATA; empty, with a message, if there is none.
inline std::filesystem::path real_data(const std::string& name) {
  const char* root = std::getenv("DRAGONN_DATA");
  const std::filesystem::path folder = root != nullptr ? std::filesystem::path(root) / name : std::filesystem::path();
  if (!folder.empty() && std::filesystem::is_directory(folder)) return folder;
  MESSAGE("skipped: DRAGONN_DATA does not name a folder with " << name);
  return {};
}

using dragonn::test::contains;

}  // namespace dragonn::data
