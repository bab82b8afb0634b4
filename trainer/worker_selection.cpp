// SPDX-License-Identifier: MIT
/// Worker's tensor choice: decides which tensors a run sparsifies, before the first step.
#include <algorithm>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "core/file.h"
#include "core/log.h"
#include "core/units_text.h"
#include "trainer/density_plan.h"
#include "trainer/worker.h"

namespace dragonn::trainer {

bool Worker::ends_unsettled() const {
  return total_steps_ <= exchange::unsettled_steps(config_.rules, communicator_.size());
}

SelectionQuestion Worker::selection_question() const {
  SelectionQuestion question{
      .config = config_,
      .buckets = exchange_->buckets(),
      .densities =
          sparse_densities(config_.compression, std::max(scheduled_steps_, total_steps_), position_.steps_per_epoch()),
      .world_size = communicator_.size(),
      .device = device(),
      .ready = ready_shares(network_.summary(), exchange_->buckets()),
      .overlaps = overlapped_ != nullptr,
      .arena = &network_.arena(),
      .layers = network_.summary(),
      .native_is_tree = communicator_.backend() != "mpi"};
  if (ends_unsettled()) {
    question.counts = exchange::forecast_counts(config_.rules, communicator_.size(), exchange::RunPart::kFirstSteps);
    question.counts_are_forecast = true;
  }
  return question;
}

void Worker::check_profile() const {
  if (wants_costs(config_, communicator_.size())) given_profile(selection_question());
}

/// Returns whether the restored decision covers the densities that this run's config schedules.
bool Worker::selection_fits() const {
  return selection_ && std::ranges::all_of(selection_question().densities, [&](double density) {
           return std::ranges::count(selection_->densities, density, &DensityCosts::density) > 0;
         });
}

void Worker::choose_none() {
  warn(
      "compression.select_tensors = \"cost_model\" with one worker: nothing is exchanged, so sparsifying gains "
      "nothing, "
      "and every tensor stays dense");
  std::vector<exchange::BucketChoice> choices;
  for (const double density : selection_question().densities)
    choices.push_back({density, std::vector<bool>(exchange_->buckets().size(), false)});
  exchange_->restrict_to(std::move(choices));
}

/// Reports the advice in one line; dry runs show the table.
void Worker::tell_advice() {
  if (has_advice()) tell(describe_advice(*selection_), *selection_->advice);
}

void Worker::tell(const std::string& text, const StepAdvice& advice) {
  if (advice.sparse_is_faster()) return log::info(communicator_.rank(), "{}", text);
  if (!wants_costs(config_, communicator_.size())) {
    // What was measured briefly is no part of the run's state, where warnings are.
    if (communicator_.rank() == 0) log::warning(0, "{}", text);
    return;
  }
  progress_.dense_is_faster = true;
  warn(text);
}

bool Worker::has_advice() const {
  return config_.logging.advice && selection_ && selection_->advice;
}

void Worker::begin_traffic_check() {
  const double density = config_.compression.density;
  if (!config_.compression.selects() || communicator_.size() == 1) return;
  exchange::ExchangePlan plan = plan_.exchange;
  if (selection_ && selects_by_cost(config_)) {
    const auto choices = bucket_choices(*selection_, exchange_->buckets());
    const auto choice = std::ranges::find(choices, density, &exchange::BucketChoice::density);
    if (choice == choices.end()) return;
    exchange::apply_choice(config_.rules, *choice, communicator_.size(), plan);
    predicted_ = exchange::forecast_bytes(config_.rules, plan, density, communicator_.size());
  }
  if (std::ranges::count(plan.buckets, exchange::ExchangeForm::kSparse, &exchange::BucketPlan::form) == 0) return;
  traffic_check_.emplace(config_.rules, ends_unsettled() ? predicted_.first : predicted_.settled);
}

void Worker::check_traffic(double density) {
  // A density warm-up sends more on purpose, and a step that was skipped nothing.
  if (!traffic_check_ || skipped_ || density != config_.compression.density) return;
  const comm::ScopedPhase phase(communicator_.traffic(), comm::Phase::kMetrics);
  const auto sent = static_cast<double>(sample_.traffic[static_cast<std::size_t>(comm::Phase::kExchange)].bytes_sent);
  const auto seen = traffic_check_->add(communicator_, exchange_->counts(), sent);
  if (!seen) return;
  std::string line =
      fmt::format("steps {} to {}: each worker sends {} a step, {} times the {} that {}",
                  progress_.step + 1 - TrafficCheck::kWindow, progress_.step, bytes_text(seen->bytes),
                  three_digits(seen->bytes / traffic_check_->assumed().expected),
                  bytes_text(traffic_check_->assumed().expected), has_advice() ? "the advice took" : "were predicted");
  if (!has_advice()) {
    line += fmt::format(" (dense: {})", bytes_text(plan_.dense_cost.bytes_sent));
    return log::info(communicator_.rank(), "{}", line);
  }
  SelectionQuestion question = selection_question();
  question.counts = seen->counts;
  question.counts_are_forecast = false;
  TensorSelection corrected = *selection_;
  corrected.advice = advise_again(question, *selection_);
  tell(fmt::format("{}; {}", line, describe_advice(corrected)), *corrected.advice);
}

/// Records the backward time, so that a rerun knows what overlap can hide.
void Worker::record_backward() {
  if (!selection_ || !report_ || report_->times().steps < 2) return;
  const StepTimes& times = report_->times();
  selection_->backward_seconds = times.backward / (times.steps - 1);
  write_file_atomically(folder_.profile(), to_json(*selection_));
}

void Worker::choose_tensors() {
  if (selects_by_cost(config_) && communicator_.size() == 1) return choose_none();
  const bool asks = wants_costs(config_, communicator_.size());
  if (!asks) {
    selection_.reset();
    if (measures_briefly(config_, communicator_)) selection_ = estimate_costs(communicator_, selection_question());
    if (!selection_) return;
  } else if (!selection_fits()) {
    selection_ = trainer::choose_tensors(communicator_, selection_question());
  }
  if (selection_->densities.empty() && !selection_->advice) return;
  tell_advice();
  comm::all_ranks_or_none(communicator_, [&] {
    if (selects_by_cost(config_)) exchange_->restrict_to(bucket_choices(*selection_, exchange_->buckets()));
    if (communicator_.rank() == 0) write_file_atomically(folder_.profile(), to_json(*selection_));
  });
}

}  // namespace dragonn::trainer
