// SPDX-License-Identifier: MIT
/// Exchange measurement: seconds, bytes and messages of every exchange, step after step as in training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/exchange_files.h"
#include "bench/exchange_record.h"
#include "bench/worker_gradient.h"
#include "comm/communicator.h"
#include "trainer/exchange/gradient_exchange.h"

namespace dragonn::bench {

/// The exchange to be measured, and how often.
struct ExchangeCase {
  trainer::ExchangeRules rules;  ///< the gradient is one bucket
  std::string collective;        ///< its name, also where the rules exchange dense
  std::size_t numel = 0;
  double density = 1;
  WorkerGradientRules gradients = {};
  std::size_t warm_up = 0;  ///< steps before the first that is measured
  std::size_t steps = 1;
  bool aligned = true;  ///< all ranks begin the collective at the same time; otherwise it waits for slower ranks
  ExchangeFiles files = {};
  /// Draws selections as lists: there are no gradients, and nothing is decoded (ReduceContext::payload_only).
  bool payload_only = false;

  /// Returns the collective, also of a dense exchange.
  const Component& component() const { return rules.buckets.compress ? rules.collective : rules.dense; }
  /// Returns the traits of the selections.
  SelectionTraits traits() const;
  /// Predicts an exchange by the collective's formulas. NaN if there are none: MPI's own allreduce.
  comm::Prediction predict(const std::string& backend, int ranks, const ExchangeRecord& record) const;
  /// Returns the number of steps from one that computes the collective's threshold to the next; 1 if all steps are
  /// alike.
  std::size_t period() const;
  bool computes_threshold(std::uint64_t step) const { return period() > 1 && step % period() == 0; }
};

/// Collective. Runs the case and returns the measured steps, on every rank. All ranks begin a step at the same time.
/// @param on_step is called after every step, on the rank's thread and outside of measured time; may be empty.
/// @throws AgreedError, the same on all ranks, for input that differs in length or holds NaN or infinity, and if the
/// gradient exchange throws it.
std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             const std::function<void()>& on_step = {});

}  // namespace dragonn::bench
