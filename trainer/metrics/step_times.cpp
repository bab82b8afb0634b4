// SPDX-License-Identifier: MIT
#include "trainer/metrics/step_times.h"

namespace dragonn::trainer {

void StepTimes::add(const StepTimers& timers, bool overlaps) {
  const auto sum = [&](auto... verbs) { return (timers.seconds(verbs) + ...); };
  computing += sum(Verb::kLoad, Verb::kForward, Verb::kBackward, Verb::kOptimize);
  selecting += sum(Verb::kCompensate, Verb::kSelect, Verb::kCompensateSelect, Verb::kDecode, Verb::kSettle);
  exchanging += timers.seconds(Verb::kExchange);
  exposed += timers.seconds(Verb::kExchangeExposed);
  hidden += timers.seconds(Verb::kExchangeHidden);
  if (steps > 0) backward += timers.seconds(Verb::kBackward);
  ++steps;
  overlapped = overlaps;
}

double StepTimes::exposed_share() const {
  const double all = total();
  return all > 0 ? (overlapped ? exposed : exchanging) / all : 0.0;
}

}  // namespace dragonn::trainer
