// SPDX-License-Identifier: MIT
#include "trainer/config/assemble.h"

#include <fmt/format.h>

#include "layers/graph.h"

namespace dragonn::trainer {

namespace {

const char* describe(TargetKind kind) {
  switch (kind) {
    case TargetKind::kClass:
      return "one class per sample";
    case TargetKind::kClassPerStep:
      return "one class per time step";
    case TargetKind::kClassSet:
      return "a set of classes per sample";
    case TargetKind::kClassSequence:
      return "a sequence of classes per sample";
  }
  return "";
}

}  // namespace

data::DatasetSplits load_data(const Config& config) {
  return Registry<data::DatasetEntry>::instance()
      .at(config.data.name)
      .load(config.data.settings, config.data.path, static_cast<std::uint64_t>(config.seed));
}

layers::Network make_network(const Config& config, const data::Dataset& data, Device device) {
  layers::Network network = make_network(config, data.sample_shape(), data.classes(), device);
  if (network.target_kind() != data.target_kind()) {
    throw ConfigError(fmt::format("model '{}' learns {}, but data '{}' have {}", config.model.name,
                                  describe(network.target_kind()), config.data.name, describe(data.target_kind())));
  }
  return network;
}

layers::Network make_network(const Config& config, const Shape& sample_shape, int classes, Device device) {
  const auto& entry = Registry<layers::ModelEntry>::instance().at(config.model.name);
  return layers::Network(entry.make(config.model.settings, {sample_shape, classes}), config.train.label_smoothing,
                         device);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, ParameterArena& arena) {
  return Registry<optim::OptimizerEntry>::instance().at(config.optimizer.name).make(config.optimizer.settings, arena);
}

std::unique_ptr<optim::Schedule> make_schedule(const Config& config, const optim::ScheduleContext& context) {
  return Registry<optim::ScheduleEntry>::instance().at(config.schedule.name).make(config.schedule.settings, context);
}

ExchangeRules exchange_rules(const Config& config) {
  const CompressionConfig& compression = config.compression;
  ExchangeRules rules;
  rules.buckets = compression.bucket_rules();
  rules.fusion = compression.fusion_rules();
  rules.sparsifier = compression.sparsifier;
  rules.quantizer = compression.quantizer;
  rules.collective = compression.collective;
  rules.memory = compression.memory;
  rules.dense = {"dense", Settings(Registry<comm::SparseCollectiveEntry>::instance().at("dense").settings)};
  rules.dense.settings.set("algorithm", name_of(config.comm.dense_algorithm));
  const Settings& optimizer = config.optimizer.settings;
  if (optimizer.contains("momentum")) rules.momentum = static_cast<float>(optimizer.number("momentum"));
  if (optimizer.contains("nesterov")) rules.nesterov = optimizer.flag("nesterov");
  rules.folded = compression.acc_form == AccForm::kFolded;
  rules.seed = static_cast<std::uint64_t>(config.seed);
  return rules;
}

}  // namespace dragonn::trainer
