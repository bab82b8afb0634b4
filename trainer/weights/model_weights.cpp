// SPDX-License-Identifier: MIT
#include "trainer/weights/model_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/file.h"
#include "core/printable.h"
#include "core/program.h"
#include "core/safetensors.h"
#include "kernels/devices.h"
#include "kernels/typed_view.h"

namespace dragonn::trainer {
namespace {

using layers::ModelTensor;
using Form = std::optional<layers::WeightsForm>;

constexpr std::size_t kConvolutionAxes = 4;
constexpr const char* kFormatVersion = "1";

/// A tensor of ours in a file.
struct FilePlace {
  std::string name;
  bool transposed = false;
};

/// Returns a tensor's name with its layer `from` replaced by `to`; nothing if it is another layer's. A '#' in both
/// stands for the same number.
std::optional<std::string> renamed(std::string_view name, std::string_view from, std::string_view to) {
  const std::size_t dot = std::min(name.rfind('.'), name.size()), mark = from.find('#');
  const std::string_view layer = name.substr(0, dot), before = from.substr(0, mark);
  if (mark == std::string_view::npos)
    return layer == from ? std::optional(fmt::format("{}{}", to, name.substr(dot))) : std::nullopt;
  const std::string_view after = from.substr(mark + 1);
  if (layer.size() <= before.size() + after.size() || !layer.starts_with(before) || !layer.ends_with(after)) return {};
  const std::string_view number = layer.substr(before.size(), layer.size() - before.size() - after.size());
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return {};
  std::string result(to);
  if (const std::size_t at = result.find('#'); at != std::string::npos) result.replace(at, 1, number);
  return result.append(name.substr(dot));
}

/// Returns the place of a tensor of ours in a file of that form.
FilePlace place_in(const Form& form, const std::string& own) {
  if (form) {
    for (const layers::LayerName& layer : form->layers)
      if (const auto name = renamed(own, layer.own, layer.other)) return {*name, layer.transposed};
  }
  return {own};
}

/// Returns the shape of a tensor in a file: convolution weights are [outputs, inputs, height, width].
std::vector<std::uint64_t> file_shape(const Shape& shape, const FilePlace& place) {
  std::vector<std::uint64_t> extents(shape.extents().begin(), shape.extents().end());
  if (extents.size() == kConvolutionAxes) return {extents[3], extents[2], extents[0], extents[1]};
  if (place.transposed) std::ranges::reverse(extents);
  return extents;
}

/// Calls `visit(place in the file, place here)` for every element. A file has the channels of an image before its
/// pixels, in convolution weights and where a last axis is a flattened image.
template <class Visit>
void for_each_element(const ModelTensor& tensor, const FilePlace& file, Visit&& visit) {
  const std::size_t size = tensor.shape.size();
  if (file.transposed && tensor.shape.rank() == 2) {
    const auto outputs = static_cast<std::size_t>(tensor.shape[0]), inputs = size / outputs;
    for (std::size_t input = 0; input < inputs; ++input)
      for (std::size_t output = 0; output < outputs; ++output) visit(input * outputs + output, output * inputs + input);
    return;
  }
  if (tensor.shape.rank() == kConvolutionAxes) {
    // [window, inputs, outputs] here, [outputs, inputs, window] there.
    const auto window = static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]);
    const auto inputs = static_cast<std::size_t>(tensor.shape[2]), outputs = static_cast<std::size_t>(tensor.shape[3]);
    std::size_t place = 0;
    for (std::size_t output = 0; output < outputs; ++output)
      for (std::size_t input = 0; input < inputs; ++input)
        for (std::size_t tap = 0; tap < window; ++tap) visit(place++, (tap * inputs + input) * outputs + output);
    return;
  }
  const std::size_t features = tensor.image.size();
  const std::size_t channels =
      tensor.image.rank() == 0 ? 1 : static_cast<std::size_t>(tensor.image[tensor.image.rank() - 1]);
  const std::size_t pixels = features / channels;
  for (std::size_t row = 0; row < size; row += features)
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        visit(row + channel * pixels + pixel, row + pixel * channels + channel);
}

float from_float16(std::uint16_t bits) {
  constexpr int kMovedBits = 13;          // a float has 23 bits of fraction instead of 10
  constexpr float kMovedBias = 0x1p112F;  // and a bias of 127 instead of 15
  constexpr std::uint32_t kInfinity = 0x7f800000;
  const float magnitude = std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0x7fffU) << kMovedBits) * kMovedBias;
  const std::uint32_t value = std::bit_cast<std::uint32_t>(magnitude) | (magnitude >= 0x1p16F ? kInfinity : 0);
  return std::bit_cast<float>(value | static_cast<std::uint32_t>(bits & 0x8000U) << 16);
}

