// SPDX-License-Identifier: MIT
/// ExchangeRules: how gradients are exchanged, and which parts fit together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codec/list_codec.h"
#include "comm/nodes.h"
#include "compress/memory.h"
#include "core/settings.h"
#include "exchange/bucket_form.h"
#include "exchange/buckets.h"

namespace dragonn::exchange {

/// The rules by which gradients are exchanged. Names are resolved in the registries; the parts must fit (check_rules
/// below).
struct ExchangeRules {
  BucketRules buckets;
  FusionRules fusion = {};
  Component sparsifier;                   ///< unused without compression and with a quantizer
  Component quantizer{kNoQuantizer, {}};  ///< else buckets are quantized, not sparsified, at any density
  codec::CodecChoice coding = {};         ///< of lists, and of sums where it carries them
  Component collective;
  Component memory;
  bool dct = false;    ///< memories of compressed buckets work on the DCT of tiles (compress/dct_basis.h)
  Component dense;     ///< the collective of dense buckets and of dense phases
  float momentum = 0;  ///< coefficient of the optimizer, for memories that own it
  bool nesterov = false;
  bool folded = false;             ///< lr-folded accumulator: acc = residual + learning_rate * gradient
  bool averages_senders = false;   ///< divide an entry of a sum by the ranks that sent it, not by all
  bool bypass_density_one = true;  ///< exchange dense if k reaches n, instead of running the sparsifier
  std::uint64_t seed = 1;
  /// The shares of the senders (workers, with two levels nodes): what each selects of what it would if all selected as
  /// many, by rank, with a mean of 1. Empty: all select as many. Error feedback keeps the rest, and no form depends on
  /// it.
  std::vector<double> shares = {};
  /// The nodes of the group, if the exchange has two levels (exchange/node_sums.h).
  std::optional<comm::Nodes> nodes = {};

  bool quantizes() const { return buckets.compress && quantizer.name != kNoQuantizer; }
  /// Returns whether buckets are sparsified.
  bool selects() const { return buckets.compress && quantizer.name == kNoQuantizer; }
  /// Returns whether a bucket of which k entries are wanted is exchanged dense instead.
  bool bypasses(std::size_t k, std::size_t numel) const { return selects() && bypass_density_one && k >= numel; }
  /// Returns whether dense buckets are sums of coded values, with the memory that keeps what rounding leaves behind.
  /// Beside sparsified buckets they are exact.
  bool codes_dense() const { return !buckets.compress && coding.is_lossy(); }
};

/// Returns the registered entry of the memory that the rules name.
const compress::MemoryEntry& memory_entry(const ExchangeRules& rules);

/// Returns how many send what they select to each other: the nodes, or with one level the workers.
int senders_of(const ExchangeRules& rules, int world_size);

/// Refuses a sparsifier or quantizer, a memory and a collective that do not fit together. @throws ConfigError listing
/// what fits.
void check_rules(const ExchangeRules& rules);

/// Returns the traits of the sparsifier's selections as the exchange makes use of them: a code of values that carries
/// no sums needs lists, also of indices that all ranks know.
SelectionTraits exchanged_selection(const ExchangeRules& rules);

/// Returns the density at which a rank selects, by its share.
double density_of(const ExchangeRules& rules, int rank, double density);

/// Returns k of a bucket: the entries that a rank is to send at this density.
std::size_t target_of(const ExchangeRules& rules, const Bucket& bucket, double density);

/// Returns whether lists with indices travel, so that the codec of indices has an effect.
bool sends_indices(const ExchangeRules& rules);

}  // namespace dragonn::exchange
