// SPDX-License-Identifier: MIT
#include "exchange/exchange_rules.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/sparse/sparse_collective.h"
#include "core/error.h"

namespace dragonn::exchange {
namespace {

using comm::SparseCollectiveEntry;
using compress::MemoryEntry;

/// Returns the names of the registered entries that fit.
template <class Entry, class Fits>
std::vector<std::string> fitting(const Fits& fits) {
  const auto& registry = Registry<Entry>::instance();
  std::vector<std::string> names = registry.names();
  std::erase_if(names, [&](const std::string& name) { return !fits(registry.at(name)); });
  return names;
}

/// Checks the parts beside a quantizer: the collective that gathers, and no error feedback if the code is unbiased.
void check_quantizer(const ExchangeRules& rules) {
  const auto& entry = Registry<codec::QuantizerEntry>::instance().at(rules.quantizer.name);
  if (rules.collective.name != kCodeCollective) {
    throw ConfigError(fmt::format("quantizer '{}' does not go with collective '{}': its codes are gathered; valid: {}",
                                  entry.name, rules.collective.name, kCodeCollective));
  }
  if (!entry.unbiased || memory_entry(rules).floats_per_element == 0) return;
  const auto names = fitting<MemoryEntry>([](const MemoryEntry& memory) { return memory.floats_per_element == 0; });
  throw ConfigError(
      fmt::format("quantizer '{}' does not go with memory '{}': its codes are unbiased and take no error feedback; "
                  "valid: {}",
                  entry.name, rules.memory.name, fmt::join(names, ", ")));
}

/// Checks that the codec beside a quantizer, which has its own, is the one of papers.
void check_no_codec(const ExchangeRules& rules) {
  if (rules.coding.is_raw()) return;
  throw ConfigError(fmt::format(
      "compression.codec.indices = \"{}\" and values = \"{}\" have no effect with quantizer '{}', which has "
      "its own code; valid: \"{}\" and \"{}\"",
      rules.coding.indices.name, rules.coding.values.name, rules.quantizer.name, codec::kRawIndices,
      codec::kRawValues));
}

/// Checks that the collective can send values in the codec's form.
void check_values(const SparseCollectiveEntry& collective, const std::string& values) {
  using codec::ValueCodecEntry;
  const auto& codec = Registry<ValueCodecEntry>::instance().at(values);
  if (collective.sends(codec)) return;
  const auto codecs = fitting<ValueCodecEntry>([&](const ValueCodecEntry& entry) { return collective.sends(entry); });
  const auto collectives =
      fitting<SparseCollectiveEntry>([&](const SparseCollectiveEntry& entry) { return entry.sends(codec); });
  throw ConfigError(fmt::format(
      "compression.codec.values = \"{}\" does not go with collective '{}', which sums values without lists; "
      "valid: {}; or one of the collectives {}",
      values, collective.name, fmt::join(codecs, ", "), fmt::join(collectives, ", ")));
}

/// Checks the codec of values beside a dense sum: only a ring has messages in a code.
void check_dense_values(const Component& dense, const codec::CodecChoice& coding) {
  const std::string& algorithm = dense.settings.text("algorithm");
  if (!coding.is_lossy() || algorithm == "ring") return;
  throw ConfigError(
      fmt::format("compression.codec.values = \"{}\" does not go with the dense algorithm \"{}\"; valid: "
                  "ring, or values = \"{}\"",
                  coding.values.name, algorithm, codec::kRawValues));
}

/// Checks that codecs of indices and values go with the collective.
void check_coding(const ExchangeRules& rules, const Component& collective) {
  const auto& entry = Registry<SparseCollectiveEntry>::instance().at(collective.name);
  check_values(entry, rules.coding.values.name);
  const std::string& indices = rules.coding.indices.name;
  if (indices != codec::kRawIndices && !sends_indices(rules)) {
    throw ConfigError(fmt::format(
        "compression.codec.indices = \"{}\" has no effect with {}, which sends no indices; valid: {}", indices,
        entry.sum == comm::SumSize::kDense
            ? std::string("a dense allreduce")
            : fmt::format("sparsifier '{}', whose indices all workers know", rules.sparsifier.name),
        codec::kRawIndices));
  }
  if (entry.sum == comm::SumSize::kDense) check_dense_values(collective, rules.coding);
}

/// Checks that something is compressed, in whose basis it can be.
void check_transform(const ExchangeRules& rules) {
  if (rules.buckets.compress || !rules.dct) return;
  throw ConfigError(
      "compression.transform = \"dct\" has no effect with method = \"dense\", which sends gradients as they are; "
      "valid: "
      "none, or a sparsifier or quantizer");
}

/// Checks that the collective knows the senders of an entry, by whose number its sum is divided.
void check_senders(const SparseCollectiveEntry& collective) {
  const auto knows = [](const SparseCollectiveEntry& entry) { return entry.senders != comm::Senders::kUnknown; };
  if (knows(collective)) return;
  throw ConfigError(fmt::format(
      "update.average = \"senders\" does not go with collective '{}', which cannot tell how many workers sent an "
      "entry; valid: {}; or average = \"ranks\"",
      collective.name, fmt::join(fitting<SparseCollectiveEntry>(knows), ", ")));
}

/// Checks that each rank may select another number of entries.
void check_shares(const ExchangeRules& rules, const SelectionTraits& selection) {
  const auto refuse = [](const std::string& what, const std::string& instead) {
    throw ConfigError(fmt::format("compression.share = \"by_link\" does not go with {}: {}", what, instead));
  };
  if (rules.collective.name != "allgather")
    refuse(fmt::format("collective '{}'", rules.collective.name),
           "expected \"allgather\", whose lists may differ in length");
  if (selection.shared_indices || selection.partitioned || selection.leader_only)
    refuse(fmt::format("sparsifier '{}'", rules.sparsifier.name),
           "expected one by which each worker selects for itself");
  const std::string& layout = rules.collective.settings.text("layout");
  if (layout == "fixed" || layout == "padded")
    refuse(fmt::format("compression.allgather.layout = \"{}\"", layout), "expected \"auto\" or \"unpadded\"");
}

/// Checks that each exchanged sum is that of the values that left, for a memory that adds it to the sum of estimates.
void check_estimates(const ExchangeRules& rules, const MemoryEntry& memory) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    const auto names = fitting<MemoryEntry>([](const MemoryEntry& entry) { return !entry.estimates; });
    throw ConfigError(
        fmt::format("{} does not go with memory '{}', which adds up the whole sum of what the workers "
                    "sent; valid: {}; or {}",
                    what, memory.name, fmt::join(names, ", "), instead));
  };
  if (rules.averages_senders) refuse("update.average = \"senders\"", "average = \"ranks\"");
  const auto& collective = Registry<SparseCollectiveEntry>::instance().at(rules.collective.name);
  if (collective.loses && collective.loses(rules.collective.settings))
    refuse(fmt::format("collective '{}', which with these settings loses some values,", collective.name),
           "other settings");
}

}  // namespace

