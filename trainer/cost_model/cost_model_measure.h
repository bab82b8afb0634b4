// SPDX-License-Identifier: MIT
/// Profile measurement: takes the times of selections and decodings as a training step makes them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "codec/list_codec.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/buffer.h"
#include "core/settings.h"
#include "core/view.h"
#include "exchange/bucket_form.h"
#include "trainer/cost_model/cost_model.h"

namespace dragonn::trainer {

/// The exchange whose parts are timed.
struct ProfiledExchange {
  Component sparsifier = {};
  Component quantizer{exchange::kNoQuantizer,
                      {}};  ///< else the codes of whole buckets are timed, and there is no sparsifier
  /// The code of lists whose time is measured beside: it is no part of the other times.
  codec::CodecChoice coding{{"smallest", {}}, {codec::kRawValues, {}}};
  Component memory = {};
  bool decode_dense = false;  ///< form of the sum: n floats, or one sparse list
  double density = 1;
  int ranks = 1;
  float momentum = 0;  ///< coefficient for memories that own the momentum
  bool nesterov = false;
  Device device = {};  ///< device of the gradients

  bool quantizes() const { return quantizer.name != exchange::kNoQuantizer; }
  ProfileKey key(int threads) const;
};

/// The local part of the steps of one rank that sparsifies, as in an exchange whose ranks all select alike. The
/// gradient is that of one matrix, as square as its number of elements allows.
class LocalSelection {
 public:
  LocalSelection(const ProfiledExchange& exchange, std::size_t numel);

  /// Compensates and selects. @param change is given the sparsifier's request, and may change it; may be empty.
  void select(View<const float> gradient, const std::function<void(kernels::PassRequest&)>& change = {});
  /// Settles, and lets the sparsifier observe its counts.
  void finish(const compress::Settlement& settlement);

  /// The entries that the last select() selected.
  const SparseVector& selected() const { return selected_; }
  const compress::Sparsifier& sparsifier() const { return *sparsifier_; }
  /// The entries that a rank is to send.
  std::size_t k() const { return context_.k; }

 private:
  std::size_t numel_;
  Shape shape_;
  compress::SelectContext context_;
  std::unique_ptr<compress::Sparsifier> sparsifier_;
  std::unique_ptr<compress::Memory> memory_;
  std::vector<std::uint64_t> counts_;  // of the ranks' selections
  SparseVector selected_;
};

/// The number of runs of each measurement.
struct ProfileRuns {
  int ahead = 3;     ///< that do not count
  int counted = 10;  ///< of which the median is taken
};

/// Local. Measures on the calling thread and its OpenMP threads.
/// Needs 4 to 12 bytes per element for the memory, and 8 bytes per entry of each of the ranks' lists. Work on a GPU is
/// waited for; lists are decoded on the host, where messages are, and codes of whole buckets on the device.
/// @param gradient of the size to measure, 1 element or more, on the exchange's device.
ProfileRow measure_profile(const ProfiledExchange& exchange, View<const float> gradient, const ProfileRuns& runs = {});

/// Returns values as heavy-tailed as gradients are (Laplace), the same at every call.
Buffer<float> profile_gradient(std::size_t numel, const Device& device = {});

/// Returns the powers of `factor` times 1024 elements that bracket the sizes from `smallest` to `largest`, not above
/// `limit`; at least two.
std::vector<std::size_t> profile_sizes(std::size_t smallest, std::size_t largest, std::size_t factor,
                                       std::size_t limit);

}  // namespace dragonn::trainer
