// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <set>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/nn/elementwise.h"
#include "layers/graph.h"
#include "layers/network.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

const Registry<ModelEntry>& models() {
  return Registry<ModelEntry>::instance();
}

using Setting = std::pair<std::string, SettingValue>;
using ModelSettings = std::vector<Setting>;

std::unique_ptr<LayerGraph> make_graph(const std::string& name, const ModelContext& context,
                                       const ModelSettings& settings) {
  const ModelEntry& entry = models().at(name);
  Settings values(entry.settings);
  for (const auto& [key, value] : settings) values.set(key, value);
  return entry.make(values, context);
}

Network make(const std::string& name, const ModelContext& context, const ModelSettings& settings = {},
             const Device& device = {}, const Execution& execution = {}) {
  return Network(make_graph(name, context, settings), 0.0, device, execution);
}

const ModelContext kCifar10{{32, 32, 3}, 10}, kCifar100{{32, 32, 3}, 100}, kImageNet{{224, 224, 3}, 1000};

/// Returns the number of parameters of a model, without memory for them.
std::size_t count(const std::string& name, const ModelContext& context, const ModelSettings& settings = {}) {
  const auto graph = make_graph(name, context, settings);
  std::size_t total = 0;
  for (const ParameterSpec& parameter : graph->parameters()) total += parameter.shape.size();
  return total;
}

constexpr int kClasses = 3;

const Setting kNarrow{"width", 0.125}, kImageNetStem{"stem", std::string("imagenet")};

/// Two samples' inputs of the kind that the model takes, all tokens in range.
std::vector<float> inputs_for(const ModelEntry& entry, const Shape& sample) {
  std::vector<float> inputs = test::random_values(2 * sample.size(), 1);
  if (entry.inputs == InputKind::kTokens)
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i % kClasses);
  return inputs;
}

/// Settings of small relatives of models that are large by default.
const ModelSettings kSmallGpt2{{"layers", std::int64_t{1}}, {"hidden", std::int64_t{8}}, {"heads", std::int64_t{2}}};
const std::map<std::string, ModelSettings> kSmall{{"alexnet", {kNarrow}},
                                                  {"googlenet", {kNarrow}},
                                                  {"inception_v4", {kNarrow}},
                                                  {"senet18", {kNarrow}},
                                                  {"gpt2", kSmallGpt2}};

/// Samples of models that take no smaller ones, or too long for larger ones.
const std::map<std::string, std::vector<Shape>> kSamples{
    {"alexnet", {{63, 67, 3}}}, {"inception_v4", {{5, 6, 1}, {9, 11, 3}}}, {"googlenet", {{11, 9, 3}}}};

std::vector<Shape> samples_for(const std::string& name) {
  if (const auto own = kSamples.find(name); own != kSamples.end()) return own->second;
  switch (models().at(name).inputs) {
    case InputKind::kImages:
      return {{28, 28, 1}, {17, 21, 3}};
    case InputKind::kFeatures:
      return {{7}, {128}};
    case InputKind::kTokens:
      return {{1}, {9}};
    case InputKind::kFrames:
      return {{40, 161}, {25, 81}};
  }
  return {};
}

/// Two samples' labels: classes 0 and 2, one per sample or step, or lists of both.
struct TestTargets {
  TestTargets(TargetKind kind, std::int64_t steps) {
    const bool per_step = kind == TargetKind::kClassPerStep;
    for (std::int64_t i = 0; i < 2 * (per_step ? steps : 1); ++i) labels.push_back(i % 2 == 0 ? 0 : 2);
    if (kind == TargetKind::kClassSequence) labels = {1, 2};  // 0 is the blank
    if (kind == TargetKind::kClassSet || kind == TargetKind::kClassSequence) offsets = {0, 1, 2};
  }
  Targets view() const { return {View<const std::int32_t>(labels), View<const std::int32_t>(offsets)}; }
  std::vector<std::int32_t> labels, offsets;
};

/// Returns ||values - expected|| / ||expected||.
double relative_error(const std::vector<float>& values, const std::vector<float>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    difference += std::pow(static_cast<double>(values[i]) - expected[i], 2);
    norm += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(difference / norm);
}

