// SPDX-License-Identifier: MIT
/// Every registered sparsifier x collective x memory, and quantizer x memory, that fits together.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/sparse/sparse_collective.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "exchange/gradient_exchange.h"

namespace dragonn::exchange::testing {

#ifdef __SANITIZE_THREAD__
// Threads race with three workers or with no number of them, and after the first step.
inline const std::vector<int> kWorlds{3};
inline const std::vector<int>& kManyWorlds = kWorlds;
inline const std::vector<int>& kFewWorlds = kWorlds;
inline const std::vector<int>& kOverlapWorlds = kWorlds;
inline const std::vector<int>& kDamagedWorlds = kWorlds;
inline const std::vector<int>& kResumeWorlds = kWorlds;
inline constexpr std::uint64_t kResumeStride = 5;
inline constexpr bool kAllCombinations = false;
#elif defined(__SANITIZE_ADDRESS__)
// Faults that sanitizers find show with these numbers or not at all: one worker, a power of two, another number.
inline const std::vector<int> kWorlds{1, 2, 5};
inline const std::vector<int>& kManyWorlds = kWorlds;
inline const std::vector<int> kFewWorlds{1, 3};
inline const std::vector<int> kOverlapWorlds{1, 3};
inline const std::vector<int> kDamagedWorlds{3};
inline const std::vector<int> kResumeWorlds{3};
inline constexpr std::uint64_t kResumeStride = 2;
inline constexpr bool kAllCombinations = false;
#else
inline const std::vector<int> kWorlds{1, 2, 3, 4, 5, 8};
inline const std::vector<int> kManyWorlds{1, 2, 3, 4, 5, 7, 8, 16};
inline const std::vector<int> kFewWorlds{1, 3, 8};
inline const std::vector<int> kOverlapWorlds{1, 2, 3, 4, 5};
inline const std::vector<int> kDamagedWorlds{1, 3, 4};  // in which a rank has a gradient that is not finite
inline const std::vector<int> kResumeWorlds{1, 3};
inline constexpr std::uint64_t kResumeStride = 1;  // how far apart the steps are after which runs are resumed
inline constexpr bool kAllCombinations = true;     // or those in which every two parts that fit occur together
#endif

struct Combination {
  std::string sparsifier;
  std::string collective;
  std::string memory;
  std::string quantizer = "none";  ///< unless "none", instead of the sparsifier
  std::string indices = codec::kRawIndices;
  std::string values = codec::kRawValues;  ///< what lists are in messages

  const std::string& method() const { return quantizer == "none" ? sparsifier : quantizer; }
  std::string name() const {
    const bool is_raw = indices == codec::kRawIndices && values == codec::kRawValues;
    return method() + " x " + collective + " x " + memory + (is_raw ? "" : " x " + indices + " x " + values);
  }
};

template <class Entry>
Component with_defaults(const std::string& name) {
  return {name, Settings(Registry<Entry>::instance().at(name).settings)};
}

inline ExchangeRules rules_of(const Combination& combination) {
  ExchangeRules rules;
  if (combination.quantizer == "none") {
    rules.sparsifier = with_defaults<compress::SparsifierEntry>(combination.sparsifier);
  } else {
    rules.quantizer = with_defaults<codec::QuantizerEntry>(combination.quantizer);
  }
  rules.collective = with_defaults<comm::SparseCollectiveEntry>(combination.collective);
  rules.memory = with_defaults<compress::MemoryEntry>(combination.memory);
  rules.coding = {with_defaults<codec::IndexCodecEntry>(combination.indices),
                  with_defaults<codec::ValueCodecEntry>(combination.values)};
  rules.dense = with_defaults<comm::SparseCollectiveEntry>("dense");
  return rules;
}

inline bool fits(const Combination& combination) {
  try {
    check_rules(rules_of(combination));
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

/// All with a sparsifier that check_rules does not refuse.
inline std::vector<Combination> sparse_combinations() {
  std::vector<Combination> result;
  for (const std::string& sparsifier : Registry<compress::SparsifierEntry>::instance().names()) {
    for (const std::string& collective : Registry<comm::SparseCollectiveEntry>::instance().names()) {
      if (collective == "dense") continue;  // takes no selection
      for (const std::string& memory : Registry<compress::MemoryEntry>::instance().names()) {
        const Combination combination{sparsifier, collective, memory};
        if (fits(combination)) result.push_back(combination);
      }
    }
  }
  return result;
}

/// All with a quantizer that check_rules does not refuse.
inline std::vector<Combination> quantized_combinations() {
  std::vector<Combination> result;
  for (const std::string& quantizer : Registry<codec::QuantizerEntry>::instance().names()) {
    for (const std::string& memory : Registry<compress::MemoryEntry>::instance().names()) {
      const Combination combination{"none", kCodeCollective, memory, quantizer};
      if (fits(combination)) result.push_back(combination);
    }
  }
  return result;
}

/// All sparse ones with all pairs of codecs that check_rules does not refuse, but those that send lists as they are.
inline std::vector<Combination> coded_combinations() {
  std::vector<Combination> result;
  for (Combination combination : sparse_combinations()) {
    for (const std::string& indices : Registry<codec::IndexCodecEntry>::instance().names()) {
      for (const std::string& values : Registry<codec::ValueCodecEntry>::instance().names()) {
        combination.indices = indices;
        combination.values = values;
        if (!rules_of(combination).coding.is_raw() && fits(combination)) result.push_back(combination);
      }
    }
  }
  return result;
}

/// Returns so many of them that every two parts that fit occur together.
inline std::vector<Combination> pairwise_coded_combinations() {
  std::set<std::string> seen;
  std::vector<Combination> result;
  for (const Combination& all : coded_combinations()) {
    const std::array parts{"sparsifier " + all.sparsifier, "collective " + all.collective, "memory " + all.memory,
                           "indices " + all.indices, "values " + all.values};
    bool is_new = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) is_new = seen.insert(parts[j] + ", " + parts[i]).second || is_new;
    }
    if (is_new) result.push_back(all);
  }
  return result;
}

/// Leaves a pair of sparsifier and collective one of these memories, in turn.
inline void take_in_turn(const std::vector<std::string>& memories, std::vector<Combination>& combinations) {
  const std::vector<std::string> sparsifiers = Registry<compress::SparsifierEntry>::instance().names();
  const std::vector<std::string> collectives = Registry<comm::SparseCollectiveEntry>::instance().names();
  const auto place = [](const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  std::erase_if(combinations, [&](const Combination& combination) {
    const std::size_t turn = place(sparsifiers, combination.sparsifier) + place(collectives, combination.collective);
    return std::ranges::count(memories, combination.memory) != 0 &&
           combination.memory != memories[turn % memories.size()];
  });
}

/// Returns combinations in which a pair of sparsifier and collective has one memory, in turn. For tests that train.
inline std::vector<Combination> pairwise_combinations() {
  std::vector<Combination> result = sparse_combinations();
  take_in_turn(Registry<compress::MemoryEntry>::instance().names(), result);
  for (Combination& combination : quantized_combinations()) result.push_back(std::move(combination));
  return result;
}

/// Returns all combinations, in which one of the memories that keep more than a residual stands for the others, in
/// turn; but for sanitizers the pairwise ones.
inline std::vector<Combination> combinations() {
  if (!kAllCombinations) return pairwise_combinations();
  std::vector<Combination> result = sparse_combinations();
  take_in_turn({"econtrol", "ef21", "ef21_sgdm", "low_pass"}, result);
  for (Combination& combination : quantized_combinations()) result.push_back(std::move(combination));
  return result;
}

}  // namespace dragonn::exchange::testing
