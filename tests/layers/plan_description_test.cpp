// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/device_math.h"
#include "kernels/nn/attention.h"
#include "layers/graph.h"
#include "layers/graph_plan.h"
#include "layers/layers.h"
#include "layers/network.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

struct Model {
  std::string name;
  Shape sample;
  int classes;
  std::size_t batch;
  std::size_t convolutions;
};

std::unique_ptr<LayerGraph> make(const Model& model) {
  const ModelEntry& entry = Registry<ModelEntry>::instance().at(model.name);
  Settings settings(entry.settings);
  if (model.name == "resnet50") settings.set("stem", std::string("imagenet"));
  return entry.make(settings, {model.sample, model.classes});
}

}  // namespace

TEST_SUITE("layers") {
  // What cuDNN offers depends on the machine; on the emulation this checks the choice alone.
  DRAGONN_DEVICE_TEST("no convolution of ResNet-20, ResNet-50 or VGG-16 falls back to patches") {
    using kernels::DeviceMath;
    const std::vector<Model> models{{"resnet20", {32, 32, 3}, 10, 128, 19},
                                    {"resnet50", {224, 224, 3}, 1000, 64, 53},
                                    {"vgg16", {32, 32, 3}, 10, 128, 13}};
    for (const Model& model : models) {
      CAPTURE(model.name);
      const std::unique_ptr<LayerGraph> graph = make(model);
      for (const DeviceMath math : {DeviceMath::kFloat32, DeviceMath::kTf32, DeviceMath::kBf16}) {
        if (device.is_cpu() && math != DeviceMath::kFloat32) continue;
        const GraphPlan plan(*graph, model.batch, Mode::kTrain, device, false, kernels::ElementType::kFloat32, {math});
        const std::vector<LayerDescription> layers = plan.describe();
        CHECK(layers.size() == (device.is_cpu() ? 0 : model.convolutions));
        for (const LayerDescription& layer : layers) {
          CAPTURE(layer.layer);
          CHECK(layer.passes.size() == (&layer == &layers.front() ? 2 : 3));  // the images need no gradient
          for (const kernels::PassDescription& pass : layer.passes) {
            CAPTURE(pass.pass);
            CHECK(pass.algorithm != kernels::kPatches);
            if (math == DeviceMath::kFloat32) CHECK(pass.math == "fma");
          }
        }
      }
    }
  }

#ifdef DRAGONN_EMULATES_CUDA
  // What cuDNN offers depends on the machine; this checks the choice alone.
  DRAGONN_DEVICE_TEST("every convolution of VGG-16 is a graph in bf16, and is none in float32") {
    if (device.is_cpu()) return;
    const std::unique_ptr<LayerGraph> graph = make({"vgg16", {32, 32, 3}, 10, 128, 13});
    for (const auto type : {kernels::ElementType::kBf16, kernels::ElementType::kFloat32}) {
      const GraphPlan plan(*graph, 2, Mode::kTrain, device, true, type);
      for (const LayerDescription& layer : plan.describe())
        for (const kernels::PassDescription& pass : layer.passes)
          CHECK(pass.algorithm.starts_with("graph_engine_") == (type == kernels::ElementType::kBf16));
    }
  }

  // What cuDNN offers depends on the machine and the build; this checks the choice alone.
  DRAGONN_DEVICE_TEST("attention of BERT's shape is fused in bf16") {
    if (device.is_cpu()) return;
    LayerGraph graph({512, 3 * 768});
    graph.add("attention", attention(12, false), {LayerGraph::input()});
    const GraphPlan plan(graph, 2, Mode::kTrain, device, true, kernels::ElementType::kBf16);
    const std::vector<LayerDescription> layers = plan.describe();
    REQUIRE(layers.size() == 1);
    REQUIRE(layers[0].passes.size() == 2);
    for (const kernels::PassDescription& pass : layers[0].passes) CHECK(pass.algorithm == kernels::kFusedAttention);
  }
#endif
}

}  // namespace dragonn::layers
