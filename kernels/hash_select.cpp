// SPDX-License-Identifier: MIT
#include "kernels/hash_select.h"

#include "kernels/same_device.h"

namespace dragonn::kernels {
namespace {

void on_cpu(const SparseVector& hits, const HashRule& rule, SlotTable& table, SparseVector& kept) {
  const auto indices = hits.indices.host();
  if (rule.by_priority) {
    table.fill(indices, rule.slot.slots, rule.slot, PriorityWins{rule.slot.salt});
  } else {
    table.fill(indices, rule.slot.slots, rule.slot, LastWins{});
  }
  table.collect(hits, rule.slot, kept);
}

}  // namespace

HashSelectTable& hash_select_table() {
  static HashSelectTable table("hash_select", on_cpu);
  return table;
}

void hash_select(const SparseVector& hits, const HashRule& rule, SlotTable& table, SparseVector& kept) {
  check_same_device("hash_select", hits.device(), kept.device());
  check_same_device("hash_select", hits.device(), table.memory().device());
  hash_select_table().at(hits.device())(hits, rule, table, kept);
}

}  // namespace dragonn::kernels
