// SPDX-License-Identifier: MIT
/// Refusal of tokens: the error for a token that is no row of an embedding's table.
#pragma once

#include <cstddef>

#include "core/error.h"

namespace dragonn::kernels {

/// Refuses a token. @throws DataError that names the token and its position in the batch.
[[noreturn]] inline void refuse_token(float token, std::size_t position, std::size_t rows) {
  throw DataError(fmt::format("token {} at position {} of the batch: valid are whole numbers from 0 to {}", token,
                              position, rows - 1));
}

}  // namespace dragonn::kernels
