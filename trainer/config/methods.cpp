// SPDX-License-Identifier: MIT
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codec/values/value_codec.h"
#include "compress/sparsifier.h"
#include "core/error.h"
#include "core/plugins.h"
#include "core/registry.h"
#include "exchange/bucket_form.h"
#include "trainer/config/config.h"

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
      {"index_union", "top-k, summed over all workers at every index that any of them selected", "topk", "index_union"},
      {"dsa", "top-k, summed region by region (SparCML, SC 2019)", "topk", "dsa"},
      {"gtopk", "top-k of all workers, merged in a tree (gTop-k, ICDCS 2019)", "topk", "gtopk", "residual", "residual",
       "none", BucketScope::kModel},
      {"oktopk", "reused thresholds and an allreduce of O(k) words (Ok-Topk, PPoPP 2022)", "oktopk", "oktopk",
       "residual", "residual", "none", BucketScope::kModel},
      {"exdyna", "partitioned search with a fed-back threshold (ExDyna, 2024)", "exdyna", "exdyna", "residual",
       "residual", "none", BucketScope::kModel},
      {"cltk", "the top-k of a cyclic leader, used by all workers (ScaleCom, NeurIPS 2020)", "cltk", "cltk"},
      {"demo", "the largest of each tile's DCT, for the optimizer signsgd (DeMo, arXiv:2411.19870)", "chunktopk",
       "allgather", "residual", "residual", "none", BucketScope::kTensor, Transform::kDct},
  };
  return table;
}

/// Refuses the components of plug-ins that another method of their name hides. @param others also names methods.
template <class Entry, class OtherEntry>
void refuse_hidden(const Registry<Entry>& registry, const Registry<OtherEntry>& others) {
  for (const std::string& name : registry.names()) {
    const bool is_taken = std::ranges::count(presets(), name, &Method::name) > 0 || others.contains(name);
    if (!is_taken || registry.plugin_of(name).empty()) continue;
    throw ConfigError(fmt::format("{}: the {} '{}' has the name of another method: expected a name besides {}",
                                  registry.plugin_of(name), Entry::kKind, name, fmt::join(method_names(), ", ")));
  }
}

}  // namespace

Method find_method(const std::string& name) {
  const auto preset = std::ranges::find(presets(), name, &Method::name);
  if (preset != presets().end()) return *preset;
  const auto& sparsifiers = Registry<compress::SparsifierEntry>::instance();
  const auto& quantizers = Registry<codec::QuantizerEntry>::instance();
  if (quantizers.contains(name)) {
    const codec::QuantizerEntry& entry = quantizers.at(name);
    const std::string memory = entry.unbiased ? "none" : "residual";
    return {name, entry.summary, "none", exchange::kCodeCollective, memory, memory, name};
  }
  if (!sparsifiers.contains(name)) throw ConfigError(unknown_name_message("method", name, method_names()));
  return {name, sparsifiers.at(name).summary, name};
}

std::vector<std::string> method_names() {
  std::vector<std::string> names = Registry<compress::SparsifierEntry>::instance().names();
  for (std::string& name : Registry<codec::QuantizerEntry>::instance().names()) names.push_back(std::move(name));
  for (const Method& preset : presets()) names.push_back(preset.name);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

void load_plugin_methods(const std::filesystem::path& file, const std::string& named_by) {
  load_plugin(file, named_by);
  const auto& sparsifiers = Registry<compress::SparsifierEntry>::instance();
  const auto& quantizers = Registry<codec::QuantizerEntry>::instance();
  refuse_hidden(sparsifiers, quantizers);
  refuse_hidden(quantizers, sparsifiers);
}

}  // namespace dragonn::trainer
