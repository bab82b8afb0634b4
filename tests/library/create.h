// SPDX-License-Identifier: MIT
/// Handles of the library for tests.
#pragma once

#include <span>
#include <string>

#include "library/dragonn.h"

namespace dragonn::test {

/// Creates this rank's handle; null after an error, which dragonn_last_error() tells. @param rendezvous and `trace` as
/// in dragonn_options; empty: none.
inline dragonn_exchange_handle* create_handle(std::span<const dragonn_tensor> tensors, const std::string& config,
                                              const std::string& rendezvous = "", const std::string& trace = "") {
  const dragonn_options options{.size = sizeof options,
                                .config = config.c_str(),
                                .rendezvous = rendezvous.c_str(),
                                .steps_per_epoch = 0,
                                .trace = trace.empty() ? nullptr : trace.c_str()};
  dragonn_exchange_handle* handle = nullptr;
  dragonn_create(&options, tensors.data(), tensors.size(), &handle);
  return handle;
}

}  // namespace dragonn::test
