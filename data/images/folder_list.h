// SPDX-License-Identifier: MIT
/// FolderList: the image files of a split, in a folder for each class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dragonn::data {

/// The files `folder`/CLASS/*.jpg, *.jpeg and *.png, by class and then by name. Their paths take little more memory
/// than the files' names.
class FolderList {
 public:
  /// Lists a split. @throws ConfigError if the folder is missing or has no class; DataError naming the class whose
  /// folder has no image.
  explicit FolderList(const std::filesystem::path& folder);

  std::size_t size() const { return labels_.size(); }
  /// Returns the names of the classes, ascending: a label is a place in this list.
  const std::vector<std::string>& classes() const { return classes_; }
  std::int32_t label(std::size_t index) const { return labels_[index]; }
  std::filesystem::path path(std::size_t index) const;
  /// Makes the labels those of another split. @throws DataError naming the class that `other` does not have.
  void take_labels_of(const FolderList& other);
  /// Returns a hash of the names of all classes and files.
  std::uint64_t fingerprint() const;

 private:
  void append_class(const std::string& name);

  std::filesystem::path folder_;
  std::vector<std::string> classes_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint64_t> ends_;  ///< of the files' names in names_
  std::string names_;
};

}  // namespace dragonn::data
