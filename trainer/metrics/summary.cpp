// SPDX-License-Identifier: MIT
#include "trainer/metrics/summary.h"

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/program.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json by_split(const std::optional<EvalRecord>& eval) {
  if (!eval) return Json::object();
  Json numbers{{"step", eval->step}, {"epoch", eval->epoch}, {"loss", eval->loss}};
  for (const Quality& quality : eval->qualities) numbers[quality.name] = quality.value;
  return {{eval->split, std::move(numbers)}};
}

Json to_json(const NetworkConfig& config) {
  const comm::NetworkModel network = config.modelled().value();
  Json json{{"gbps", network.gbps()}, {"latency_us", network.latency_us()}, {"compute", name_of(config.compute)}};
  if (config.preset != "none") json["preset"] = config.preset;
  return json;
}

Json to_json(const exchange::ByteRange& range) {
  return {{"low", range.low}, {"expected", range.expected}, {"high", range.high}};
}

Json to_json(const exchange::ByteForecast& forecast) {
  Json json = to_json(forecast.settled);
  if (forecast.first_steps == 0) return json;
  json["first_steps"] = to_json(forecast.first);
  json["first_steps"]["steps"] = forecast.first_steps;
  return json;
}

}  // namespace

void write_summary(const std::filesystem::path& path, const Summary& summary) {
  Json json{{"final", by_split(summary.final_eval)},
            {"best", by_split(summary.best_eval)},
            {"steps", summary.steps},
            {"ended_by", summary.ended_by},
            {"seconds_total", summary.seconds_total},
            {"time", summary.network ? "virtual" : "wall"},
            {"throughput_samples_per_second", summary.throughput},
            {"bytes_sent_total", summary.bytes_sent_total},
            {"predicted_bytes_per_step", to_json(summary.predicted_bytes)},
            {"density_mean", summary.density_mean},
            {"tensors_sparse", summary.tensors_sparse},
            {"tensors_dense", summary.tensors_dense},
            {"world_size", summary.world_size},
            {"backend", summary.backend},
            {"device", summary.device},
            {"parameters_hash", summary.parameters_hash},
            {"config_hash", summary.config_hash},
            {"version", version()},
            {"warnings", summary.warnings}};
  if (summary.network) json["network"] = to_json(*summary.network);
  write_file_atomically(path, json.dump(2) + "\n");
}

}  // namespace dragonn::trainer