/// Returns element `index` of values that may lie at any address.
template <class T>
T element(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

using ReadElement = float (*)(std::span<const std::byte> bytes, std::size_t index);

/// Returns the function that reads an element of a type of a file; null for a type that parameters cannot have.
ReadElement reader_of(std::string_view type) {
  if (type == "F32") return element<float>;
  if (type == "F16") {
    return [](std::span<const std::byte> bytes, std::size_t index) {
      return from_float16(element<std::uint16_t>(bytes, index));
    };
  }
  if (type == "BF16") {
    return [](std::span<const std::byte> bytes, std::size_t index) {
      return kernels::from_bf16(element<kernels::Bf16>(bytes, index));
    };
  }
  return nullptr;
}

/// Returns our name of a tensor that a file of that form names `name`, empty for one that has no place here. PyTorch
/// numbers the layers of a recurrent module, of which each has one here; modules for several devices, and compiled
/// ones, put a prefix before all names.
std::string own_name(const Form& form, std::string name) {
  for (const std::string_view prefix : {"module.", "_orig_mod."}) {
    while (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  if (form) {
    const auto without_prefix = [&](std::string_view full) {
      return full.substr(full.starts_with(form->prefix) ? form->prefix.size() : 0);
    };
    for (const layers::LayerName& layer : form->layers)
      if (const auto own = renamed(without_prefix(name), without_prefix(layer.other), layer.own))
        return layer.own.empty() ? "" : *own;
    return "?" + name;  // even if it is one of ours, whose layout is another one
  }
  constexpr std::string_view kFirstLayer = "_l0", kReverse = "_reverse";
  const std::size_t at = name.rfind(kFirstLayer);
  if (at == std::string::npos) return name;
  const std::string_view rest = std::string_view(name).substr(at + kFirstLayer.size());
  if (rest.empty() || rest == kReverse) name.erase(at, kFirstLayer.size());
  return name;
}

/// Finds the tensors of a file by our names, and checks them. Its errors name the file.
class WeightsFile {
 public:
  WeightsFile(const std::filesystem::path& path, const Form& form, const std::vector<ModelTensor>& tensors)
      : path_(path), file_(path) {
    for (const FileTensor& tensor : file_.tensors()) {
      const std::string name = own_name(form, tensor.name);
      if (name.empty()) continue;
      const auto [place, added] = by_name_.emplace(name, &tensor);
      if (!added) fail(tensor, fmt::format("it is '{}' here, as '{}' is, too", place->first, place->second->name));
    }
    if (form) share_tied(form->tied + ".weight", form->owner + ".weight", tensors);
  }

  /// Returns the tensor that is `wanted`, null if there is none. @throws ConfigError if its shape or type does not fit.
  const FileTensor* find(const ModelTensor& wanted, const FilePlace& place) const {
    const auto found = by_name_.find(wanted.name);
    if (found == by_name_.end()) return nullptr;
    const FileTensor& tensor = *found->second;
    if (const auto expected = file_shape(wanted.shape, place); tensor.shape != expected) {
      fail(tensor, fmt::format("its shape is [{}], and the model's is [{}]", fmt::join(tensor.shape, ", "),
                               fmt::join(expected, ", ")));
    }
    if (reader_of(tensor.type) == nullptr) {
      fail(tensor, fmt::format("its type is {}; expected F32, F16 or BF16", excerpt(tensor.type)));
    }
    return &tensor;
  }

  const std::map<std::string, const FileTensor*>& by_name() const { return by_name_; }

  /// @throws ConfigError that names the file and the tensor.
  [[noreturn]] void fail(const FileTensor& tensor, const std::string& reason) const {
    throw ConfigError(fmt::format("{}: tensor '{}': {}", path_.string(), excerpt(tensor.name), reason));
  }

 private:
  /// Lets one tensor stand for both names. A model that ties them has no `tied`: what a file has there must be a copy.
  void share_tied(const std::string& tied, const std::string& owner, const std::vector<ModelTensor>& tensors) {
    for (const auto& [lacking, other] : {std::pair(owner, tied), std::pair(tied, owner)})
      if (const auto found = by_name_.find(other); found != by_name_.end()) by_name_.emplace(lacking, found->second);
    const auto copy = by_name_.find(tied);
    if (copy == by_name_.end() || std::ranges::count(tensors, tied, &ModelTensor::name) > 0) return;
    const FileTensor &first = *copy->second, &second = *by_name_.at(owner);
    if (first.type != second.type || !std::ranges::equal(first.bytes, second.bytes))
      fail(first, fmt::format("it differs from '{}', and the model has one weight for both", excerpt(second.name)));
    by_name_.erase(copy);
  }

  std::filesystem::path path_;
  SafetensorsFile file_;
  std::map<std::string, const FileTensor*> by_name_;
};

/// Returns the place of an element of a tensor: "[0, 3]".
std::string place_of(std::size_t element, const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> place(shape.size());
  for (std::size_t axis = shape.size(); axis > 0; --axis) {
    place[axis - 1] = element % shape[axis - 1];
    element /= shape[axis - 1];
  }
  return fmt::format("[{}]", fmt::join(place, ", "));
}

/// Checks a tensor whose type and shape fit. @throws ConfigError if a value is NaN or infinite.
void require_finite(const WeightsFile& file, const FileTensor& tensor) {
  const ReadElement read = reader_of(tensor.type);
  const std::size_t size =
      std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::size_t{1}, std::multiplies<>());
  for (std::size_t i = 0; i < size; ++i) {
    const float value = read(tensor.bytes, i);
    if (std::isfinite(value)) continue;
    file.fail(tensor, fmt::format("its value at {} is {}; weights must be finite", place_of(i, tensor.shape),
                                  std::isnan(value) ? "NaN"
                                  : value > 0       ? "infinity"
                                                    : "-infinity"));
  }
}

/// Returns the number of names, and the names: the first of them if they are many.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMax = 50;
  std::vector<std::string> shown;
  for (const std::string& name : names | std::views::take(kMax)) shown.push_back(excerpt(name));
  return fmt::format("{} ({}{})", names.size(), fmt::join(shown, ", "), names.size() > kMax ? ", ..." : "");
}

/// Returns warnings for tensors that only one of model and file has.
std::vector<std::string> differences(const std::filesystem::path& path, const std::vector<ModelTensor>& tensors,
                                     const WeightsFile& file, const Form& form) {
  std::vector<std::string> missing, extra, warnings;
  for (const ModelTensor& tensor : tensors) {
    if (!file.by_name().contains(tensor.name)) missing.push_back(place_in(form, tensor.name).name);
  }
  for (const auto& [name, tensor] : file.by_name()) {
    // Batch norm's counter in PyTorch has no part in a network's results.
    const bool is_counter = name.ends_with(".num_batches_tracked");
    if (!is_counter && std::ranges::count(tensors, name, &ModelTensor::name) == 0) extra.push_back(tensor->name);
  }
  if (missing.size() == tensors.size()) {
    throw ConfigError(fmt::format("{}: none of its tensors is one of the model's, which are {}; it has {}",
                                  path.string(), listed(missing), listed(extra)));
  }
  if (!missing.empty()) {
    warnings.push_back(fmt::format("{} lacks tensors of the model, which keep their initial values: {}", path.string(),
                                   listed(missing)));
  }
  if (!extra.empty()) {
    warnings.push_back(fmt::format("{} has tensors that the model does not have: {}", path.string(), listed(extra)));
  }
  return warnings;
}

}  // namespace

