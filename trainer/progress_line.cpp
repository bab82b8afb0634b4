// SPDX-License-Identifier: MIT
#include "trainer/progress_line.h"

#include <cmath>

#include <fmt/format.h>

#include "core/log.h"

namespace dragonn::trainer {
namespace {

/// "1:02:03" or "2:03".
std::string clock_text(double seconds) {
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = total / 3600, minutes = total / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

}  // namespace

void ProgressLine::show(const StepRecord& record) const {
  const double done = static_cast<double>(record.step) / static_cast<double>(total_steps);
  log::progress(
      fmt::format("{:3.0f} %  epoch {:.2f}/{}  step {}/{}  loss {:.4f}  {:.0f} samples/s  {} sent/step  ETA {}",
                  100 * done, record.epoch, total_epochs, record.step, total_steps, record.loss, samples_per_second,
                  bytes_text(record.exchanged.bytes_sent.mean), clock_text(seconds_left)));
}

}  // namespace dragonn::trainer
