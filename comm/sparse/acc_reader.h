// SPDX-License-Identifier: MIT
/// AccReader: values of the accumulated gradient at indices that the ranks agreed on.
#pragma once

#include <cstdint>

#include "core/sparse_vector.h"

namespace dragonn::comm {

/// Reads acc where it lives: messages are host memory, a gradient may be on a GPU. Keeps its buffers.
class AccReader {
 public:
  /// values[j] <- acc[indices[j]], both [k] in host memory. On a GPU k words go there and k come back.
  void gather(View<const float> acc, View<const std::uint32_t> indices, View<float> values);

 private:
  SparseVector on_device_;
};

}  // namespace dragonn::comm
