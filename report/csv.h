// SPDX-License-Identifier: MIT
/// CSV: the comparison for spreadsheets and scripts.
#pragma once

#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// One row per run, after a header; docs/formats.md explains the columns. Numbers are in base units (bytes, seconds);
/// what is not known is empty.
std::string runs_csv(const Comparison& comparison);

/// One row per step line and evaluation of every run: run, kind, step, epoch, seconds, bytes, loss, metric, densities,
/// ...
std::string curves_csv(const Comparison& comparison);

}  // namespace dragonn::report