const MemoryEntry& memory_entry(const ExchangeRules& rules) {
  return Registry<MemoryEntry>::instance().at(rules.memory.name);
}

int senders_of(const ExchangeRules& rules, int world_size) {
  return rules.nodes ? rules.nodes->count() : world_size;
}

void check_rules(const ExchangeRules& rules) {
  check_transform(rules);
  if (!rules.buckets.compress) return check_coding(rules, rules.dense);
  if (rules.quantizes()) {
    check_no_codec(rules);
    return check_quantizer(rules);
  }
  const SelectionTraits selection = selection_traits(rules.sparsifier);
  comm::check_pair(selection, rules.sparsifier.name, rules.collective.name);
  check_coding(rules, rules.collective);
  if (rules.averages_senders) {
    check_senders(Registry<SparseCollectiveEntry>::instance().at(rules.collective.name));
  }
  if (!rules.shares.empty()) check_shares(rules, selection);
  const MemoryEntry& memory = memory_entry(rules);
  if (memory.estimates) check_estimates(rules, memory);
  if (selection.rescaled && memory.conserves) {
    throw ConfigError(
        fmt::format("sparsifier '{}' rescales its values: it needs compression.memory = \"none\", not \"{}\"",
                    rules.sparsifier.name, rules.memory.name));
  }
}

SelectionTraits exchanged_selection(const ExchangeRules& rules) {
  SelectionTraits selection = selection_traits(rules.sparsifier);
  if (rules.coding.is_lossy() && !rules.coding.carries_sums()) selection.shared_indices = false;
  if (!rules.shares.empty()) selection.fixed_size = selection.at_most_k = false;  // k is another one on each rank
  return selection;
}

double density_of(const ExchangeRules& rules, int rank, double density) {
  if (rules.shares.empty()) return density;
  return std::min(1.0, density * rules.shares.at(static_cast<std::size_t>(rank)));
}

std::size_t target_of(const ExchangeRules& rules, const Bucket& bucket, double density) {
  if (!rules.selects()) return compress::target_count(density, bucket.size);
  const auto& entry = Registry<compress::SparsifierEntry>::instance().at(rules.sparsifier.name);
  return entry.target(rules.sparsifier.settings, bucket.size, bucket.tensors, density);
}

bool sends_indices(const ExchangeRules& rules) {
  if (!rules.selects()) return false;
  const auto& entry = Registry<SparseCollectiveEntry>::instance().at(rules.collective.name);
  return entry.sends_indices(rules.collective.settings, exchanged_selection(rules));
}

}  // namespace dragonn::exchange
