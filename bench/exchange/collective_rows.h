// SPDX-License-Identifier: MIT
/// CollectiveRows: what was measured of exchanges, as rows beside the formulas; and as a figure.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>

#include "bench/exchange/exchange_measure.h"
#include "bench/rows.h"
#include "comm/network_model.h"

namespace dragonn::bench {

struct CollectiveRowOptions {
  std::string backend;
  std::string network_name;                   ///< "none" without a network
  std::optional<comm::NetworkModel> network;  ///< network of seconds_formula
  std::string compute;                        ///< "wall", or on a virtual cluster "zero" or "measured"
  bool everything = false;                    ///< adds the parts beside the collective
};

/// A row for each exchange. If a method has phases, one for each phase and one for the mean over a period. Numbers are
/// medians over the measured steps.
class CollectiveRows {
 public:
  explicit CollectiveRows(CollectiveRowOptions options) : options_(std::move(options)) {}

  void add(const ExchangeCase& exchange_case, int ranks, std::span<const ExchangeRecord> records);
  Rows take() { return std::move(rows_); }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  struct Measured {
    std::string phase;
    std::size_t steps = 0;
    ExchangeRecord record;
    comm::Prediction expected;
    double of_bound = kUnknown;  ///< the most that a rank moved in any of the steps, over the method's bound
  };
  void add_row(const ExchangeCase& exchange_case, int ranks, const Measured& measured);

  CollectiveRowOptions options_;
  Rows rows_;
};

/// Returns each quantity's median over the steps, of its mean and of its maximum.
ExchangeRecord median(std::span<const ExchangeRecord> records);

/// Returns an SVG file with two logarithmic axes and a line for each collective, algorithm and density. If there are
/// phases, it is the mean over a period. Thin lines are the formulas.
std::string scaling_figure(const Rows& rows, const std::string& title);

}  // namespace dragonn::bench
