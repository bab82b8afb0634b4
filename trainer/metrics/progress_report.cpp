// SPDX-License-Identifier: MIT
#include "trainer/metrics/progress_report.h"

#include <cmath>

#include <fmt/format.h>

#include "core/log.h"

namespace dragonn::trainer {

ProgressReport::ProgressReport(const Run& run) : run_(run) {
  log::progress(fmt::format("step {}/{}", run.first_step, run.total_steps));
}

void ProgressReport::step(std::uint64_t step, double epoch, double samples_per_second, const StepSample& mine) {
  times_.add(mine.timers, run_.overlaps);
  if (numbers_.step == 0) noted_epoch_ = epoch;
  const double done = static_cast<double>(step - run_.first_step);
  numbers_.step = step;
  numbers_.total_steps = run_.total_steps;
  numbers_.epoch = epoch;
  numbers_.total_epochs = run_.total_epochs;
  numbers_.loss = mine.count > 0 ? mine.loss_sum / static_cast<double>(mine.count) : 0.0;
  numbers_.samples_per_second = samples_per_second;
  numbers_.is_time_virtual = run_.is_time_virtual;
  numbers_.exposed_share = times_.exposed_share();
  numbers_.seconds_left = clock_.now() / done * static_cast<double>(run_.total_steps - step);
  if (!knows_bytes_) numbers_.bytes_per_step = static_cast<double>(exchange_traffic(mine.traffic).bytes_sent);
  show();
}

void ProgressReport::record(const StepRecord& record) {
  numbers_.loss = record.loss;
  numbers_.bytes_per_step = record.exchanged.bytes_sent.mean;
  knows_bytes_ = true;
  show();
  const bool is_new_epoch = std::floor(record.epoch) > std::floor(noted_epoch_);
  if (!is_new_epoch && clock_.now() - noted_at_ < kNoteSeconds) return;
  noted_at_ = clock_.now();
  noted_epoch_ = record.epoch;
  log::note("{}", progress_note(numbers_));
}

void ProgressReport::show() {
  const std::size_t columns = log::terminal_columns();
  if (columns < 2) return;
  const double now = clock_.now();
  if (now - shown_at_ < kLineSeconds && numbers_.step < run_.total_steps) return;
  shown_at_ = now;
  log::progress(progress_line(numbers_, columns - 1));  // the last column would wrap on some terminals
}

}  // namespace dragonn::trainer
