// SPDX-License-Identifier: MIT
/// Safetensors: files of named tensors, as users of PyTorch exchange weights (github.com/huggingface/safetensors).
///
/// A file is the header's length (8 bytes, little-endian), the header (JSON: by name the type, the shape and the place
/// of each tensor, and texts under `__metadata__`), and the values, row by row and little-endian. Tensors fill the rest
/// of the file without holes and without overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/pieces.h"

namespace dragonn {

/// A tensor in the memory of a file's reader or writer.
struct FileTensor {
  std::string name;
  std::string type;  ///< "F32", "BF16", "I64", ...
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// Returns the bytes of an element of each type that the format defines; 0 for other types.
std::uint64_t element_bytes(const std::string& type);

/// Texts about a file's tensors, by key.
using FileMetadata = std::map<std::string, std::string>;

/// The content of a file, read and checked as a whole.
class SafetensorsFile {
 public:
  /// Reads a file. Nothing in it is believed: lengths and places are compared with the file's size before memory is
  /// reserved. Tensors of types that are not known here keep their bytes. @throws ConfigError if there is no such file;
  /// DataError, one line with the file and the tensor, if it is damaged.
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// Reads the bytes of a file, which outlive this object. @param name stands for the file in errors.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& name);

  /// Returns the tensors in the order of their places. Their bytes live as long as this object.
  const std::vector<FileTensor>& tensors() const { return tensors_; }
  const FileMetadata& metadata() const { return metadata_; }

 private:
  std::vector<std::byte> bytes_;
  FileMetadata metadata_;
  std::vector<FileTensor> tensors_;
};

/// Returns the beginning of a file, up to its values: the header and its length.
std::string safetensors_header(std::span<const FileTensor> tensors, const FileMetadata& metadata);
/// Returns what a file consists of, the tensors in the given order and where they lie.
Pieces safetensors_pieces(std::span<const FileTensor> tensors, const FileMetadata& metadata);
/// Returns the bytes of such a file.
std::vector<std::byte> safetensors_bytes(std::span<const FileTensor> tensors, const FileMetadata& metadata);

}  // namespace dragonn
