// SPDX-License-Identifier: MIT
#include "kernels/gradient/hash_select.h"

#include "kernels/operation.h"

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

constinit decltype(hash_select) hash_select(
    "hash_select", on_cpu, [](const SparseVector& hits, const HashChoice& choice, SparseVector&) {
      DRAGONN_CHECK(choice.scratch != nullptr, "hash_select without memory to work in");
      check_same_device("hash_select", hits.device(), choice.scratch->table.memory().device());
      return true;
    });
void HashScratch::reserve(std::size_t hits, std::size_t slots) {
  table.reserve(slots);
  if (table.memory().device().is_cpu()) claims.reserve(hits, slots);
}

}  // namespace dragonn::kernels
