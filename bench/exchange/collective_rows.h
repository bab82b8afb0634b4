// SPDX-License-Identifier: MIT
/// CollectiveRows: what was measured of exchanges, as rows beside the formulas; and as a figure.
#pragma once

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

/// Returns a row for an exchange; of a method with phases, one for each phase and one for the mean over a period.
/// Numbers are medians over the measured steps.
Rows collective_rows(const CollectiveRowOptions& options, const ExchangeCase& exchange_case, int ranks,
                     std::span<const ExchangeRecord> records);

/// Returns an SVG file with two logarithmic axes and a line for each collective, algorithm and density. If there are
/// phases, it is the mean over a period. Thin lines are the formulas.
std::string scaling_figure(const Rows& rows, const std::string& title);

}  // namespace dragonn::bench
