// SPDX-License-Identifier: MIT
/// Measures exchanges of a gradient, step by step; and what was measured, as rows beside the formulas and as a figure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "bench/gradients.h"
#include "comm/communicator.h"
#include "comm/network_model.h"
#include "comm/sparse/sparse_collective.h"
#include "core/timer.h"
#include "exchange/gradient_exchange.h"
#include "trainer/metrics/metrics.h"

namespace dragonn::bench {

/// The files of an exchange. All arrays are float32 of one dimension and of one length.
struct ExchangeFiles {
  std::string input;  ///< each rank's accumulated gradient: a path with "{rank}" in it; empty: none
  std::string dump;   ///< folder of the outcome, made if needed; empty: none
};

/// Returns the length of the array, from the file of rank 0. @throws ConfigError if `pattern` does not hold "{rank}",
/// or as read_gradient.
std::size_t input_numel(const std::string& pattern);

/// A quantity of one exchange on one rank. Bytes and messages are payload; counts and flags are headers.
enum Quantity : std::size_t {
  kSeconds,       ///< of the collective, decoding included
  kSecondsTotal,  ///< from compensate to settle
  kBytesSent,
  kBytesReceived,
  kMessagesSent,
  kMessagesReceived,
  kHeaderBytesSent,
  kHeaderMessagesSent,
  kSelected,   ///< entries that the rank selected
  kGlobal,     ///< entries of the sum
  kFirstPart,  ///< this and those after it: seconds by StepPart
  kQuantities = kFirstPart + kStepPartNames.size()
};

/// The quantities of one step, over the ranks.
struct ExchangeRecord {
  std::uint64_t step = 0;
  std::array<trainer::MeanMax, kQuantities> values{};
};

/// The exchange to be measured, and how often.
struct ExchangeCase {
  exchange::ExchangeRules rules;  ///< the gradient is one bucket
  std::string collective;         ///< its name, also where the rules exchange dense
  std::size_t numel = 0;
  double density = 1;
  WorkerGradientRules gradients = {};
  std::size_t warm_up = 0;  ///< steps before the first that is measured
  std::size_t steps = 1;
  bool aligned = true;  ///< all ranks begin the collective at the same time; else it waits for slower ranks' selections
  ExchangeFiles files = {};
  /// Draws selections as lists: there are no gradients, and nothing is decoded (comm/sparse/sized_lists.h).
  bool payload_only = false;

  /// Returns the collective, also of a dense exchange.
  const Component& component() const { return rules.buckets.compress ? rules.collective : rules.dense; }
  /// Returns the shape of the gradient, a tensor.
  Shape shape() const { return {1, static_cast<std::int64_t>(numel)}; }
  /// Returns the entries that a rank is to send.
  std::size_t k() const;
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
/// @throws CollectiveError, the same on all ranks, for input that differs in length or holds NaN or infinity, and if
/// the gradient exchange throws it.
std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             const std::function<void()>& on_step = {});

struct CollectiveRowOptions {
  std::string backend;
  std::string network_name;                   ///< "none" without a network
  std::optional<comm::NetworkModel> network;  ///< network of seconds_formula
  std::string compute;                        ///< "wall", or on a virtual cluster "zero" or "measured"
  bool everything = false;                    ///< adds the parts beside the collective
};

/// Returns a row for an exchange; of a method with phases, one for each phase and one for the mean over a period.
/// Numbers are medians over the measured steps.
Rows collective_rows(const CollectiveRowOptions& options, const ExchangeCase& exchange_case, int ranks,
                     std::span<const ExchangeRecord> records);

/// Returns an SVG file with two logarithmic axes and a line for each collective, algorithm and density. If there are
/// phases, it is the mean over a period. Thin lines are the formulas.
std::string scaling_figure(const Rows& rows, const std::string& title);

}  // namespace dragonn::bench
