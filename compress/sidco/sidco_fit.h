// SPDX-License-Identifier: MIT
/// The distributions that SIDCo fits to magnitudes, and the thresholds that they give.
#pragma once

namespace dragonn::compress {

// Of y, positive numbers with a mean and a variance, the fit asks where only a share q of them lies above, 0 < q <= 1.
// Pure functions in double, local, O(1). Source: arXiv:2101.10761 (SIDCo), section 2.3; formulas in docs/algorithms.md.

/// Exponential: mean * ln(1 / q).
double exponential_threshold(double mean, double q);

/// Generalized Pareto with survival (1 + shape * y / scale)^(-1 / shape); shape 0 is exponential.
struct ParetoFit {
  double shape = 0;
  double scale = 0;
};
/// By moments. @param variance positive, with n - 1 below.
ParetoFit fit_pareto(double mean, double variance);
/// The y of survival q; shapes below 1e-6 count as 0.
double pareto_quantile(const ParetoFit& fit, double q);
/// The quantile of the fit. Equal values (a variance of 0, up to the rounding of sums) give the mean; a fit that has no
/// business as a tail (shape -1/2 or below, or not finite) gives way to the exponential.
double pareto_threshold(double mean, double variance, double q);

/// Gamma with density y^(shape - 1) exp(-y / scale).
struct GammaFit {
  double shape = 0;
  double scale = 0;
};
/// By an approximation of maximum likelihood (Minka). @param mean_log mean of ln y.
GammaFit fit_gamma(double mean, double mean_log);
/// Closed form, from a bound on the tail for shapes up to 1; may be negative.
double gamma_quantile_closed(const GammaFit& fit, double q);
/// The y of survival q to rounding: bisection on the regularized incomplete gamma function. Shapes up to 1e4.
double gamma_quantile_exact(const GammaFit& fit, double q);

enum class GammaInverse { kClosed, kExact };
/// The quantile of the fit. Gives way to the exponential where the closed form does not hold (shape above 1, or a
/// result that is not positive), where the exact one is out of range, and where there is no fit (equal values).
double gamma_threshold(double mean, double mean_log, double q, GammaInverse inverse);

}  // namespace dragonn::compress
