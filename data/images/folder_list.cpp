// SPDX-License-Identifier: MIT
#include "data/images/folder_list.h"

#include <algorithm>
#include <cctype>
#include <span>

#include <fmt/format.h>

#include "core/error.h"
#include "core/hash.h"

namespace dragonn::data {
namespace {

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

}  // namespace

FolderList::FolderList(const std::filesystem::path& folder) : folder_(folder) {
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
  for (const std::string& name : classes_) append_class(name);
}

void FolderList::append_class(const std::string& name) {
  const auto files = names_in(folder_ / name, [](const auto& item) { return is_image_name(item.path()); });
  if (files.empty()) {
    throw DataError(fmt::format("{}: an empty class: it has no .jpg, .jpeg or .png", (folder_ / name).string()));
  }
  const auto label = static_cast<std::int32_t>(&name - classes_.data());
  for (const std::string& file : files) {
    names_ += file;
    ends_.push_back(names_.size());
    labels_.push_back(label);
  }
}

std::filesystem::path FolderList::path(std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
  return folder_ / classes_[static_cast<std::size_t>(labels_[index])] / names_.substr(begin, ends_[index] - begin);
}

void FolderList::take_labels_of(const FolderList& other) {
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

std::uint64_t FolderList::fingerprint() const {
  std::string text = names_ + '/';
  for (const std::string& name : classes_) text += name + '/';
  const std::uint64_t parts[] = {hash_bytes(std::as_bytes(std::span(text))),
                                 hash_bytes(std::as_bytes(std::span(labels_))),
                                 hash_bytes(std::as_bytes(std::span(ends_)))};
  return hash_bytes(std::as_bytes(std::span(parts)));
}

}  // namespace dragonn::data
