// SPDX-License-Identifier: MIT
#include "trainer/metrics/progress_line.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

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

}  // namespace dragonn::trainer
