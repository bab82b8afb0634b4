// SPDX-License-Identifier: MIT
#include "bench/device_timer.h"

namespace dragonn::bench {
namespace {

double time_on_cpu(const Device& /*device*/, const Work& work) {
  return seconds_of([&] { work.call(work.body); });
}

}  // namespace

TimerTable& timer_table() {
  static TimerTable table("timer", time_on_cpu);
  return table;
}

}  // namespace dragonn::bench
