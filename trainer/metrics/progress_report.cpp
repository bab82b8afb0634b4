// SPDX-License-Identifier: MIT
#include "trainer/metrics/progress_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/log.h"
#include "core/units_text.h"

namespace dragonn::trainer {
namespace {

struct Field {
  int rank = 0;  ///< the field with the largest rank is left out first
  std::string text;
};

std::string joined(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) text += (text.empty() ? "" : "  ") + field.text;
  return text;
}

std::string speed(const ProgressNumbers& numbers) {
  return fmt::format("{:.{}f} samples/s{}", numbers.samples_per_second, numbers.samples_per_second < 10 ? 1 : 0,
                     numbers.is_time_virtual ? " (virtual)" : "");
}

}  // namespace

std::string progress_line(const ProgressNumbers& numbers, std::size_t columns) {
  const double done = static_cast<double>(numbers.step) / static_cast<double>(numbers.total_steps);
  std::vector<Field> fields{
      {6, fmt::format("{:3.0f} %", 100 * done)},
      {7, fmt::format("epoch {:.2f}/{}", numbers.epoch, numbers.total_epochs)},
      {0, fmt::format("step {}/{}", numbers.step, numbers.total_steps)},
      {1, fmt::format("loss {:.4f}", numbers.loss)},
      {3, speed(numbers)},
      {4, fmt::format("comm {}", percent_text(numbers.exposed_share))},
      {5, fmt::format("{}/step", bytes_text(numbers.bytes_per_step))},
      {2, fmt::format("ETA {}", elapsed_text(numbers.seconds_left))},
  };
  while (fields.size() > 1 && joined(fields).size() > columns) {
    fields.erase(std::ranges::max_element(fields, {}, &Field::rank));
  }
  return joined(fields).substr(0, columns);
}

std::string progress_note(const ProgressNumbers& numbers) {
  return fmt::format(
      "epoch {:.4g}/{}  step {}/{}  training loss {:.4f}  {}  {} sent per step  exposed communication {}",
      numbers.epoch, numbers.total_epochs, numbers.step, numbers.total_steps, numbers.loss, speed(numbers),
      bytes_text(numbers.bytes_per_step), percent_text(numbers.exposed_share));
}

void StepTimes::add(const StepTimers& timers, bool overlaps) {
  const auto sum = [&](auto... parts) { return (timers.seconds(parts) + ...); };
  computing += sum(StepPart::kLoad, StepPart::kForward, StepPart::kBackward, StepPart::kOptimize);
  selecting +=
      sum(StepPart::kCompensate, StepPart::kSelect, StepPart::kCompensateSelect, StepPart::kDecode, StepPart::kSettle);
  exchanging += timers.seconds(StepPart::kExchange);
  exposed += timers.seconds(StepPart::kExchangeExposed);
  hidden += timers.seconds(StepPart::kExchangeHidden);
  if (steps > 0) backward += timers.seconds(StepPart::kBackward);
  ++steps;
  overlapped = overlaps;
}

double StepTimes::exposed_share() const {
  const double all = total();
  return all > 0 ? (overlapped ? exposed : exchanging) / all : 0.0;
}

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
