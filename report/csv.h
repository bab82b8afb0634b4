// SPDX-License-Identifier: MIT
/// CSV: the comparison for spreadsheets and scripts.
#pragma once

#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// Returns one row per run, after a header; docs/formats.md explains the columns. Numbers are in base units (bytes,
/// seconds); unknown values are empty.
std::string runs_csv(const Comparison& comparison);

/// Returns one row per step line and evaluation of every run: run, kind, step, epoch, seconds, bytes, loss, metric,
/// densities, ...
std::string curves_csv(const Comparison& comparison);

}  // namespace dragonn::report
