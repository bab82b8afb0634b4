// SPDX-License-Identifier: MIT
/// Refusal of tokens: the error for a token that is no row of an embedding's table.
#pragma once

#include <cstddef>

namespace dragonn::kernels {

/// Refuses a token. @throws DataError that names the token and its position in the batch.
[[noreturn]] void refuse_token(float token, std::size_t position, std::size_t rows);

}  // namespace dragonn::kernels
