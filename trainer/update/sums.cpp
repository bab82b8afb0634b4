// SPDX-License-Identifier: MIT
#include "trainer/update/sums.h"

namespace dragonn::trainer {

void apply_sums(std::span<const exchange::BucketSum> sums, float scale, optim::Optimizer& optimizer) {
  for (const exchange::BucketSum& sum : sums) {
    const optim::Slice slice{sum.offset, sum.size, sum.momentum_applied, sum.learning_rate_applied};
    if (sum.entries != nullptr) {
      optimizer.update(slice, *sum.entries, scale / sum.divisor);
    } else {
      optimizer.update(slice, sum.dense, scale / sum.divisor);
    }
  }
}

SettingSpec average_spec() {
  return SettingSpec::text("average", "ranks",
                           "what divides a sum; ranks: the number of workers; senders: for each entry the number of "
                           "those that sent it, which not every collective knows",
                           {"ranks", "senders"});
}

bool averages_senders(const Settings& settings) {
  return settings.text("average") == "senders";
}

}  // namespace dragonn::trainer
