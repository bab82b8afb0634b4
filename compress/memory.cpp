// SPDX-License-Identifier: MIT
#include "compress/memory.h"

#include <utility>

#include "kernels/devices.h"
#include "kernels/gradient/select.h"
#include "kernels/nn/elementwise.h"

namespace dragonn::compress {

void settle_residual(const Settlement& settlement, View<float> residual) {
  if (settlement.codec != nullptr) {
    settlement.codec->sum(settlement.code, {.keep = true, .factor = -1}, residual);
  } else if (settlement.remainder.size() > 0) {
    kernels::copy(settlement.remainder, residual);
  } else if (settlement.contributed_all) {
    kernels::fill(0, residual);
  } else {
    kernels::scatter_zero(settlement.contributed, residual);
  }
  if (settlement.returned != nullptr) kernels::scatter_add(*settlement.returned, residual);
}

void add_saved(const Archive& archive, const std::string& name, View<float> values) {
  Buffer<float> saved(values.size(), values.device());
  kernels::get_view(archive, name, saved.view());
  kernels::add(values, std::as_const(saved).view(), values);
}

}  // namespace dragonn::compress
