// SPDX-License-Identifier: MIT
#include "trainer/config/methods.h"

#include <algorithm>

#include "codec/value_codec.h"
#include "compress/sparsifier.h"
#include "core/error.h"
#include "core/registry.h"
#include "trainer/exchange/bucket_form.h"

namespace dragonn::trainer {
namespace {

/// Returns the papers' parts and defaults that differ from those that any sparsifier gets.
const std::vector<Method>& presets() {
  static const std::vector<Method> table{
      {"dense", "no sparsification: a dense allreduce of every gradient", "none", "dense", "none", "none"},
      {"dgc", "sampled threshold with momentum correction (Lin et al., ICLR 2018)", "dgc", "allgather", "residual",
       "momentum_correction"},
      {"dragonn", "hashed selection with momentum correction (DRAGONN, ICML 2022)", "dragonn", "allgather", "residual",
       "momentum_correction"},
      {"index_union", "top-k, with the sum over all workers taken at every index that one of them selected", "topk",
       "index_union"},
      {"dsa", "top-k, summed region by region (SparCML, SC 2019)", "topk", "dsa"},
      {.name = "gtopk",
       .summary = "top-k of all workers, merged in a tree (gTop-k, ICDCS 2019)",
       .sparsifier = "topk",
       .collective = "gtopk",
       .bucket = BucketScope::kModel},
      {.name = "oktopk",
       .summary = "reused thresholds and an allreduce of O(k) words (Ok-Topk, PPoPP 2022)",
       .sparsifier = "oktopk",
       .collective = "oktopk",
       .bucket = BucketScope::kModel},
      {.name = "exdyna",
       .summary = "partitioned search with a fed-back threshold (ExDyna, 2024)",
       .sparsifier = "exdyna",
       .collective = "exdyna",
       .bucket = BucketScope::kModel},
      {"cltk", "the top-k of a cyclic leader for all workers (ScaleCom, NeurIPS 2020)", "cltk", "cltk"},
  };
  return table;
}

Method quantizer_method(const codec::ValueCodecEntry& entry) {
  const std::string memory = entry.unbiased ? "none" : "residual";
  return {entry.name, entry.summary, "none", kCodeCollective, memory, memory, entry.name};
}

}  // namespace

Method find_method(const std::string& name) {
  const auto preset = std::ranges::find(presets(), name, &Method::name);
  if (preset != presets().end()) return *preset;
  const auto& sparsifiers = Registry<compress::SparsifierEntry>::instance();
  const auto& quantizers = Registry<codec::ValueCodecEntry>::instance();
  if (quantizers.contains(name)) return quantizer_method(quantizers.at(name));
  if (!sparsifiers.contains(name)) throw ConfigError(unknown_name_message("method", name, method_names()));
  return {name, sparsifiers.at(name).summary, name};
}

std::vector<std::string> method_names() {
  std::vector<std::string> names = Registry<compress::SparsifierEntry>::instance().names();
  for (std::string& name : Registry<codec::ValueCodecEntry>::instance().names()) names.push_back(std::move(name));
  for (const Method& preset : presets()) names.push_back(preset.name);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

}  // namespace dragonn::trainer