void export_weights(const std::filesystem::path& path, layers::Network& network, const WeightsOrigin& origin,
                    const Form& form) {
  const std::vector<ModelTensor> tensors = network.tensors();
  std::vector<std::vector<float>> values;
  std::vector<FileTensor> entries;
  kernels::HostMirror<float> mirror;
  for (const ModelTensor& tensor : tensors) {
    const std::span<const float> here = mirror.of(tensor.values);
    std::vector<float>& there = values.emplace_back(here.size());
    const FilePlace place = place_in(form, tensor.name);
    for_each_element(tensor, place, [&](std::size_t file, std::size_t own) { there[file] = here[own]; });
    entries.push_back({place.name, "F32", file_shape(tensor.shape, place), std::as_bytes(std::span(there))});
  }
  const FileMetadata metadata{{"format", "pt"},  // the layouts are PyTorch's; some readers ask for this
                              {"format_version", kFormatVersion},
                              {"model", origin.model},
                              {"program", fmt::format("dragonn {}", version())},
                              {"step", fmt::format("{}", origin.step)}};
  write_file_atomically(path, safetensors_bytes(entries, metadata));
}

std::vector<std::string> import_weights(const std::filesystem::path& path, layers::Network& network, const Form& form) {
  const std::vector<ModelTensor> tensors = network.tensors();
  const WeightsFile file(path, form, tensors);
  std::vector<const FileTensor*> sources;
  for (const ModelTensor& tensor : tensors) sources.push_back(file.find(tensor, place_in(form, tensor.name)));
  std::vector<std::string> warnings = differences(path, tensors, file, form);
  for (const FileTensor* source : sources) {
    if (source != nullptr) require_finite(file, *source);
  }
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (sources[i] == nullptr) continue;
    const auto read = reader_of(sources[i]->type);
    values.resize(tensors[i].values.size());
    for_each_element(tensors[i], place_in(form, tensors[i].name),
                     [&](std::size_t place, std::size_t own) { values[own] = read(sources[i]->bytes, place); });
    kernels::transfer(View<const float>(values), tensors[i].values);
  }
  return warnings;
}

}  // namespace dragonn::trainer