/// Two samples of a model, and a network that starts from seed 1.
struct TrainingStep {
  TrainingStep(const Device& device, const std::string& name, const Shape& sample, const ModelSettings& settings,
               const Execution& execution = {})
      : network(make(name, {sample, kClasses}, settings, device, execution)),
        inputs(inputs_for(models().at(name), sample)),
        targets(network.target_kind(), sample[0]) {
    network.initialize(1);
  }
  LossResult forward(std::uint64_t step = 0) {
    return network.forward({View<const float>(inputs), targets.view(), 2}, Mode::kTrain, step);
  }
  std::vector<float> gradients() { return dragonn::test::to_host(network.arena().gradients()); }
  void descend(float rate) {
    std::vector<float> values = dragonn::test::to_host(network.arena().values());
    const std::vector<float> slopes = gradients();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * slopes[i];
    kernels::copy(View<const float>(values), network.arena().values());
  }

  Network network;
  std::vector<float> inputs;
  TestTargets targets;
};

/// The tolerances of losses and gradients. Random changes of 2e-7 of parameters and inputs, as rounding makes them,
/// change these models' losses by less than 1e-5 and their gradients by up to 2e-5 (measured); by 3e-3, of resnet18
/// 1e-2 and of resnet50 3e-2, if units next to a kink change sides.
constexpr double kLossTolerance = 1e-3, kGradientTolerance = 6e-2;

/// Checks forward and backward of two samples: everything is finite, every parameter is reported once; on a GPU,
/// results are the CPU's.
void check_training_step(const Device& device, const std::string& name, const Shape& sample,
                         const ModelSettings& settings = {}) {
  CAPTURE(name);
  CAPTURE(sample.to_string());
  TrainingStep step(device, name, sample, settings);
  const LossResult loss = step.forward();
  CHECK(std::isfinite(loss.loss_sum));
  std::multiset<ParameterId> ready;
  step.network.backward([&](ParameterId id) { ready.insert(id); });
  CHECK(ready.size() == step.network.arena().parameters().size());
  CHECK(std::set<ParameterId>(ready.begin(), ready.end()).size() == ready.size());
  double norm = 0;
  for (float value : step.gradients()) norm += static_cast<double>(value) * value;
  CHECK(std::isfinite(norm));
  CHECK(norm > 0);
  if (device.is_cpu()) return;
  TrainingStep expected({}, name, sample, settings);
  CHECK(loss.loss_sum == doctest::Approx(expected.forward().loss_sum).epsilon(kLossTolerance));
  expected.network.backward();
  CHECK(relative_error(step.gradients(), expected.gradients()) < kGradientTolerance);
}

}  // namespace

