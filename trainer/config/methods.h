// SPDX-License-Identifier: MIT
/// Methods: what `compression.method` stands for, the sparsifier or quantizer, collective, memory and bucket of a
/// paper.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// A preset. What the config sets apart wins over it.
struct Method {
  std::string name;
  std::string summary;
  std::string sparsifier;
  std::string collective = "allgather";
  std::string memory = "residual";
  /// Instead of `memory`, where the optimizer has momentum: memories that take the momentum over.
  std::string memory_with_momentum = "residual";
  std::string quantizer = "none";
  BucketScope bucket = BucketScope::kTensor;

  bool is_dense() const { return sparsifier == "none" && quantizer == "none"; }
};

/// The preset of that name. A registered sparsifier or quantizer without a preset of its own is a method too: with the
/// collective allgather and the memory residual (none for an unbiased quantizer). @throws ConfigError listing the valid
/// names.
Method find_method(const std::string& name);

/// Ascending.
std::vector<std::string> method_names();

}  // namespace dragonn::trainer
