// SPDX-License-Identifier: MIT
/// Model weights: a network's parameters and running moments in safetensors files, in the layouts that PyTorch's users
/// expect (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "layers/network.h"

namespace dragonn::trainer {

/// The origin of weights, as their file states it.
struct WeightsOrigin {
  std::string model;       ///< name in the registry
  std::uint64_t step = 0;  ///< training steps done
};

/// Writes all tensors of a network (Network::tensors()) as float32, in the form of the model's entry if it has one.
/// @throws SystemError.
void export_weights(const std::filesystem::path& path, layers::Network& network, const WeightsOrigin& origin,
                    const std::optional<layers::WeightsForm>& form = {});

/// Reads a file of weights into an initialized network. Tensors that the file lacks keep their values. Accepts float32,
/// float16 and bfloat16, and the names that PyTorch makes of ours: the prefixes "module." and "_orig_mod.", and "_l0"
/// in recurrent layers; or the names of the model's form. @return warnings for the user that list missing and
/// superfluous tensors.
/// @throws ConfigError, DataError (SafetensorsFile); ConfigError that names file and tensor if a shape or type does not
/// fit, if a value is not finite, or if no tensor is the model's. Nothing is changed then.
std::vector<std::string> import_weights(const std::filesystem::path& path, layers::Network& network,
                                        const std::optional<layers::WeightsForm>& form = {});

}  // namespace dragonn::trainer