TEST_SUITE("layers") {
  TEST_CASE("parameter counts are the published ones") {
    CHECK(make("resnet20", kCifar10).arena().size() == 269722);
    CHECK(make("resnet20", kCifar10, {{"shortcut", std::string("projection")}}).arena().size() == 272474);
    CHECK(make("resnet32", kCifar10).arena().size() == 464154);
    CHECK(make("resnet44", kCifar10).arena().size() == 658586);
    CHECK(make("resnet56", kCifar10).arena().size() == 853018);
    CHECK(make("resnet110", kCifar10).arena().size() == 1727962);
    CHECK(make("vgg11", kCifar10).arena().size() == 9231114);
    CHECK(make("vgg13", kCifar10).arena().size() == 9416010);
    CHECK(make("vgg16", kCifar10).arena().size() == 14728266);
    CHECK(make("vgg19", kCifar10).arena().size() == 20040522);
    CHECK(make("resnet18", kCifar10).arena().size() == 11173962);
    CHECK(make("mlp", {{784}, 10}, {{"hidden", std::vector<std::int64_t>{512, 256}}}).arena().size() == 535818);
    CHECK(make("mlp", {{28, 28, 1}, 10}, {{"hidden", std::vector<std::int64_t>{}}}).arena().size() == 7850);
  }

  TEST_CASE("parameter counts of networks for ImageNet are the published ones") {
    CHECK(count("resnet18", kImageNet, {kImageNetStem}) == 11689512);
    CHECK(count("resnet50", kImageNet, {kImageNetStem}) == 25557032);
    CHECK(count("resnet101", kImageNet, {kImageNetStem}) == 44549160);
    CHECK(count("resnet152", kImageNet, {kImageNetStem}) == 60192808);
    CHECK(count("alexnet", kImageNet) == 61100840);
    CHECK(count("inception_v4", {{299, 299, 3}, 1000}, {kImageNetStem}) == 42679816);
    const ModelSettings original{{"form", std::string("imagenet")}};
    CHECK(count("vgg11", kImageNet, original) == 132863336);
    CHECK(count("vgg16", kImageNet, original) == 138357544);
    CHECK(count("vgg19", kImageNet, original) == 143667240);
    // SIDCo (arXiv:2101.10761) counts a class for the background.
    const ModelContext with_background{{224, 224, 3}, 1001};
    CHECK(count("vgg19", with_background, original) == 143671337);
    CHECK(count("resnet50", with_background, {kImageNetStem}) == 25559081);
  }

  TEST_CASE("parameter counts of deeper and wider networks for CIFAR are those of the papers' code") {
    CHECK(count("resnet50", kCifar10) == 23520842);
    CHECK(count("resnet101", kCifar10) == 42512970);
    CHECK(count("resnet152", kCifar10) == 58156618);
    // Those of ExDyna's run.sh.
    CHECK(count("resnet18", kCifar100) == 11220132);
    CHECK(count("googlenet", kCifar10) == 6166250);
    CHECK(count("googlenet", kCifar100) == 6258500);
    CHECK(count("senet18", kCifar10) == 11260354);
    CHECK(count("senet18", kCifar100, {{"form", std::string("residual")}}) == 11436256);
    CHECK(count("inception_v4", kCifar100) == 42679816 - 900 * 1537);
  }

  TEST_CASE("parameter counts of models for text and labels are the papers'") {
    using Setting = std::pair<std::string, SettingValue>;
    const auto parameters = [](int words, std::int64_t hidden, bool tied) {
      return make("lstm_lm", {{35}, words}, {Setting{"hidden", hidden}, {"tied", tied}}).arena().size();
    };
    CHECK(parameters(10000, 1500, false) == 66034000);                       // SIDCo (arXiv:2101.10761), LSTM-PTB
    CHECK(make("xml_linear", {{4096}, 30938}).arena().size() == 126722048);  // DRAGONN, Wiki10-31K
    CHECK(parameters(34069, 650, true) == 28949319);  // ExDyna, LSTM-WikiText-2, at this vocabulary
  }

  TEST_CASE("parameter counts of speech models are the papers'") {
    const auto parameters = [](std::int64_t hidden) {
      return make("lstm_speech", {{200, 161}, 29}, {{"hidden", hidden}}).arena().size();
    };
    CHECK(parameters(1024) == 43476256);  // SIDCo (arXiv:2101.10761), LSTM-AN4
    CHECK(parameters(800) == 27569568);   // Ok-Topk (arXiv:2201.07598), LSTM-AN4
  }

  TEST_CASE("parameter counts of transformers and mixers are the papers'") {
    using Setting = std::pair<std::string, SettingValue>;
    const auto parameters = [](const std::string& name, const ModelContext& context, std::vector<Setting> settings) {
      return make(name, context, settings).arena().size();
    };
    const std::vector<Setting> base{
        {"layers", std::int64_t{12}}, {"hidden", std::int64_t{768}}, {"heads", std::int64_t{12}}};
    std::vector<Setting> untied = base, patches = base;
    untied.push_back({"tied", false});
    patches.push_back({"patch", std::int64_t{16}});
    // Ok-Topk's BERT has a pooler, a next-sentence classifier and two segment embeddings beside.
    const std::size_t pooler = 768 * 768 + 768, next_sentence = 2 * 768 + 2, segments = 2 * 768;
    CHECK(parameters("bert", {{128}, 30522}, untied) + pooler + next_sentence + segments == 133547324);
    // BERT-base for SQuAD, as Hugging Face's BertForQuestionAnswering counts it.
    std::vector<Setting> span = base;
    span.push_back({"head", std::string("span")});
    CHECK(parameters("bert", {{384}, 30522}, span) + segments == 108893186);
    // ViT-B/16 has a class token and its position beside.
    CHECK(parameters("vit", {{224, 224, 3}, 1000}, patches) + 2 * 768 == 86567656);
    CHECK(parameters("mlp_mixer", {{224, 224, 3}, 1000},
                     {{"patch", std::int64_t{16}},
                      {"layers", std::int64_t{8}},
                      {"hidden", std::int64_t{512}},
                      {"token_units", std::int64_t{256}},
                      {"channel_units", std::int64_t{2048}}}) == 18528264);
  }

  TEST_CASE("gpt2 has the published number of parameters, beside rows that pad its tables") {
    const ModelContext text{{1024}, 50257};
    constexpr std::size_t kTokens = 50257 * 768, kPadding = 47 * 768;
    CHECK(count("gpt2", text) == 124439808 + kPadding);
    CHECK(count("gpt2", text, {{"tied", false}}) == 124439808 + kTokens + 2 * kPadding);
    std::size_t padding = 0;
    const Network network = make("gpt2", text);
    for (const LayerSummary& layer : network.summary()) padding += layer.padding;
    CHECK(padding == kPadding);
    CHECK(network.classes() == 50257);
    CHECK(count("gpt2", {{64}, 64}) == 124439808 - kTokens + 64 * 768);  // nothing to pad
    CHECK_THROWS_WITH_AS(make("gpt2", {{1025}, 64}),
                         "model gpt2: samples of 1025 steps are longer than positions = 1024", ConfigError);
  }

  TEST_CASE("gpt2 starts with the deviations of the published code") {
    Network network = make("gpt2", {{8}, 1000},
                           {{"layers", std::int64_t{8}}, {"hidden", std::int64_t{64}}, {"heads", std::int64_t{2}}});
    network.initialize(3);
    for (const ModelTensor& tensor : network.tensors()) {
      CAPTURE(tensor.name);
      double sum = 0, squares = 0;
      for (const float value : tensor.values.host()) {
        sum += value;
        squares += static_cast<double>(value) * value;
      }
      const auto size = static_cast<double>(tensor.values.size());
      const auto ends = [&](const char* name) { return tensor.name.ends_with(name); };
      if (tensor.shape.rank() == 1) {
        CHECK(sum == (ends("norm.weight") ? size : 0));
        continue;
      }
      const double expected = tensor.name == "position.weight"                            ? 0.01
                              : ends("attention.output.weight") || ends("linear2.weight") ? 0.02 / 4  // sqrt(2 * 8)
                                                                                          : 0.02;
      // 4,096 draws at least: their deviation is known to 1.1% (one standard error).
      CHECK(std::sqrt(squares / size) == doctest::Approx(expected).epsilon(0.06));
      CHECK(std::abs(sum / size) < 0.1 * expected);
    }
    const auto table = network.arena().value(0).host();
    CHECK(table.size() == 1024 * 64);
    CHECK(std::ranges::count(table.subspan(1000 * 64), 0.0f) == 24 * 64);
  }

  DRAGONN_DEVICE_TEST("the gradients of a whole gpt2 are right, and it sees nothing to come") {
    for (const bool tied : {true, false}) {
      CAPTURE(tied);
      ModelSettings settings = kSmallGpt2;
      settings.insert(settings.end(), {{"dropout", 0.0}, {"tied", tied}, {"positions", std::int64_t{4}}});
      test::GraphHarness harness(make_graph("gpt2", {{4}, 5}, settings), 2, device, Mode::kTrain, false);
      harness.set_random_parameters();
      const std::vector<float> tokens{0, 3, 1, 4, 2, 2, 0, 1};
      CHECK(test::gradient_error(harness, tokens) < 1e-2);
      const std::vector<float> logits = harness.forward(tokens), other = harness.forward({0, 3, 1, 2, 2, 2, 0, 1});
      const std::size_t step = logits.size() / 8;
      CHECK(std::equal(logits.begin(), logits.begin() + 3 * step, other.begin()));
      CHECK(logits != other);
    }
    test::GraphHarness harness(make_graph("gpt2", {{4}, 5}, kSmallGpt2), 1, device, Mode::kTrain, false);
    CHECK_THROWS_AS(harness.forward({0, 1, 2, 5}), DataError);  // a row that pads is no token
  }

  TEST_CASE("all state of every model has a rule for another number of workers") {
    for (const std::string& name : models().names()) {
      CAPTURE(name);
      const auto graph = make_graph(name, {samples_for(name).back(), kClasses}, {});
      for (const StatisticsSpec& spec : graph->statistics()) {
        CHECK((spec.on_resize == OnResize::kReshard || spec.on_resize == OnResize::kRestart));
      }
      for (const StateSpec& spec : graph->states()) CHECK(spec.on_resize == OnResize::kRestart);
    }
  }

  TEST_CASE("on another number of workers statistics start from their mean, and carried state from zeros") {
    Network images = make("resnet20", {{9, 9, 2}, kClasses});
    images.initialize(1);
    std::vector<float> mean(images.statistics().size());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(i);
    images.resize(View<const float>(mean));
    CHECK(dragonn::test::to_host(images.statistics()) == mean);
    CHECK_FALSE(images.carries_state());

    Network text = make("lstm_lm", {{9}, kClasses});
    text.initialize(1);
    const std::vector<float> tokens(18);
    const TestTargets targets(text.target_kind(), 9);
    text.forward({View<const float>(tokens), targets.view(), 2}, Mode::kTrain);
    CHECK(text.carries_state());
    CHECK_FALSE(text.state(Mode::kTrain).empty());
    text.resize({});
    CHECK(text.state(Mode::kTrain).empty());
  }

  TEST_CASE("published operation counts are met") {
    // ResNet-20: 40.8 million multiply-adds a sample; VGG-16 at 32 x 32: 313; ResNet-50 at 224 x 224: 4.09 billion.
    const auto forward_flops = [](const Network& network) {
      double total = 0;
      for (const LayerSummary& layer : network.summary()) total += layer.forward_flops;
      return total;
    };
    CHECK(forward_flops(make("resnet20", kCifar10)) / 2e6 == doctest::Approx(40.6).epsilon(0.01));
    CHECK(forward_flops(make("vgg16", kCifar10)) / 2e6 == doctest::Approx(313.2).epsilon(0.01));
    const ModelContext imagenet{{224, 224, 3}, 1000};
    CHECK(forward_flops(make("resnet50", imagenet, {{"stem", std::string("imagenet")}})) / 2e9 ==
          doctest::Approx(4.09).epsilon(0.01));
  }

  DRAGONN_DEVICE_TEST("every model runs a training step on samples of several shapes") {
    omp_set_num_threads(1);
    // The deeper ones are the same code as their small relatives.
    std::set<std::string> skipped{"resnet110", "resnet56", "resnet44", "resnet101", "resnet152", "vgg19"};
    if (!device.is_cpu())
      skipped.insert({"resnet18", "resnet32", "vgg13", "vgg16"});  // compared with the CPU, which takes as long
    // Its gradients have no stable digits on images that are small enough for a test: PyTorch's in float32 differ from
    // its own in float64 by a fifth. tests/program/pytorch_test.sh compares them on the CPU.
    if (!device.is_cpu()) skipped.insert("inception_v4");
    for (const std::string& name : models().names()) {
      if (skipped.contains(name)) continue;
      const std::vector<Shape> samples = samples_for(name);
      const ModelSettings settings = kSmall.contains(name) ? kSmall.at(name) : ModelSettings{};
      for (const Shape& sample : samples)
        if (device.is_cpu() || &sample == &samples.back()) check_training_step(device, name, sample, settings);
    }
  }

  DRAGONN_DEVICE_TEST("models run with settings other than the default") {
    omp_set_num_threads(1);
    check_training_step(device, "resnet20", {9, 9, 2}, {{"shortcut", std::string("projection")}});
    check_training_step(device, "resnet18", {37, 33, 3}, {{"stem", std::string("imagenet")}});
    check_training_step(device, "mlp", {5, 5, 2}, {{"activation", std::string("gelu")}, {"dropout", 0.3}});
    check_training_step(device, "senet18", {9, 11, 3}, {kNarrow, {"form", std::string("residual")}});
    check_training_step(device, "vgg11", {33, 35, 3}, {kNarrow, {"form", std::string("imagenet")}, {"dropout", 0.5}});
    check_training_step(device, "alexnet", {63, 63, 1}, {kNarrow, {"local_response", true}, {"dropout", 0.5}});
    if (device.is_cpu()) check_training_step(device, "inception_v4", {75, 76, 1}, {kNarrow, kImageNetStem});
  }

  DRAGONN_DEVICE_TEST("networks of one seed train alike") {
    omp_set_num_threads(1);
    const std::vector<std::pair<std::string, Shape>> cases{
        {"mlp", {28, 28, 1}}, {"resnet20", {17, 21, 3}}, {"lstm_lm", {9}}};
    for (const auto& [name, sample] : cases) {
      CAPTURE(name);
      TrainingStep first(device, name, sample, {}), second(device, name, sample, {}), host({}, name, sample, {});
      for (std::uint64_t step = 0; step < 4; ++step) {
        const double loss = first.forward(step).loss_sum;
        CHECK(second.forward(step).loss_sum == loss);  // to the bit
        // The rounding of a step affects the steps after it.
        CHECK(loss == doctest::Approx(host.forward(step).loss_sum).epsilon(kLossTolerance));
        for (TrainingStep* own : {&first, &second, &host}) {
          own->network.backward();
          own->descend(0.01f);
        }
        CHECK(first.gradients() == second.gradients());
      }
    }
  }

  DRAGONN_DEVICE_TEST("passes that a GPU repeats have the bits of passes that it is asked for anew") {
    omp_set_num_threads(1);
    using Case = std::tuple<std::string, Shape, ModelSettings>;
    const Setting one_layer{"layers", std::int64_t{1}}, dropped{"dropout", 0.4};
    const Setting narrow{"hidden", std::int64_t{8}}, heads{"heads", std::int64_t{2}};
    const std::vector<Case> cases{{"mlp", {5, 5, 2}, {dropped}},
                                  {"resnet20", {9, 9, 2}, {}},
                                  {"lstm_lm", {5}, {narrow, dropped, {"layers", std::int64_t{2}}}},
                                  {"lstm_lm", {5}, {narrow, {"cell", std::string("gru")}}},
                                  {"lstm_speech", {25, 81}, {narrow, one_layer, {"channels", std::int64_t{4}}}},
                                  {"bert", {6}, {narrow, one_layer, heads, dropped}},
                                  {"gpt2", {6}, {narrow, one_layer, heads, dropped}},
                                  {"vit", {8, 8, 2}, {narrow, one_layer, heads, dropped}},
                                  {"mlp_mixer", {8, 8, 2}, {narrow, one_layer}},
                                  {"xml_linear", {7}, {}}};
    for (const auto& [name, sample, settings] : cases) {
      CAPTURE(name);
      TrainingStep repeated(device, name, sample, settings), anew(device, name, sample, settings, {.records = false});
      CHECK(repeated.forward().loss_sum == anew.forward().loss_sum);
      for (std::uint64_t step = 1; step < 4; ++step) {
        for (TrainingStep* own : {&repeated, &anew}) {
          own->network.backward();
          own->descend(0.1f);
        }
        CHECK(repeated.gradients() == anew.gradients());
        CHECK(repeated.forward(step).loss_sum == anew.forward(step).loss_sum);
      }
      CHECK(repeated.network.repetition_obstacle().empty());
    }
  }

  TEST_CASE("the CPU refuses a network of another precision than float32") {
    for (const kernels::DeviceMath math : {kernels::DeviceMath::kTf32, kernels::DeviceMath::kBf16})
      CHECK_THROWS_WITH_AS(make("mlp", kCifar10, {}, {}, {math}),
                           doctest::Contains("the CPU multiplies in float32 only: valid is \"float32\""), ConfigError);
  }

  TEST_CASE("a model that does not fit the data says both shapes") {
    CHECK_THROWS_WITH_AS(make("vgg16", {{16, 16, 3}, 10}),
                         "model vgg16 does not fit samples of shape [16, 16, 3]: it needs images of shape [height, "
                         "width, channels], at least [17, 17, 1]",
                         ConfigError);
    CHECK_THROWS_WITH_AS(make("resnet20", {{784}, 10}), doctest::Contains("[784]"), ConfigError);
    CHECK_THROWS_WITH_AS(make("resnet18", {{16, 16, 3}, 10}, {{"stem", std::string("imagenet")}}),
                         doctest::Contains("at least [17, 17, 1]"), ConfigError);
    CHECK_THROWS_WITH_AS(make("mlp", {{784}, 1}), doctest::Contains("1 classes"), ConfigError);
    CHECK_NOTHROW(make("resnet20", {{3, 3, 1}, 10}));
    CHECK_THROWS_AS(make("resnet20", {{2, 3, 1}, 10}), ConfigError);
  }

  TEST_CASE("a multilayer perceptron takes any activation and dropout") {
    for (const char* name : {"relu", "tanh", "sigmoid", "gelu"})
      CHECK(make("mlp", {{6}, 2}, {{"activation", std::string(name)}, {"dropout", 0.5}}).summary().size() == 4);
    CHECK_THROWS_AS(make("mlp", {{6}, 2}, {{"activation", std::string("step")}}), ConfigError);
    CHECK_THROWS_AS(make("mlp", {{6}, 2}, {{"hidden", std::vector<std::int64_t>{0}}}), ConfigError);
  }

  TEST_CASE("the same seed draws the same parameters for one name, whatever the batch") {
    Network a = make("resnet20", kCifar10), b = make("resnet20", kCifar10);
    a.initialize(3);
    b.initialize(3);
    CHECK(std::ranges::equal(a.arena().values().host(), b.arena().values().host()));
  }
}

}  // namespace dragonn::layers
