// SPDX-License-Identifier: MIT
#include "kernels/gradient/hash_select.h"

#include "kernels/same_device.h"

namespace dragonn::kernels {
namespace {

void on_cpu(const SparseVector& hits, const HashChoice& choice, SparseVector& kept) {
  const HashRule& rule = choice.rule;
  HashScratch& scratch = *choice.scratch;
  if (!rule.by_priority) {
    scratch.claims.keep_last(hits, rule.slot.slots, rule.slot, kept);
    return;
  }
  scratch.table.fill(hits.indices.host(), rule.slot.slots, rule.slot, {rule.slot.salt});
  scratch.table.collect(hits, rule.slot, kept);
}

}  // namespace

HashSelectTable& hash_select_table() {
  static HashSelectTable table("hash_select", on_cpu);
  return table;
}

void HashScratch::reserve(std::size_t hits, std::size_t slots) {
  table.reserve(slots);
  if (table.memory().device().is_cpu()) claims.reserve(hits, slots);
}

void hash_select(const SparseVector& hits, const HashChoice& choice, SparseVector& kept) {
  DRAGONN_CHECK(choice.scratch != nullptr, "hash_select without memory to work in");
  check_same_device("hash_select", hits.device(), kept.device());
  check_same_device("hash_select", hits.device(), choice.scratch->table.memory().device());
  hash_select_table().at(hits.device())(hits, choice, kept);
}

}  // namespace dragonn::kernels
