// SPDX-License-Identifier: MIT
/// Methods: the presets of `compression.method`, each with the sparsifier or quantizer, collective, memory and bucket
/// of a paper.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// A preset. Keys that the config sets override it.
struct Method {
  std::string name;
  std::string summary;
  std::string sparsifier;
  std::string collective = "allgather";
  std::string memory = "residual";
  /// The memory if the optimizer has momentum, instead of `memory`: one that takes the momentum over.
  std::string memory_with_momentum = "residual";
  std::string quantizer = "none";
  BucketScope bucket = BucketScope::kTensor;

  bool is_dense() const { return sparsifier == "none" && quantizer == "none"; }
};

/// Returns the preset of that name. A registered sparsifier or quantizer without a preset of its own is a method too:
/// with the collective allgather and the memory residual (none for an unbiased quantizer). @throws ConfigError listing
/// the valid names.
Method find_method(const std::string& name);

/// Returns the names of all methods, ascending.
std::vector<std::string> method_names();

/// Loads a plug-in (core/plugins.h), whose sparsifiers and quantizers are methods, too. @throws ConfigError, also if
/// one has the name of another method.
void load_plugin_methods(const std::filesystem::path& file, const std::string& named_by);

}  // namespace dragonn::trainer
