// SPDX-License-Identifier: MIT
/// Tests of convolution and linear plans against float64.
#include "kernels/nn/convolution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/buffer.h"
#include "core/rng.h"
#include "kernels/device_math.h"
#include "kernels/nn/attention.h"
#include "kernels/nn/cpu_convolutions.h"
#include "kernels/nn/matrix_product.h"
#include "kernels/nn/recurrent.h"
#include "kernels/typed_view.h"
#include "tests/kernels/weighted_reference.h"
#include "tests/support/devices.h"
#include "tests/support/tolerance.h"
#include "tests/support/typed_values.h"

namespace dragonn::kernels {
namespace {

using dragonn::test::on_device;
using dragonn::test::poisoned;
using dragonn::test::to_host;
using dragonn::test::TypedBuffer;
using dragonn::test::values_of;
using Values = std::vector<float>;

Values random_values(std::size_t count, std::uint64_t seed) {
  Rng stream(seed, "kernels test");
  Values values(count);
  for (float& value : values) value = stream.normal();
  return values;
}

/// Returns ||values - expected|| / ||expected||.
double relative_error(const Values& values, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    difference += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

/// Results of one forward and backward of a plan, in memory that starts as NaN.
struct PlanRun {
  PlanRun(const Device& device, Plan& plan, const Values& input, const Values& weights, const Values& bias,
          const Values& gradient_of_output, bool want_input_gradient = true, ElementType type = ElementType::kFloat32) {
    const auto unwritten = [&](std::size_t size) {
      return TypedBuffer(Values(size, std::numeric_limits<float>::quiet_NaN()), type, device);
    };
    const TypedBuffer inputs(input, type, device), gradients(gradient_of_output, type, device);
    const Buffer<float> weight = on_device(weights, device), biases = on_device(bias, device);
    const PlanMemory memory = plan.memory();
    Buffer<float> saved = poisoned(memory.saved, device), forward = poisoned(memory.forward_scratch, device),
                  backward = poisoned(memory.backward_scratch, device);
    const TypedBuffer outputs = unwritten(gradient_of_output.size()),
                      to_input = unwritten(want_input_gradient ? input.size() : 0);
    Buffer<float> to_weights = poisoned(weights.size(), device), to_bias = poisoned(bias.size(), device);
    const TypedView<const float> read = inputs.view(), from_output = gradients.view();
    const TypedView<float> written = to_input.view();
    const View<const float> parameters[] = {weight.view(), biases.view()};
    const View<float> parameter_gradients[] = {to_weights.view(), to_bias.view()};
    plan.forward({.inputs = {&read, 1},
                  .parameters = parameters,
                  .output = outputs.view(),
                  .saved = saved.view(),
                  .scratch = forward.view()});
    plan.backward({.inputs = {&read, 1},
                   .parameters = parameters,
                   .output_gradients = {&from_output, 1},
                   .input_gradients = {&written, 1},
                   .parameter_gradients = parameter_gradients,
                   .saved = saved.view(),
                   .scratch = backward.view()});
    output = values_of(outputs.view());
    input_gradient = values_of(to_input.view());
    weights_gradient = to_host(to_weights.view());
    bias_gradient = to_host(to_bias.view());
  }
  Values output, input_gradient, weights_gradient, bias_gradient;
};

/// Returns the tolerance for sums of `terms` float32 products: on the CPU the sums run in many chains, whose rounding
/// errors of 2^-24 add up in quadrature; a GPU's may run in one.
double tolerance(const Device& device, std::size_t terms) {
  return device.is_cpu() ? 2e-6 : dragonn::test::product_tolerance(DeviceMath::kFloat32, terms);
}

ConvolutionSpec square(std::int64_t batch, std::int64_t side, std::int64_t channels, std::int64_t outputs,
                       const Window& window, std::int64_t groups = 1) {
  ConvolutionSpec spec;
  spec.batch = batch;
  spec.height = side;
  spec.width = side + 1;
  spec.channels = channels;
  spec.output_channels = outputs;
  spec.vertical = spec.horizontal = window;
  spec.groups = groups;
  return spec;
}

/// Returns the number of products in the longest sum of a convolution or of its gradients: the weights' run over all
/// pixels of the batch.
std::size_t terms(const ConvolutionSpec& spec) {
  const std::int64_t window = spec.vertical.kernel * spec.horizontal.kernel;
  const std::int64_t outputs = spec.output_height() * spec.output_width();
  return static_cast<std::size_t>(
      std::max(window * std::max(spec.channels, spec.output_channels) / spec.groups, spec.batch * outputs));
}

void check_against_float64(const Device& device, Plan& plan, const ConvolutionSpec& spec, double allowed) {
  const auto size = [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<std::size_t>(a * b * c * d);
  };
  CAPTURE(spec.height);
  CAPTURE(spec.channels);
  CAPTURE(spec.output_channels);
  CAPTURE(spec.vertical.stride);
  CAPTURE(spec.groups);
  const Values input = random_values(size(spec.batch, spec.height, spec.width, spec.channels), 1);
  const Values weights = random_values(
      size(spec.vertical.kernel, spec.horizontal.kernel, spec.channels / spec.groups, spec.output_channels), 2);
  const Values bias = random_values(spec.bias ? static_cast<std::size_t>(spec.output_channels) : 0, 3);
  const Values gradient =
      random_values(size(spec.batch, spec.output_height(), spec.output_width(), spec.output_channels), 4);
  const PlanRun run(device, plan, input, weights, bias, gradient, spec.input_gradient, spec.type);
  const auto expected = test::reference_convolution(spec, input, weights, bias, gradient);
  CHECK(relative_error(run.output, expected.output) < allowed);
  CHECK(relative_error(run.weights_gradient, expected.weights_gradient) < allowed);
  if (spec.input_gradient) CHECK(relative_error(run.input_gradient, expected.input_gradient) < allowed);
  if (spec.bias) CHECK(relative_error(run.bias_gradient, expected.bias_gradient) < allowed);
}

void check_chosen(const Device& device, const ConvolutionSpec& spec, double allowed) {
  check_against_float64(device, *make_convolution_plan(device, spec), spec, allowed);
}

/// Checks products by tap, which only the CPU has.
void check_taps(const ConvolutionSpec& spec) {
  check_against_float64({}, *make_tap_convolution(spec), spec, tolerance({}, terms(spec)));
}

/// Checks strips, which only the CPU has.
void check_strips(const ConvolutionSpec& spec) {
  check_against_float64({}, *make_strip_convolution(spec), spec, tolerance({}, terms(spec)));
}

/// Checks Winograd's convolution, which only the CPU has.
void check_winograd(const ConvolutionSpec& spec) {
  check_against_float64({}, *make_winograd_convolution(spec), spec, tolerance({}, terms(spec)));
}

void check_linear(const Device& device, int batch, int inputs, int outputs) {
  CAPTURE(inputs);
  const double allowed = tolerance(device, static_cast<std::size_t>(std::max({batch, inputs, outputs})));
  // A linear map is a convolution of one pixel, with its weights transposed.
  ConvolutionSpec pixel;
  pixel.batch = batch;
  pixel.channels = inputs;
  pixel.output_channels = outputs;
  const auto count = static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs);
  const Values input = random_values(static_cast<std::size_t>(batch * inputs), 1), weights = random_values(count, 2);
  const Values bias = random_values(static_cast<std::size_t>(outputs), 3);
  const Values gradient = random_values(static_cast<std::size_t>(batch * outputs), 4);
  const auto transposed = [&](const auto& from, std::int64_t rows, std::int64_t columns) {
    auto to = from;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
    return to;
  };
  const auto plan = make_linear_plan(device, {batch, inputs, outputs});
  const PlanRun run(device, *plan, input, weights, bias, gradient);
  const auto expected = test::reference_convolution(pixel, input, transposed(weights, outputs, inputs), bias, gradient);
  CHECK(relative_error(run.output, expected.output) < allowed);
  CHECK(relative_error(run.input_gradient, expected.input_gradient) < allowed);
  CHECK(relative_error(run.weights_gradient, transposed(expected.weights_gradient, inputs, outputs)) < allowed);
  CHECK(relative_error(run.bias_gradient, expected.bias_gradient) < allowed);
}

}  // namespace

TEST_SUITE("kernels") {
  DRAGONN_DEVICE_TEST("convolutions agree with float64, whatever shape selects which implementation") {
    const auto check = [&](const ConvolutionSpec& spec) { check_chosen(device, spec, tolerance(device, terms(spec))); };
    check(square(3, 9, 16, 32, {3, 1, 1}));
    check(square(2, 9, 5, 10, {3, 2, 1}));
    check(square(2, 16, 64, 64, {3, 1, 1}));  // Winograd's
    check(square(2, 15, 32, 16, {3, 1, 2}));
    check(square(4, 4, 48, 64, {3, 1, 1}));  // few pixels: patches
    check(square(4, 1, 70, 33, {3, 1, 1}));
    check(square(32, 2, 128, 128, {3, 1, 1}));  // taps
    check(square(8, 5, 128, 130, {1, 2, 0}));   // a product of pixels
    check(square(5, 7, 3, 17, {5, 2, 2}));
    check(square(2, 8, 32, 48, {1, 2, 0}));
    check(square(2, 8, 6, 9, {3, 1, 1}, 3));
    check(square(2, 6, 32, 32, {3, 1, 1}, 32));  // depthwise
    ConvolutionSpec first = square(2, 12, 3, 16, {3, 1, 1});
    first.input_gradient = false;
    first.bias = false;
    check(first);
    check(square(2, 7, 5, 6, {2, 2, 0, true}));  // windows that overhang the end
    check(square(2, 5, 64, 32, {1, 1, 0}, 2));   // pixels of groups are their own patches
  }

  TEST_CASE("the CPU refuses plans of another precision than float32") {
    const Device cpu;
    const doctest::Contains message("the CPU multiplies in float32 only: valid is \"float32\"");
    for (const DeviceMath math : {DeviceMath::kTf32, DeviceMath::kBf16}) {
      ConvolutionSpec spec = square(2, 5, 3, 4, {3, 1, 1});
      spec.math = math;
      CHECK_THROWS_WITH_AS(make_convolution_plan(cpu, spec), message, ConfigError);
      CHECK_THROWS_WITH_AS(make_linear_plan(cpu, {.math = math}), message, ConfigError);
      CHECK_THROWS_WITH_AS(make_packed_product(cpu, {.math = math}), message, ConfigError);
      CHECK_THROWS_WITH_AS(make_attention_plan(cpu, {.math = math}), message, ConfigError);
      CHECK_THROWS_WITH_AS(make_recurrent_plan(cpu, {.math = math}), message, ConfigError);
    }
  }

  DRAGONN_DEVICE_TEST("a plan's math mode rounds factors") {
    if (device.is_cpu()) return;
    const ConvolutionSpec plain = square(3, 9, 16, 32, {3, 1, 1}), grouped = square(2, 8, 6, 9, {3, 1, 1}, 3);
    // Convolutions of float32 round their factors to no less than 11 bits, with bf16 products, too.
    for (const DeviceMath math : {DeviceMath::kTf32, DeviceMath::kBf16}) {
      for (ConvolutionSpec spec : {plain, grouped}) {
        spec.math = math;
        check_chosen(device, spec, dragonn::test::product_tolerance(DeviceMath::kTf32, terms(spec)));
      }
    }
    check_chosen(device, plain, tolerance(device, terms(plain)));
  }

  DRAGONN_DEVICE_TEST("convolutions of bf16 agree with float64, by graphs of cuDNN, its older calls and patches") {
    if (device.is_cpu()) return;  // which has float32 only
    // Inputs, weights and results are rounded, by up to 2^-8 each.
    for (ConvolutionSpec spec :
         {square(3, 9, 16, 32, {3, 1, 1}), square(2, 8, 6, 9, {3, 1, 1}, 3), square(2, 7, 5, 6, {2, 2, 0, true}),
          square(2, 5, 64, 32, {1, 1, 0}, 2), square(5, 7, 3, 17, {5, 2, 2}), square(2, 8, 32, 48, {1, 2, 0})}) {
      spec.type = ElementType::kBf16;
      check_chosen(device, spec, 8e-3);
      spec.bias = spec.input_gradient = false;
      check_chosen(device, spec, 8e-3);
    }
  }

  DRAGONN_DEVICE_TEST("in bf16 small integers stay exact, in every gradient, and others are rounded") {
    if (device.is_cpu()) return;
    ConvolutionSpec spec = square(2, 8, 8, 16, {3, 1, 1});
    spec.type = ElementType::kBf16;
    const std::unique_ptr<Plan> plan = make_convolution_plan(device, spec);
    // Sums of at most 144 ones: integers up to 256 are exact.
    const auto integers = [](std::size_t count, std::uint64_t seed) {
      Rng rng(seed, "integers");
      Values values(count);
      for (float& value : values) value = static_cast<float>(rng.below(3)) - 1;
      return values;
    };
    constexpr std::size_t kPixels = 2 * 8 * 9;
    Values input = integers(kPixels * 8, 1);
    const Values weights = integers(9 * 8 * 16, 2), bias = integers(16, 3), gradient = integers(kPixels * 16, 4);
    const auto as_floats = [](const std::vector<double>& values) { return Values(values.begin(), values.end()); };
    const PlanRun run(device, *plan, input, weights, bias, gradient, true, spec.type);
    const auto expected = test::reference_convolution(spec, input, weights, bias, gradient);
    CHECK(run.output == as_floats(expected.output));
    CHECK(run.weights_gradient == as_floats(expected.weights_gradient));
    CHECK(run.input_gradient == as_floats(expected.input_gradient));
    CHECK(run.bias_gradient == as_floats(expected.bias_gradient));
    // 257 is as near to 256 as to 258, and becomes the even one.
    for (float& value : input) value *= 257;
    Values rounded = input;
    for (float& value : rounded) value = from_bf16(to_bf16(value));
    const PlanRun first(device, *plan, input, weights, bias, gradient, true, spec.type);
    const PlanRun second(device, *plan, rounded, weights, bias, gradient, true, spec.type);
    CHECK(first.output == second.output);
    CHECK(first.weights_gradient == second.weights_gradient);
  }

  TEST_CASE("bf16 is the nearest number of 8 bits, of two the even one, and keeps what is not finite") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto rounded = [](float value) { return from_bf16(to_bf16(value)); };
    for (const float value : {0.0f, -0.0f, 1.0f, -255.0f, 256.0f, 0x1.fep-126f, 0x1p-133f, kInfinity, -kInfinity}) {
      CHECK(std::bit_cast<std::uint32_t>(rounded(value)) == std::bit_cast<std::uint32_t>(value));
    }
    CHECK(rounded(257) == 256);
    CHECK(rounded(259) == 260);
    CHECK(rounded(257.01f) == 258);
    CHECK(rounded(-1.003f) == -1);
    CHECK(rounded(std::numeric_limits<float>::max()) == kInfinity);
    CHECK(rounded(0x1p-134f) == 0);
    CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))));
    CHECK(std::isnan(rounded(std::bit_cast<float>(0xffffffffu))));
  }

  TEST_CASE("convolutions of strips agree with float64 for any kernel, stride, padding and groups") {
    ConvolutionSpec spec = square(2, 9, 4, 6, {5, 1, 2});
    spec.horizontal = {7, 2, 3};
    check_strips(spec);
    spec.groups = 2;
    spec.vertical = {5, 3, 1};  // phases of 2, 2 and 1 kernel rows
    check_strips(spec);
    spec.vertical = {2, 3, 0};  // a phase without kernel rows
    spec.horizontal = {1, 2, 0};
    spec.bias = false;
    check_strips(spec);
    spec.vertical = {11, 2, 5};  // most kernel rows lie in the padding
    spec.height = 2;
    spec.horizontal = {5, 3, 1, /*ceil=*/true};
    check_strips(spec);
    spec.input_gradient = false;
    check_strips(spec);
    // Several pieces: the strips of all rows do not fit at once.
    ConvolutionSpec large = square(3, 50, 8, 8, {11, 1, 5});
    large.horizontal = {21, 2, 10};
    check_strips(large);
    check_chosen({}, large, tolerance({}, terms(large)));
  }

  TEST_CASE("convolutions by tap agree with float64 for any kernel and padding") {
    check_taps(square(3, 4, 5, 6, {3, 1, 1}));
    ConvolutionSpec spec = square(2, 2, 3, 4, {5, 1, 2});  // some taps meet padding alone
    spec.horizontal = {2, 1, 0};
    check_taps(spec);
    spec.bias = false;
    spec.input_gradient = false;
    spec.vertical = {1, 1, 0};
    check_taps(spec);
    spec.vertical = {7, 1, 5};  // more outputs than inputs
    check_taps(spec);
  }

  TEST_CASE("convolutions by tap agree with float64 on rows with gaps, whatever the threads share out") {
    check_taps(square(3, 13, 5, 6, {3, 1, 1}));
    ConvolutionSpec spec = square(2, 12, 3, 4, {5, 1, 2});
    check_taps(spec);
    for (const Window& window : {Window{5, 1, 1}, {5, 1, 4}, {2, 1, 3}, {4, 1, 0}, {1, 1, 2}}) {
      spec.horizontal = window;
      CAPTURE(window.kernel);
      check_taps(spec);
    }
    spec.width = 1;
    spec.horizontal = {7, 1, 9};  // more padding than image
    check_taps(spec);
    const int threads = omp_get_max_threads();
    for (const int count : {1, 2, 3}) {
      omp_set_num_threads(count);
      check_taps(square(31, 16, 5, 6, {3, 1, 1}));  // bands, and taps
      check_taps(square(40, 9, 6, 5, {4, 1, 2}));   // bands that cut rows' runs
    }
    omp_set_num_threads(threads);
  }

  TEST_CASE("convolutions of single pixels agree with float64, with and without strides") {
    ConvolutionSpec spec = square(3, 5, 4, 7, {1, 1, 0});
    const auto check = [&] {
      check_against_float64({}, *make_pointwise_convolution(spec), spec, tolerance({}, terms(spec)));
    };
    check();
    spec.horizontal.stride = 3;
    check();
    spec.vertical.stride = 2;
    spec.bias = false;
    check();
    spec.input_gradient = false;
    check();
    spec.vertical.kernel = 2;
    CHECK_THROWS_AS(make_pointwise_convolution(spec), Error);
  }

  TEST_CASE("Winograd's convolutions agree with float64 for any padding, size and number of channel blocks") {
    for (const std::int64_t padding : {0, 1, 2}) {
      CAPTURE(padding);
      check_winograd(square(3, 7, 16, 16, {3, 1, padding}));  // tiles that overhang
      check_winograd(square(1, 3, 48, 32, {3, 1, padding}));
      check_winograd(square(2, 6, 32, 128, {3, 1, padding}));
      check_winograd(square(2, 5, 96, 80, {3, 1, padding}));
    }
    check_winograd(square(5, 20, 64, 64, {3, 1, 1}));   // several chunks of tiles
    check_winograd(square(1, 1, 16, 16, {3, 1, 1}));    // fewer outputs than a tile has
    check_winograd(square(40, 17, 16, 32, {3, 1, 0}));  // several chunks in every group of sums
    ConvolutionSpec spec = square(2, 9, 16, 48, {3, 1, 1});
    spec.bias = spec.input_gradient = false;
    check_winograd(spec);
    spec.horizontal.padding = 0;
    CHECK_THROWS_AS(make_winograd_convolution(spec), Error);
    CHECK_THROWS_AS(make_winograd_convolution(square(1, 8, 24, 16, {3, 1, 1})), Error);
    CHECK_THROWS_AS(make_winograd_convolution(square(1, 8, 16, 16, {3, 2, 1})), Error);
  }

  TEST_CASE("Winograd's convolutions give the same bits on any number of threads, also on fewer than planned") {
    const ConvolutionSpec spec = square(20, 11, 32, 16, {3, 1, 1});
    const Values input = random_values(20 * 11 * 12 * 32, 1), weights = random_values(9 * 32 * 16, 2);
    const Values bias = random_values(16, 3), gradient = random_values(20 * 11 * 12 * 16, 4);
    const int threads = omp_get_max_threads();
    const auto run = [&](int planned, int used) {
      omp_set_num_threads(planned);
      const auto plan = make_winograd_convolution(spec);
      omp_set_num_threads(used);
      const PlanRun result({}, *plan, input, weights, bias, gradient);
      omp_set_num_threads(threads);
      return result;
    };
    const PlanRun one = run(1, 1);
    for (const auto& [planned, used] : {std::pair{2, 2}, {3, 3}, {5, 5}, {3, 1}, {2, 5}}) {
      CAPTURE(planned);
      CAPTURE(used);
      const PlanRun other = run(planned, used);
      CHECK(one.output == other.output);
      CHECK(one.input_gradient == other.input_gradient);
      CHECK(one.weights_gradient == other.weights_gradient);
    }
  }

  TEST_CASE("strips leave what a convolution does not read without a gradient") {
    ConvolutionSpec spec = square(1, 4, 1, 1, {1, 2, 0});
    spec.bias = false;
    const Values input(20, 3.0f), weights{2.0f}, gradient(6, 1.0f);
    const PlanRun run({}, *make_strip_convolution(spec), input, weights, {}, gradient);
    CHECK(run.output == Values(6, 6.0f));
    CHECK(run.weights_gradient == Values{18.0f});
    for (std::size_t i = 0; i < 20; ++i)
      CHECK(run.input_gradient[i] == (i / 5 % 2 == 0 && i % 5 % 2 == 0 ? 2.0f : 0.0f));
  }

  DRAGONN_DEVICE_TEST("linear maps agree with float64") {
    check_linear(device, 1, 7, 5);
    check_linear(device, 3, 130, 10);
    check_linear(device, 32, 784, 65);
  }

  TEST_CASE("linear maps agree with float64 however many threads share out their outputs") {
    const int threads = omp_get_max_threads();
    for (const int count : {1, 2, 3, 5}) {
      CAPTURE(count);
      omp_set_num_threads(count);
      check_linear({}, 40, 9, 401);
      check_linear({}, 33, 20, 640);
    }
    omp_set_num_threads(threads);
  }

  DRAGONN_DEVICE_TEST("a plan made for evaluation has no backward") {
    const auto plan = make_linear_plan(device, {.batch = 1, .inputs = 2, .outputs = 2, .training = false});
    const Values two(2, 1.0f), four(4, 1.0f);
    CHECK_THROWS_WITH(PlanRun(device, *plan, two, four, two, two), doctest::Contains("made for evaluation"));
  }

  TEST_CASE("a device without a row is refused by name") {
    const Operation<int()> operation("of nothing", [] { return 0; });
    CHECK_THROWS_WITH_AS(operation.at({DeviceType::kCuda, 1}),
                         doctest::Contains("operation of nothing has no kernel for device cuda:1"), DeviceError);
    CHECK_THROWS_AS(make_linear_plan({DeviceType::kCuda, 99}, {}), DeviceError);
  }

  TEST_CASE("windows count their positions") {
    CHECK(Window{3, 1, 1}.outputs(32) == 32);
    CHECK(Window{3, 2, 1}.outputs(7) == 4);
    CHECK(Window{2, 2, 0}.outputs(7) == 3);
    CHECK(Window{2, 2, 0, true}.outputs(7) == 4);
    CHECK(Window{2, 2, 0, true}.padding_after(7) == 1);
    CHECK(Window{3, 2, 1, true}.outputs(6) == 4);
    CHECK(Window{1, 3, 0, true}.outputs(2) == 1);  // a window must start on an input
    CHECK(Window{5, 1, 0}.outputs(3) == 0);
    CHECK(Window{3, 1, 1}.inputs_read(4) == 10);
    CHECK(Window{2, 2, 0, true}.inputs_read(7) == 7);
  }
}

}  // namespace dragonn::kernels
