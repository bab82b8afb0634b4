// SPDX-License-Identifier: MIT
#include "bench/device_timer.h"

namespace dragonn::bench {
namespace {

double time_on_cpu(const Device& /*device*/, const Work& work) {
  return seconds_of([&] { work.call(work.body); });
}

}  // namespace

constinit decltype(time_work) time_work("timer", time_on_cpu);

}  // namespace dragonn::bench
