// SPDX-License-Identifier: MIT
#include "kernels/trace.h"

#include <nvtx3/nvToolsExt.h>

namespace dragonn::kernels::cuda {
namespace {

const bool registered = [] {
  register_trace(DeviceType::kCuda,
                 {[](const char* name) noexcept { nvtxRangePushA(name); }, []() noexcept { nvtxRangePop(); }});
  return true;
}();

}  // namespace
}  // namespace dragonn::kernels::cuda
