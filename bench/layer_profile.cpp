// SPDX-License-Identifier: MIT
#include "bench/layer_profile.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/devices.h"

namespace dragonn::bench {
namespace {

/// The profile that listens. Functions of a profiler get nothing but a name, so the object must be found without one.
LayerProfile* listening = nullptr;

double seconds_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// The numbers of a layer in one pass.
struct Work {
  double flops = 0, bytes = 0;
};

/// Backward reads the inputs, the parameters and the output's gradient, and writes the gradients of the first two.
Work work_of(const layers::LayerSummary& layer, bool backward, double batch) {
  const double inputs = batch * static_cast<double>(layer.inputs);
  const double outputs = batch * static_cast<double>(layer.output.size());
  const auto parameters = static_cast<double>(layer.parameters);
  const double elements = backward ? 2 * inputs + outputs + 2 * parameters : inputs + outputs + parameters;
  return {batch * (backward ? layer.backward_flops : layer.forward_flops), elements * sizeof(float)};
}

}  // namespace

LayerProfile::LayerProfile(const Device& device) : device_(device) {
  DRAGONN_CHECK(listening == nullptr, "a second profile beside the one that listens");
  listening = this;
  before_ = kernels::register_trace(device.type, {on_begin, on_end});
}

LayerProfile::~LayerProfile() {
  kernels::register_trace(device_.type, before_);
  listening = nullptr;
}

void LayerProfile::on_begin(const char* name) noexcept {
  listening->begin_range(name);
}
void LayerProfile::on_end() noexcept {
  listening->end_range();
}

LayerProfile::Clock::time_point LayerProfile::idle_now() const {
  kernels::synchronize(device_);
  return Clock::now();
}

void LayerProfile::begin_pass(const std::string& pass) {
  pass_ = pass;
  in_ranges_ = 0;
  pass_begin_ = idle_now();
}

void LayerProfile::end_pass() {
  add("", seconds_between(pass_begin_, idle_now()) - in_ranges_);
}

void LayerProfile::begin_range(const char* name) {
  if (depth_++ > 0) return;
  range_ = name;
  range_begin_ = idle_now();
}

void LayerProfile::end_range() {
  if (--depth_ > 0) return;
  const double seconds = seconds_between(range_begin_, idle_now());
  in_ranges_ += seconds;
  add(range_, seconds);
}

void LayerProfile::add(const std::string& layer, double seconds) {
  auto part =
      std::ranges::find_if(parts_, [&](const Part& other) { return other.pass == pass_ && other.layer == layer; });
  if (part == parts_.end()) part = parts_.insert(parts_.end(), {pass_, layer, {}});
  part->now += seconds;
}

void LayerProfile::end_step() {
  for (Part& part : parts_) {
    part.seconds.push_back(part.now);
    part.now = 0;
  }
}

Rows LayerProfile::rows(const layers::Network& network, std::size_t batch) const {
  const std::vector<layers::LayerSummary> layers = network.summary();
  double total = 0;
  for (const Part& part : parts_) total += percentile(part.seconds, 0.5);
  Rows rows;
  for (const Part& part : parts_) {
    const double seconds = percentile(part.seconds, 0.5);
    const auto layer = std::ranges::find(layers, part.layer, &layers::LayerSummary::name);
    const bool is_layer = layer != layers.end();
    const Work work = is_layer ? work_of(*layer, part.pass == "backward", static_cast<double>(batch)) : Work{};
    nlohmann::ordered_json row{{"pass", part.pass},
                               {"layer", part.layer.empty() ? "(rest)" : part.layer},
                               {"layer_kind", is_layer ? layer->kind : ""},
                               {"milliseconds", seconds * 1e3},
                               {"share", seconds / total}};
    row["layer_gflops"] = work.flops > 0 ? or_null(work.flops / seconds * 1e-9) : nullptr;
    row["megabytes"] = work.bytes > 0 ? or_null(work.bytes * 1e-6) : nullptr;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dragonn::bench
