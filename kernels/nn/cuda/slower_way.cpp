// SPDX-License-Identifier: MIT
#include "kernels/nn/cuda/slower_way.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "core/log.h"
#include "core/this_rank.h"

namespace dragonn::kernels::cuda {

void warn_of_slower_way(const std::string& what, const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (known.insert(what).second) log::warning(std::max(this_rank(), 0), "{}, which is slower: {}", what, reason);
}

}  // namespace dragonn::kernels::cuda
