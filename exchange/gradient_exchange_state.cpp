// SPDX-License-Identifier: MIT
// The state of a gradient exchange: saved, loaded, and taken over by another number of workers.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/sparse/sparse_collective.h"
#include "exchange/gradient_exchange.h"
#include "exchange/node_sums.h"
#include "exchange/run_part.h"

namespace dragonn::exchange {
namespace {

constexpr const char* kExchanges = "exchanges";
constexpr const char* kBucket = "exchange/bucket";
constexpr const char* kMemory = "memory/";

std::string bucket_prefix(std::size_t index) {
  return fmt::format("{}{}/", kBucket, index);
}

/// Returns a memory's fields, times a factor: it may add up what it saved, so all that it adds is linear.
Archive scaled(const Archive& archive, const std::string& prefix, float factor) {
  Archive result;
  for (auto field = archive.fields().lower_bound(prefix);
       field != archive.fields().end() && field->first.starts_with(prefix); ++field) {
    std::vector<float> values = archive.get_vector<float>(field->first);
    for (float& value : values) value *= factor;
    result.put_array(field->first, std::span<const float>(values));
  }
  return result;
}

}  // namespace

void GradientExchange::save(Archive& archive) const {
  DRAGONN_CHECK(!is_open_, "an exchange is saved that is neither committed nor abandoned");
  for (std::size_t index = 0; index < states_.size(); ++index) {
    if (has(index)) save_bucket(archive, index);
  }
}

void GradientExchange::save_shared(Archive& model) const {
  if (node_sums_) save_nodes(model, node_sums_->nodes());
}

void GradientExchange::save_bucket(Archive& archive, std::size_t index) const {
  const std::string prefix = bucket_prefix(index);
  archive.put(prefix + "offset", static_cast<std::uint64_t>(buckets_[index].offset));
  archive.put(prefix + "size", static_cast<std::uint64_t>(buckets_[index].size));
  archive.put(prefix + kExchanges, states_[index].exchanges);
  states_[index].memory->save(archive, prefix + kMemory);
  if (states_[index].compressed) states_[index].compressed->save(archive, prefix);
}

void GradientExchange::load(const Archive& archive) {
  for (std::size_t index = 0; index < states_.size(); ++index) {
    if (has(index)) load_bucket(archive, index);
  }
}

void GradientExchange::load_bucket(const Archive& archive, std::size_t index) {
  const std::string prefix = bucket_prefix(index);
  load_place(archive, index);
  states_[index].memory->load(archive, prefix + kMemory);
  if (states_[index].compressed) states_[index].compressed->load(archive, prefix);
}

void GradientExchange::reshard_from(const Archive& archive, const ReshardedParts& what) {
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const std::string prefix = bucket_prefix(index);
    if (!has(index) || (what.is_part && !has_fields(archive, prefix))) continue;
    load_place(archive, index);
    const compress::MemoryEntry& memory = memory_of(buckets_[index]);
    if (reshards(part_name(memory), memory.resize, archive, prefix + kMemory)) {
      compress::Memory& state = *states_[index].memory;
      if (what.memories)
        state.add(what.scale == 1 ? archive : scaled(archive, prefix + kMemory, what.scale), prefix + kMemory);
      if (what.methods) state.load_shared(archive, prefix + kMemory, what.workers, communicator_.size());
    }
    if (states_[index].compressed && what.methods) states_[index].compressed->reshard_from(archive, prefix);
  }
}

std::vector<RankToTake> GradientExchange::ranks_to_take(const comm::Nodes& saved) const {
  std::vector<RankToTake> ranks;
  if (std::ranges::none_of(states_, &BucketState::is_mine)) return ranks;
  const comm::Nodes here = nodes();
  const auto weight = [](const comm::Nodes& of) { return static_cast<double>(of.count()) / of.ranks(); };
  for (RankToTake node : exchange::ranks_to_take(communicator_.rank(), here.count(), saved.count())) {
    node.what.scale = static_cast<float>(weight(here) / weight(saved));
    node.what.is_part = saved.most() > 1;
    for (const int rank : saved.ranks_of(node.rank)) ranks.push_back({rank, node.what});
  }
  return ranks;
}

std::optional<std::size_t> GradientExchange::bucket_of_residual(const std::string& field) const {
  // The sum of estimates is the same on all ranks, and load_shared() reads it.
  if (!field.starts_with(kBucket) || memory_entry(rules_).estimates) return std::nullopt;
  std::size_t index = 0;
  const char* const last = field.data() + field.size();
  const auto [end, status] = std::from_chars(field.data() + std::strlen(kBucket), last, index);
  const bool is_memory = std::string_view(end, last).starts_with(std::string("/") + kMemory);
  return is_memory && index < buckets_.size() ? std::optional(index) : std::nullopt;
}

void GradientExchange::add_residuals(const Archive& archive) {
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const std::string prefix = bucket_prefix(index) + kMemory;
    if (has(index) && has_fields(archive, prefix)) states_[index].memory->add(archive, prefix);
  }
}

std::vector<std::string> GradientExchange::describe_resharding() const {
  std::vector<std::string> lines;
  const auto add = [&](const auto& entry) {
    if (entry.resize.kind != OnResize::kStateless) lines.push_back(part_name(entry) + " " + entry.resize.how);
  };
  if (!any_sparse_ && !rules_.quantizes() && !rules_.codes_dense()) return lines;
  add(memory_entry(rules_));
  if (!any_sparse_) return lines;
  add(Registry<compress::SparsifierEntry>::instance().at(rules_.sparsifier.name));
  add(Registry<comm::SparseCollectiveEntry>::instance().at(rules_.collective.name));
  return lines;
}

void GradientExchange::load_place(const Archive& archive, std::size_t index) {
  const std::string prefix = bucket_prefix(index);
  const Bucket& bucket = buckets_[index];
  if (archive.get<std::uint64_t>(prefix + "offset") != bucket.offset ||
      archive.get<std::uint64_t>(prefix + "size") != bucket.size) {
    throw ConfigError(
        fmt::format("the checkpoint's bucket {} is not {} of this run: compression.bucket differs, or bucket "
                    "\"model\" is cut for other numbers of workers in a node (comm.hierarchy = \"off\": "
                    "not at all)",
                    index, bucket.name));
  }
  states_[index].exchanges = archive.get<std::uint64_t>(prefix + kExchanges);
}

}  // namespace dragonn::exchange
