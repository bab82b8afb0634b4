// SPDX-License-Identifier: MIT
/// Exchanges of a gradient, step after step, as training makes them: seconds, bytes and messages of every one.
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

/// What is exchanged, and how often.
struct ExchangeCase {
  trainer::ExchangeRules rules;  ///< the gradient is one bucket
  std::string collective;        ///< its name, also where the rules exchange dense
  std::size_t numel = 0;
  double density = 1;
  WorkerGradientRules gradients = {};
  std::size_t warm_up = 0;  ///< steps before the first that is measured
  std::size_t steps = 1;
  bool aligned = true;  ///< all ranks begin the collective at the same time; else it waits for slower ranks' selections
  ExchangeFiles files = {};
  /// Selections are drawn as lists: there are no gradients, and nothing is decoded (ReduceContext::payload_only).
  bool payload_only = false;

  /// The collective, also of a dense exchange.
  const Component& component() const { return rules.buckets.compress ? rules.collective : rules.dense; }
  /// Of the selections.
  SelectionTraits traits() const;
  /// What the collective's formulas say of an exchange as it was measured. NaN where nothing is known: MPI's own
  /// allreduce.
  comm::Prediction predict(const std::string& backend, int ranks, const ExchangeRecord& record) const;
  /// Steps from one that computes the collective's threshold to the next; 1: all steps are alike.
  std::size_t period() const;
  bool computes_threshold(std::uint64_t step) const { return period() > 1 && step % period() == 0; }
};

/// Collective. Runs the case and returns the measured steps, on every rank. All ranks begin a step at the same time.
/// @param on_step is called behind every step, on the rank's thread and outside of measured time; may be empty.
/// @throws AgreedError, the same on all ranks, for input that differs in length or holds NaN or infinity,
/// and where the gradient exchange throws it.
std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             const std::function<void()>& on_step = {});

}  // namespace dragonn::bench
