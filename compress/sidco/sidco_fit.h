// SPDX-License-Identifier: MIT
/// SIDCo fits: the distributions that SIDCo fits to magnitudes, and their thresholds.
#pragma once

namespace dragonn::compress {

// The values y are positive numbers with a mean and a variance. A threshold is the value that a share q of them exceeds
// by the fit, 0 < q <= 1. All functions are pure, in double, local, O(1). Source: arXiv:2101.10761 (SIDCo), section
// 2.3; formulas in docs/algorithms.md.

/// Returns the threshold of an exponential fit: mean * ln(1 / q).
double exponential_threshold(double mean, double q);

/// A generalized Pareto distribution with survival (1 + shape * y / scale)^(-1 / shape); shape 0 is exponential.
struct ParetoFit {
  double shape = 0, scale = 0;
};
/// Fits by moments. @param variance positive, divides by n - 1.
ParetoFit fit_pareto(double mean, double variance);
/// Returns the y of survival q; shapes below 1e-6 count as 0.
double pareto_quantile(const ParetoFit& fit, double q);
/// Returns the threshold of the fit. Equal values (a variance of 0, up to the rounding of sums) give the mean; a fit
/// that is no tail (shape -1/2 or below, or not finite) gives way to the exponential.
double pareto_threshold(double mean, double variance, double q);

/// A gamma distribution with density y^(shape - 1) exp(-y / scale).
struct GammaFit {
  double shape = 0, scale = 0;
};
/// Fits by an approximation of maximum likelihood (Minka). @param mean_log mean of ln y.
GammaFit fit_gamma(double mean, double mean_log);
/// Returns the quantile in closed form, from a bound on the tail for shapes up to 1; may be negative.
double gamma_quantile_closed(const GammaFit& fit, double q);
/// Returns the y of survival q to rounding, by bisection on the incomplete gamma function. Shapes up to 1e4.
double gamma_quantile_exact(const GammaFit& fit, double q);

enum class GammaInverse { kClosed, kExact };
/// Returns the threshold of the fit. The exponential replaces it if the closed form does not hold (shape above 1, or a
/// result that is not positive), if the exact one is out of range, and if there is no fit (equal values).
double gamma_threshold(double mean, double mean_log, double q, GammaInverse inverse);

}  // namespace dragonn::compress
