// SPDX-License-Identifier: MIT
/// The warning of an operation whose faster way on a GPU is missing.
#pragma once

#include <string>

namespace dragonn::kernels::cuda {

/// Logs "WHAT, which is slower: REASON" as a warning, once per process and `what`. May be called from any thread.
void warn_of_slower_way(const std::string& what, const std::string& reason);

}  // namespace dragonn::kernels::cuda
