// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco_fit.h"

#include <cmath>
#include <limits>

namespace dragonn::compress {
namespace {

/// The share of the squared mean below which a variance is rounding error of the sums of equal values.
constexpr double kRelativeVarianceOfEquals = 1e-12;
/// The shape below which the power form of the Pareto quantile loses all digits; the logarithm is its limit.
constexpr double kShapeOfExponential = 1e-6;
/// The shape below which the fourth moment bends the fit to a density that rises towards its end.
constexpr double kSmallestParetoShape = -0.5;
/// The shape above which values are equal to 1 %, and the series of the incomplete gamma function grow long.
constexpr double kLargestGammaShape = 1e4;

/// Returns ln Gamma(x), x > 0. std::lgamma writes a global variable.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

/// Returns P(a, x) = sum over i of x^(a + i) e^-x / Gamma(a + i + 1), for x < a + 1.
double lower_gamma_series(double a, double x, double log_x) {
  double term = std::exp(a * log_x - x - log_gamma(a + 1));
  double sum = term;
  for (double i = 1; term > sum * std::numeric_limits<double>::epsilon(); ++i) {
    term *= x / (a + i);
    sum += term;
  }
  return sum;
}

/// Returns Q(a, x) = 1 - P(a, x) by its continued fraction (modified Lentz), for x >= a + 1.
double upper_gamma_fraction(double a, double x, double log_x) {
  constexpr double kTiny = std::numeric_limits<double>::min();
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b;
  double fraction = d, change = 0;
  for (double i = 1; std::fabs(change - 1) > 2 * std::numeric_limits<double>::epsilon(); ++i) {
    const double numerator = -i * (i - a);
    b += 2;
    d = b + numerator * d;
    d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
    c = b + numerator / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    change = c * d;
    fraction *= change;
  }
  return std::exp(a * log_x - x - log_gamma(a)) * fraction;
}

/// Returns the regularized upper incomplete gamma function Q(a, e^log_x).
double upper_gamma(double a, double log_x) {
  const double x = std::exp(log_x);
  return x < a + 1 ? 1 - lower_gamma_series(a, x, log_x) : upper_gamma_fraction(a, x, log_x);
}

}  // namespace

double exponential_threshold(double mean, double q) {
  return -mean * std::log(q);
}

ParetoFit fit_pareto(double mean, double variance) {
  const double ratio = mean * mean / variance;
  return {.shape = 0.5 * (1 - ratio), .scale = 0.5 * mean * (ratio + 1)};
}

double pareto_quantile(const ParetoFit& fit, double q) {
  if (std::fabs(fit.shape) < kShapeOfExponential) return exponential_threshold(fit.scale, q);
  return fit.scale / fit.shape * (std::pow(q, -fit.shape) - 1);
}

double pareto_threshold(double mean, double variance, double q) {
  if (variance <= kRelativeVarianceOfEquals * mean * mean) return mean;
  const ParetoFit fit = fit_pareto(mean, variance);
  const double threshold = pareto_quantile(fit, q);
  if (!(fit.shape > kSmallestParetoShape) || !std::isfinite(threshold)) return exponential_threshold(mean, q);
  return threshold;
}

GammaFit fit_gamma(double mean, double mean_log) {
  const double s = std::log(mean) - mean_log;
  const double shape = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  return {.shape = shape, .scale = mean / shape};
}

double gamma_quantile_closed(const GammaFit& fit, double q) {
  return -fit.scale * (std::log(q) + log_gamma(fit.shape));
}

double gamma_quantile_exact(const GammaFit& fit, double q) {
  if (q >= 1) return 0;
  // In ln x, since small shapes span hundreds of orders of magnitude. P(a, x) <= x^a / Gamma(a + 1) bounds it below.
  double low = (std::log1p(-q) + log_gamma(fit.shape + 1)) / fit.shape;
  double high = std::log(fit.shape + 1);
  while (upper_gamma(fit.shape, high) > q) high += 1;
  while (true) {
    const double middle = low + 0.5 * (high - low);
    if (!(middle > low && middle < high)) return fit.scale * std::exp(high);
    (upper_gamma(fit.shape, middle) > q ? low : high) = middle;
  }
}

double gamma_threshold(double mean, double mean_log, double q, GammaInverse inverse) {
  const GammaFit fit = fit_gamma(mean, mean_log);
  const double largest_shape = inverse == GammaInverse::kClosed ? 1.0 : kLargestGammaShape;
  if (fit.shape > 0 && fit.shape <= largest_shape) {
    const double threshold =
        inverse == GammaInverse::kClosed ? gamma_quantile_closed(fit, q) : gamma_quantile_exact(fit, q);
    if (threshold > 0 && std::isfinite(threshold)) return threshold;
  }
  return exponential_threshold(mean, q);
}

}  // namespace dragonn::compress
