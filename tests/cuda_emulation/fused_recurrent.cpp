// SPDX-License-Identifier: MIT
// There is no stand-in for cuDNN's recurrent layers: the emulation takes the steps one by one, as a GPU does for
// batches with lengths.
#include "kernels/nn/cuda/fused_recurrent.h"

namespace dragonn::kernels::cuda {

std::unique_ptr<FusedRecurrent> make_fused_recurrent(const Device&, const RecurrentSpec&, std::string&) {
  return nullptr;
}

}  // namespace dragonn::kernels::cuda
