// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/round_length.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kMade = "made";
constexpr const char* kElapsed = "seconds";
constexpr const char* kLast = "last_step_seconds";

bool is_count(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() > 0;
}

}  // namespace

InnerStepsRecord::InnerStepsRecord(const std::filesystem::path& metrics) {
  std::istringstream lines(read_text_file(metrics));
  std::size_t number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++number;
    if (text.find("\"round\"") == std::string::npos) continue;
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || line.value("kind", nlohmann::json()) != "round") continue;
    const nlohmann::json end = line.value("step", nlohmann::json()), steps = line.value("inner_steps", end);
    if (!is_count(end) || !steps.is_array() || !std::ranges::all_of(steps, is_count))
      throw DataError(fmt::format("{}:{}: expected a step and the inner_steps of each worker, all of at least 1",
                                  metrics.string(), number));
    rounds_[end.get<std::uint64_t>()] = steps.get<std::vector<std::uint64_t>>();
  }
}

const std::vector<std::uint64_t>* InnerStepsRecord::round(std::uint64_t end) const {
  const auto found = rounds_.find(end);
  return found == rounds_.end() ? nullptr : &found->second;
}

RoundLength::RoundLength(const Settings& settings)
    : planned_(static_cast<std::uint64_t>(settings.integer("inner_steps"))),
      seconds_(settings.number("inner_seconds")),
      file_(settings.text("inner_steps_from")) {
  if (file_.empty()) return;
  record_.emplace(file_);
  require(
      !record_->empty(),
      "update.inner_steps_from = \"{}\": it has no line of kind \"round\": expected the metrics.jsonl of a run with "
      "update.inner_seconds",
      file_);
}

void RoundLength::begin(std::uint64_t done, std::uint64_t total, int ranks, const std::filesystem::path& earlier) {
  if (file_.empty() && seconds_ > 0 && std::filesystem::exists(earlier)) record_.emplace(earlier);
  if (seconds_ > 0 || !record_) return;
  while (done < total) {
    done = std::min((done / planned_ + 1) * planned_, total);
    const std::vector<std::uint64_t>* const steps = record_->round(done);
    require(steps != nullptr,
            "update.inner_steps_from = \"{}\": it has no round that ends after step {}: expected the record of as many "
            "steps and update.inner_steps, or update.inner_seconds above 0 for the rounds that it lacks",
            file_, done);
    require(steps->size() == static_cast<std::size_t>(ranks),
            "update.inner_steps_from = \"{}\": its round that ends after step {} is of {} workers: expected {}", file_,
            done, steps->size(), ranks);
  }
}

bool RoundLength::is_cut(std::uint64_t end, int rank, int ranks) const {
  if (const auto* const steps = recorded(end, ranks)) return made_ + 1 >= (*steps)[static_cast<std::size_t>(rank)];
  // Behind the next step there is no time for another one, if both take as long as the last.
  return seconds_ > 0 && elapsed_ + 2 * last_ > seconds_;
}

const std::vector<std::uint64_t>* RoundLength::recorded(std::uint64_t end, int ranks) const {
  const std::vector<std::uint64_t>* const steps = record_ ? record_->round(end) : nullptr;
  return steps != nullptr && steps->size() == static_cast<std::size_t>(ranks) ? steps : nullptr;
}

void RoundLength::add_step(double seconds) {
  ++made_;
  elapsed_ += seconds;
  last_ = seconds;
}

float RoundLength::weight(comm::Communicator& communicator) {
  const comm::ScopedOperation operation = communicator.operation("inner_steps");
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kHeader);
  of_all_.resize(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const std::uint64_t>(&made_, 1), std::span(of_all_));
  const auto sum = static_cast<double>(std::accumulate(of_all_.begin(), of_all_.end(), std::uint64_t{0}));
  return static_cast<float>(static_cast<double>(made_ * of_all_.size()) / sum);
}

std::span<const std::uint64_t> RoundLength::end() {
  made_ = 0;
  elapsed_ = 0;
  return of_all_;
}

void RoundLength::save(Archive& rank, const std::string& prefix) const {
  rank.put(prefix + kMade, made_);
  rank.put(prefix + kElapsed, elapsed_);
  rank.put(prefix + kLast, last_);
}

void RoundLength::load(const Archive& rank, const std::string& prefix) {
  if (!rank.contains(prefix + kMade)) return;  // a checkpoint of an earlier version
  made_ = rank.get<std::uint64_t>(prefix + kMade);
  elapsed_ = rank.get<double>(prefix + kElapsed);
  last_ = rank.get<double>(prefix + kLast);
}

}  // namespace dragonn::trainer
