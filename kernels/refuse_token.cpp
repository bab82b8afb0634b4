// SPDX-License-Identifier: MIT
#include "kernels/refuse_token.h"

#include "core/error.h"

namespace dragonn::kernels {

void refuse_token(float token, std::size_t position, std::size_t rows) {
  throw DataError(fmt::format("token {} at position {} of the batch: valid are whole numbers from 0 to {}", token,
                              position, rows - 1));
}

}  // namespace dragonn::kernels
