// SPDX-License-Identifier: MIT
#include "kernels/event_timer.h"

namespace dragonn::kernels {
namespace {

std::unique_ptr<EventTimer> none_on_cpu(const Device& /*device*/) {
  return nullptr;
}

}  // namespace

constinit decltype(make_event_timer) make_event_timer("event timer", none_on_cpu);

}  // namespace dragonn::kernels
