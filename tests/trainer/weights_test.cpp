// SPDX-License-Identifier: MIT
/// Weights in safetensors files: layouts, names, what a file may lack, and damaged files.
#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <numeric>

#include <doctest/doctest.h>

#include "comm/agreement.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "tests/trainer/quick_run.h"
#include "trainer/weights/model_weights.h"

namespace dragonn::trainer {
namespace {

using layers::LayerGraph;
using layers::ModelEntry;
using layers::ModelTensor;
using layers::Network;
using testing::TemporaryFolder;

const Registry<ModelEntry>& models() {
  return Registry<ModelEntry>::instance();
}

/// Returns the smallest samples that all models of a kind take.
Shape sample_of(const std::string& name) {
  switch (models().at(name).inputs) {
    case layers::InputKind::kImages:
      return name == "alexnet" ? Shape{63, 63, 3} : Shape{17, 18, 3};
    case layers::InputKind::kFeatures:
      return {5};
    case layers::InputKind::kTokens:
      return {4};
    case layers::InputKind::kFrames:
      return {24, 33};
  }
  return {};
}

/// Returns a small network of a model: narrow and of few layers, where its settings say so.
Network small_network(const std::string& name, const std::vector<std::pair<std::string, SettingValue>>& more = {}) {
  Settings settings(models().at(name).settings);
  std::vector<std::pair<std::string, SettingValue>> wanted{{"width", 0.0625}};
  for (const char* integer : {"layers", "channels"}) wanted.emplace_back(integer, std::int64_t{2});
  for (const char* integer : {"token_units", "channel_units"}) wanted.emplace_back(integer, std::int64_t{8});
  if (name != "mlp") wanted.emplace_back("hidden", std::int64_t{12});
  if (settings.contains("heads")) wanted.emplace_back("heads", std::int64_t{2});
  wanted.insert(wanted.end(), more.begin(), more.end());
  for (const auto& [key, value] : wanted) {
    if (settings.contains(key)) settings.set(key, value);
  }
  return Network(models().at(name).make(settings, {sample_of(name), 4}), 0.0);
}

/// Fills a network with whole numbers that all differ, as far as float32 tells; rows that pad stay zero.
void number(Network& network) {
  network.initialize(1);
  float next = 1;
  for (const ModelTensor& tensor : network.tensors()) {
    for (float& value : tensor.values.host()) value = next++;
  }
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const auto found = std::ranges::find(file.tensors(), name, &FileTensor::name);
  REQUIRE(found != file.tensors().end());
  std::vector<float> values(found->bytes.size() / sizeof(float));
  std::memcpy(values.data(), found->bytes.data(), found->bytes.size());
  return values;
}

/// Writes a file of the header and of as many bytes of values; `length` is what it states as the header's length.
void write_raw(const std::filesystem::path& path, const std::string& header, std::size_t values,
               std::optional<std::uint64_t> length = std::nullopt) {
  const std::uint64_t stated = length.value_or(header.size());
  std::string file(sizeof stated, '\0');
  std::memcpy(file.data(), &stated, sizeof stated);
  write_file_atomically(path, file + header + std::string(values, '\0'));
}

std::string error_of(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

/// A network of one linear layer "output" with `inputs` and two outputs.
Network linear_network(std::int64_t inputs) {
  auto graph = std::make_unique<LayerGraph>(Shape{inputs});
  graph->add("output", layers::linear({.outputs = 2}), {LayerGraph::input()});
  return Network(std::move(graph), 0.0);
}

TEST_SUITE("trainer") {
  TEST_CASE("the weights of every model come back from a file bit for bit") {
    const TemporaryFolder folder;
    for (const std::string& name : models().names()) {
      CAPTURE(name);
      Network network = small_network(name), copy = small_network(name);
      number(network);
      copy.initialize(2);
      export_weights(folder / "weights", network, {.model = name, .step = 7});
      CHECK(import_weights(folder / "weights", copy).empty());
      CHECK(same_bits(network.arena().values().host(), copy.arena().values().host()));
      CHECK(same_bits(network.statistics().host(), copy.statistics().host()));
      const SafetensorsFile file(folder / "weights");
      CHECK(file.metadata().at("model") == name);
      CHECK(file.metadata().at("step") == "7");
      CHECK(file.tensors().size() == network.tensors().size());
    }
  }

  TEST_CASE("gpt2's weights have Hugging Face's names and layouts") {
    const TemporaryFolder folder;
    const auto& form = models().at("gpt2").weights;
    for (const bool tied : {true, false}) {
      CAPTURE(tied);
      Network network = small_network("gpt2", {{"tied", tied}}), copy = small_network("gpt2", {{"tied", tied}});
      number(network);
      export_weights(folder / "weights", network, {.model = "gpt2", .step = 7}, form);
      const SafetensorsFile file(folder / "weights");
      CHECK(file.metadata().at("format") == "pt");
      std::map<std::string, std::vector<std::uint64_t>> shapes;
      for (const FileTensor& tensor : file.tensors()) shapes[tensor.name] = tensor.shape;
      CHECK(shapes.size() == 2 + 2 * 12 + 2 + (tied ? 0 : 1));
      CHECK(shapes["transformer.wte.weight"] == std::vector<std::uint64_t>{4, 12});
      CHECK(shapes["transformer.wpe.weight"] == std::vector<std::uint64_t>{1024, 12});
      CHECK(shapes["transformer.h.1.attn.c_attn.weight"] == std::vector<std::uint64_t>{12, 36});
      CHECK(shapes["transformer.h.0.mlp.c_proj.weight"] == std::vector<std::uint64_t>{48, 12});
      CHECK(shapes["transformer.h.0.ln_2.bias"] == std::vector<std::uint64_t>{12});
      CHECK(shapes.contains("lm_head.weight") == !tied);
      const auto tensors = network.tensors();
      const auto qkv = std::ranges::find(tensors, "layer1.attention.qkv.weight", &ModelTensor::name)->values.host();
      const std::vector<float> there = floats_of(file, "transformer.h.1.attn.c_attn.weight");
      for (std::size_t output = 0; output < 36; ++output)
        for (std::size_t input = 0; input < 12; ++input) CHECK(there[input * 36 + output] == qkv[output * 12 + input]);
      copy.initialize(2);
      CHECK(import_weights(folder / "weights", copy, form).empty());
      CHECK(same_bits(network.arena().values().host(), copy.arena().values().host()));
    }
  }

  TEST_CASE("gpt2's weights are read as the hub has them, and refused by file and tensor") {
    const TemporaryFolder folder;
    const auto& form = models().at("gpt2").weights;
    Network network = small_network("gpt2"), copy = small_network("gpt2");
    network.initialize(1);
    copy.initialize(2);
    export_weights(folder / "ours", network, {}, form);
    const SafetensorsFile ours(folder / "ours");
    std::vector<FileTensor> tensors = ours.tensors();
    for (FileTensor& tensor : tensors) tensor.name.erase(0, std::string("transformer.").size());
    const std::vector<float> mask(16), other(48, 2.0f);
    tensors.push_back({"h.0.attn.bias", "F32", {1, 1, 4, 4}, std::as_bytes(std::span(mask))});
    tensors.push_back({"h.1.attn.masked_bias", "F32", {}, std::as_bytes(std::span(mask).first(1))});
    const auto table = std::ranges::find(tensors, "wte.weight", &FileTensor::name);
    const std::size_t head = tensors.size();
    tensors.push_back({"lm_head.weight", "F32", {4, 12}, table->bytes});
    const auto import = [&](Network& into) {
      write_file_atomically(folder / "hub", safetensors_bytes(tensors, {}));
      return import_weights(folder / "hub", into, form);
    };
    CHECK(import(copy).empty());
    CHECK(same_bits(network.arena().values().host(), copy.arena().values().host()));
    // A model that does not tie takes the one table for both.
    Network untied = small_network("gpt2", {{"tied", false}});
    untied.initialize(3);
    tensors.pop_back();
    CHECK(import(untied).empty());
    CHECK(same_bits(untied.tensors().front().values.host(), untied.tensors().back().values.host()));

    const std::string file = (folder / "hub").string();
    const auto refusal = [&]() -> std::string {
      try {
        import(copy);
      } catch (const ConfigError& error) {
        return error.what();
      }
      return "";
    };
    tensors.push_back({"lm_head.weight", "F32", {4, 12}, std::as_bytes(std::span(other))});
    CHECK(refusal() ==
          file + ": tensor 'lm_head.weight': it differs from 'wte.weight', and the model has one weight for both");
    tensors[head] = {"h.2.ln_1.weight", "F32", {12}, std::as_bytes(std::span(other).first(12))};
    tensors.erase(std::ranges::find(tensors, "h.1.ln_1.bias", &FileTensor::name));
    const std::vector<std::string> warnings = import(copy);
    REQUIRE(warnings.size() == 2);
    CHECK(warnings[0] == file +
                             " lacks tensors of the model, which keep their initial values: 1 "
                             "(transformer.h.1.ln_1.bias)");
    CHECK(warnings[1] == file + " has tensors that the model does not have: 1 (h.2.ln_1.weight)");
    const auto linear = std::ranges::find(tensors, "h.0.attn.c_attn.weight", &FileTensor::name);
    std::ranges::reverse(linear->shape);
    CHECK(refusal() == file + ": tensor 'h.0.attn.c_attn.weight': its shape is [36, 12], and the model's is [12, 36]");
    // Our own names are not the form's: their layouts differ.
    export_weights(folder / "own", network, {});
    CHECK_THROWS_WITH_AS(import_weights(folder / "own", copy, form), doctest::Contains("none of its tensors"),
                         ConfigError);
  }

  TEST_CASE("files have channels before pixels, in convolutions and behind a flattening") {
    const TemporaryFolder folder;
    auto graph = std::make_unique<LayerGraph>(Shape{2, 3, 2});
    layers::ConvolutionSettings filter;
    filter.outputs = 4;
    filter.vertical = {.kernel = 1};
    filter.horizontal = {.kernel = 2, .stride = 1, .padding = 0};
    auto last = graph->add("conv", layers::convolution(filter), {LayerGraph::input()});
    last = graph->add("flatten", layers::flatten(), {last});
    last = graph->add("relu", layers::activation(kernels::Activation::kRelu), {last});
    last = graph->add("bn", layers::batch_norm({}), {last});
    last = graph->add("hidden", layers::linear({.outputs = 16, .bias = false}), {last});
    graph->add("output", layers::linear({.outputs = 2}), {last});
    Network network(std::move(graph), 0.0);
    number(network);
    export_weights(folder / "weights", network, {});
    const SafetensorsFile file(folder / "weights");

    std::map<std::string, std::span<const float>> own;
    for (const ModelTensor& tensor : network.tensors()) own[tensor.name] = tensor.values.host();
    const std::vector<float> convolution = floats_of(file, "conv.weight");  // [4, 2, 1, 2] of [1, 2, 2, 4]
    for (std::size_t output = 0; output < 4; ++output)
      for (std::size_t input = 0; input < 2; ++input)
        for (std::size_t tap = 0; tap < 2; ++tap)
          CHECK(convolution[(output * 2 + input) * 2 + tap] == own["conv.weight"][(tap * 2 + input) * 4 + output]);
    const std::vector<float> hidden = floats_of(file, "hidden.weight"), mean = floats_of(file, "bn.running_mean");
    for (std::size_t channel = 0; channel < 4; ++channel)
      for (std::size_t pixel = 0; pixel < 4; ++pixel) {  // of an image of 2 x 2
        CHECK(mean[channel * 4 + pixel] == own["bn.running_mean"][pixel * 4 + channel]);
        for (std::size_t row = 0; row < 16; ++row)
          CHECK(hidden[row * 16 + channel * 4 + pixel] == own["hidden.weight"][row * 16 + pixel * 4 + channel]);
      }
    const std::vector<float> output = floats_of(file, "output.weight");
    CHECK(std::ranges::equal(output, own["output.weight"]));
    CHECK(std::ranges::find(file.tensors(), "conv.weight", &FileTensor::name)->shape ==
          std::vector<std::uint64_t>{4, 2, 1, 2});
  }

  TEST_CASE("names and types of PyTorch are understood, and what a file lacks keeps its values") {
    const TemporaryFolder folder;
    Network network = small_network("lstm_speech", {{"bidirectional", true}, {"lookahead", std::int64_t{0}}});
    number(network);
    std::vector<FileTensor> tensors;
    std::vector<std::vector<std::uint16_t>> halves;
    std::size_t dropped = 0;
    for (const ModelTensor& tensor : network.tensors()) {
      if (tensor.name == "output.weight" && ++dropped > 0) continue;
      std::string name = "module." + tensor.name;
      for (const std::string part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
        if (const std::size_t at = name.find(part); at != std::string::npos) name.insert(at + part.size(), "_l0");
      }
      std::vector<std::uint64_t> shape(tensor.shape.extents().begin(), tensor.shape.extents().end());
      if (shape.size() == 4) shape = {shape[3], shape[2], shape[0], shape[1]};
      const bool bf16 = halves.size() % 2 == 0;
      // 1 in both types.
      const auto& values = halves.emplace_back(tensor.shape.size(), static_cast<std::uint16_t>(bf16 ? 0x3f80 : 0x3c00));
      tensors.push_back({name, bf16 ? "BF16" : "F16", shape, std::as_bytes(std::span(values))});
    }
    const std::int64_t count = 3;
    tensors.push_back({"module.conv1.bn.num_batches_tracked", "I64", {}, std::as_bytes(std::span(&count, 1))});
    tensors.push_back({"head.scale", "I64", {}, std::as_bytes(std::span(&count, 1))});
    write_file_atomically(folder / "weights", safetensors_bytes(tensors, {}));
    const auto first = [&] { return network.arena().value(network.arena().parameters().size() - 1).host()[0]; };
    const float kept = first();
    const std::vector<std::string> warnings = import_weights(folder / "weights", network);
    REQUIRE(warnings.size() == 2);
    CHECK(warnings[0] == (folder / "weights").string() +
                             " lacks tensors of the model, which keep their initial values: 1 (output.weight)");
    CHECK(warnings[1] == (folder / "weights").string() + " has tensors that the model does not have: 1 (head.scale)");
    for (const ModelTensor& tensor : network.tensors()) {
      CAPTURE(tensor.name);
      if (tensor.name == "output.weight") continue;
      CHECK(std::ranges::all_of(tensor.values.host(), [](float value) { return value == 1; }));
    }
    CHECK(first() == kept);
  }

  TEST_CASE("float16 and bfloat16 are read as the numbers that they are") {
    const TemporaryFolder folder;
    Network network = linear_network(3);
    network.initialize(1);
    const std::vector<std::uint16_t> weight{0x0000, 0x8001, 0x03ff, 0x3555, 0x7bff, 0xfbff}, bias{0x4049, 0xff7f};
    const std::vector<FileTensor> tensors{{"output.weight", "F16", {2, 3}, std::as_bytes(std::span(weight))},
                                          {"output.bias", "BF16", {2}, std::as_bytes(std::span(bias))}};
    write_file_atomically(folder / "weights", safetensors_bytes(tensors, {}));
    CHECK(import_weights(folder / "weights", network).empty());
    const std::vector<float> expected{0, -0x1p-24F, 0x3ffp-24F, 0x1.554p-2F, 65504, -65504, 0x1.92p1F, -0x1.fep127F};
    std::vector<float> read;
    for (const ModelTensor& tensor : network.tensors())
      read.insert(read.end(), tensor.values.host().begin(), tensor.values.host().end());
    CHECK(same_bits(read, expected));
  }

  TEST_CASE("weights that do not fit are refused by file and tensor, and change nothing") {
    const TemporaryFolder folder;
    Network network = linear_network(3);
    network.initialize(1);
    const std::vector<float> before(network.arena().values().host().begin(), network.arena().values().host().end());
    const std::vector<std::byte> zeros(64);
    const auto refused = [&](const std::vector<FileTensor>& tensors) -> std::string {
      write_file_atomically(folder / "w", safetensors_bytes(tensors, {}));
      try {
        import_weights(folder / "w", network);
      } catch (const ConfigError& error) {
        return error.what();
      }
      return "";
    };
    const auto bytes = [&](std::size_t count) { return std::span(zeros).first(count); };
    const std::string file = (folder / "w").string();
    const FileTensor bias{"output.bias", "F32", {2}, bytes(8)};
    CHECK(refused({bias, {"output.weight", "F32", {3, 2}, bytes(24)}}) ==
          file + ": tensor 'output.weight': its shape is [3, 2], and the model's is [2, 3]");
    CHECK(refused({bias, {"output.weight", "F64", {2, 3}, bytes(48)}}) ==
          file + ": tensor 'output.weight': its type is F64; expected F32, F16 or BF16");
    CHECK(refused({bias, {"module.output.bias", "F32", {2}, bytes(8)}}) ==
          file + ": tensor 'module.output.bias': it is 'output.bias' here, as 'output.bias' is, too");
    CHECK(refused({{"fc.bias", "F32", {2}, bytes(8)}}) ==
          file +
              ": none of its tensors is one of the model's, which are 2 (output.weight, output.bias); it has 1 "
              "(fc.bias)");
    CHECK(same_bits(network.arena().values().host(), before));
  }

  TEST_CASE("a damaged safetensors file is refused by file and tensor") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "w";
    const auto expect = [&](const std::string& reason) { CHECK(error_of(path) == path.string() + ": " + reason); };
    const auto header = [&](const std::string& text, const std::string& reason, std::size_t values = 8) {
      CAPTURE(text);
      write_raw(path, text, values);
      expect(reason);
    };
    write_file_atomically(path, std::string_view("short"));
    expect("5 bytes are no safetensors file");
    write_raw(path, "{}", 0, std::uint64_t{1} << 60);
    expect("the header's length is 1152921504606846976, and 2 bytes follow it: no safetensors file, or cut off");
    header("{", "the header is no valid JSON from its byte 2 on");
    header("[]", "the header is no JSON object");
    header(R"({"a": [[[[1]]]]})", "the header is nested too deep");
    header(R"({"a": {"shape": [1e999]}})", "the header is no valid JSON: a number is too large");
    header(R"({"a": 1})", "tensor 'a': its entry is no JSON object");
    header(R"({"a": {"shape": [2], "data_offsets": [0, 8]}})", "tensor 'a': it has no 'dtype'");
    const auto tensor = [&](const std::string& shape, const std::string& places, const std::string& reason) {
      header(fmt::format(R"({{"a": {{"dtype": "F32", "shape": {}, "data_offsets": {}}}}})", shape, places),
             "tensor 'a': " + reason);
    };
    tensor("[-2]", "[0, 8]", "'shape' is no list of whole numbers");
    tensor("[2]", "[0, 1.5]", "'data_offsets' is no list of whole numbers");
    tensor("[2]", "[0, 4, 8]", "'data_offsets' are not two numbers");
    tensor("[2]", "[8, 0]", "data_offsets 8 to 0 are not in the 8 bytes of values: it is truncated or damaged");
    tensor("[2]", "[0, 16]", "data_offsets 0 to 16 are not in the 8 bytes of values: it is truncated or damaged");
    tensor("[3]", "[0, 8]", "8 bytes of data_offsets 0 to 8 do not fit its shape and type, which take 12");
    tensor("[4294967296, 4294967296]", "[0, 8]", "its shape has more elements than any file");
    tensor("[1]", "[4, 8]", "bytes 0 to 4 before its values are no tensor's");
    header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "4 bytes at its end are no tensor's");
    const std::string whole = R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})";
    header(R"({"a": )" + whole + R"(, "b": )" + whole + "}", "tensor 'b': its values overlap another tensor's");
    header(R"({"a": )" + whole + R"(, "a": )" + whole + "}", "the header names 'a' twice");
    header(R"({"__metadata__": {"step": 1}, "a": )" + whole + "}", "__metadata__: 'step' is no text");
  }

  TEST_CASE("weights that are not finite are refused with file, tensor and place") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "w";
    const std::string header = R"({"extra": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, )"
                               R"("output.weight": {"dtype": "TYPE", "shape": [2, 3], "data_offsets": [4, END]}, )"
                               R"("output.bias": {"dtype": "F32", "shape": [2], "data_offsets": [END, LAST]}})";
    const auto write = [&](const std::string& type, std::size_t element, const std::string& value) {
      const std::size_t end = 4 + 6 * value.size(), last = end + 8;
      std::string text = header;
      for (const auto& [word, by] : {std::pair<std::string, std::string>{"TYPE", type},
                                     {"END", std::to_string(end)},
                                     {"END", std::to_string(end)},
                                     {"LAST", std::to_string(last)}}) {
        text.replace(text.find(word), word.size(), by);
      }
      write_raw(path, text, last);
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(8 + text.size() + 4 + element * value.size()));
      file.write(value.data(), static_cast<std::streamsize>(value.size()));
    };
    const auto refused = [&](const std::string& place) {
      Network network = linear_network(3);
      network.initialize(1);
      const auto values = network.arena().values().host();
      const std::vector<float> before(values.begin(), values.end());
      CHECK_THROWS_WITH_AS(import_weights(path, network),
                           (path.string() + ": tensor 'output.weight': its value at " + place).c_str(), ConfigError);
      CHECK(same_bits(before, network.arena().values().host()));
    };
    write("F32", 4, std::string("\0\0\xc0\x7f", 4));
    refused("[1, 1] is NaN; weights must be finite");
    write("F32", 0, std::string("\0\0\x80\xff", 4));
    refused("[0, 0] is -infinity; weights must be finite");
    write("F16", 5, std::string("\0\x7c", 2));
    refused("[1, 2] is infinity; weights must be finite");
    write("BF16", 2, std::string("\xc0\x7f", 2));
    refused("[0, 2] is NaN; weights must be finite");
    // Tensors that the model does not have may hold anything.
    write("F32", 0, std::string(4, '\0'));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-36, std::ios::end);
    file.write("\0\0\xc0\x7f", 4);
    file.close();
    Network network = linear_network(3);
    network.initialize(1);
    CHECK(import_weights(path, network).size() == 1);
  }

  TEST_CASE("every rank of a run starts from the weights of train.init_from") {
    const TemporaryFolder folder;
    testing::quick_run(testing::quick_config(), 2, folder / "first");
    const auto checkpoint = CheckpointStore(folder / "first" / "checkpoints").list().back();
    run_export(testing::quick_config(), checkpoint, folder / "w");
    const std::string init = "train.init_from='" + (folder / "w").string() + "'";
    // Without a learning rate the parameters stay; the replicas' hashes are compared at the end.
    const auto still = testing::quick_run(testing::quick_config({init, "optimizer.learning_rate=0"}), 3, folder / "a");
    CHECK(same_bits(still.parameters, CheckpointStore::read_model(checkpoint).get_vector<float>("parameters")));

    std::filesystem::resize_file(folder / "w", std::filesystem::file_size(folder / "w") - 4);
    CHECK_THROWS_AS(testing::quick_run(testing::quick_config({init}), 2, folder / "b"), comm::CollectiveError);
    CHECK_FALSE(std::filesystem::exists(folder / "b"));
    // A run that resumes has what it needs.
    const auto resumed = testing::quick_run(testing::quick_config({init, "optimizer.learning_rate=0"}), 3, folder / "a",
                                            (folder / "a").string());
    CHECK(same_bits(resumed.parameters, still.parameters));
  }
}

}  // namespace
}  // namespace dragonn::trainer
