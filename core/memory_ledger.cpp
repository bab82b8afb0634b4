// SPDX-License-Identifier: MIT
#include "core/memory_ledger.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace dragonn {
namespace {

// The thread's, and no parameter: all constructors between who knows what memory is for and the buffer would pass it.
thread_local const char* current_label = "other things";

}  // namespace

MemoryLabel::MemoryLabel(const char* name) : previous_(current_label) {
  current_label = name;
}

MemoryLabel::~MemoryLabel() {
  current_label = previous_;
}

const char* MemoryLabel::current() {
  return current_label;
}

void MemoryLedger::add(const void* memory, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  entries_[memory] = {MemoryLabel::current(), bytes};
}

void MemoryLedger::remove(const void* memory) noexcept {
  const std::scoped_lock lock(mutex_);
  entries_.erase(memory);
}

std::string MemoryLedger::describe() const {
  std::map<std::string_view, std::size_t> by_label;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [memory, entry] : entries_) by_label[entry.label] += entry.bytes;
  }
  std::vector<std::pair<std::string_view, std::size_t>> labels(by_label.begin(), by_label.end());
  std::ranges::stable_sort(labels, std::ranges::greater(), [](const auto& label) { return label.second; });
  std::string text;
  for (const auto& [label, bytes] : labels) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", label, bytes);
  return text.empty() ? "nothing" : text;
}

}  // namespace dragonn
