// SPDX-License-Identifier: MIT
/// ValueCodec: writes the values of a whole bucket in a few bits per entry, and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/registry.h"
#include "kernels/gradient/gradient_pass.h"

namespace dragonn::codec {

/// The step's data for a codec: the keys of its random numbers.
struct CodeContext {
  std::uint64_t seed = 1;  ///< the run's
  std::uint64_t step = 0;  ///< from 0
  int rank = 0;
  std::uint32_t bucket = 0;  ///< index of the bucket
};

/// A codec for one bucket of n elements. For every step: plan, (the memory runs the pass), encode, (the codes of all
/// ranks are gathered), decode, and subtract if a memory keeps the error. It has no state besides its settings.
/// Views are of the device that it is made for; codes need no alignment. @throws ShapeError for a code of another
/// length.
class ValueCodec {
 public:
  virtual ~ValueCodec() = default;

  /// Returns the request for the one pass over (residual, gradient).
  virtual kernels::PassRequest plan() const { return {}; }
  /// Returns the length of every code: it depends on n and the settings alone.
  virtual std::size_t code_bytes() const = 0;
  /// Writes the code of acc. @param acc [n].  @param code code_bytes() long, overwritten.
  virtual void encode(const CodeContext& context, const kernels::PassResult& pass, View<const float> acc,
                      View<std::byte> code) = 0;
  /// Decodes codes and adds them up in their order: the same bits on every rank that has the same codes. [n].
  /// @param codes any number of them, back to back.
  virtual void decode(View<const std::byte> codes, View<float> sum) const = 0;
  /// Subtracts: values <- values - decoded code, element by element. [n].
  virtual void subtract(View<const std::byte> code, View<float> values) const = 0;
};

/// A code, and the codec that reads it.
struct Code {
  const ValueCodec* codec = nullptr;  ///< null if there is no code
  View<const std::byte> bytes = {};
};

struct ValueCodecEntry : RegistryEntry {
  /// The kind's name in configs: with the sparsifier `all` such a codec is a method of its own, a quantizer.
  static constexpr const char* kKind = "quantizer";
  /// The expectation of the decoded values is acc: no error feedback. Otherwise a memory keeps the error.
  bool unbiased = false;
  /// Makes a codec for buckets of `numel` elements on `device`.
  std::function<std::unique_ptr<ValueCodec>(const Settings&, std::size_t numel, const Device& device)> make;
};

}  // namespace dragonn::codec
