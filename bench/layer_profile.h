// SPDX-License-Identifier: MIT
/// LayerProfile: where the time of training steps goes, by layer and pass.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "bench/rows.h"
#include "kernels/trace.h"
#include "layers/network.h"

namespace dragonn::bench {

/// Listens to the ranges that a network names while it works (kernels/trace.h). Only one profile may listen at a time,
/// and the network must run on its thread. On a GPU every range begins and ends with an idle device, so that layers do
/// not overlap, and a step takes longer than without a profile.
class LayerProfile {
 public:
  explicit LayerProfile(const Device& device);
  ~LayerProfile();
  LayerProfile(const LayerProfile&) = delete;
  LayerProfile& operator=(const LayerProfile&) = delete;

  /// Runs a part of a step: "forward", "backward" or "update". What it takes beside its ranges counts as its rest.
  template <class Work>
  void run(const std::string& pass, const Work& work) {
    begin_pass(pass);
    work();
    end_pass();
  }
  /// Ends a step: medians are taken over steps.
  void end_step();

  /// Returns a row for each layer and pass, in the order of the step: milliseconds (median over the steps), their share
  /// of the step, gflops (of matrix products; null without), and megabytes, those of the layer's tensors and
  /// parameters, each read or written once.
  Rows rows(const layers::Network& network, std::size_t batch) const;

 private:
  using Clock = std::chrono::steady_clock;

  /// A part of the step, with its seconds in each step.
  struct Part {
    std::string pass, layer;  // an empty layer: the rest of the pass
    std::vector<double> seconds;
    double now = 0;  // of the step that runs
  };

  static void on_begin(const char* name) noexcept;
  static void on_end() noexcept;

  Clock::time_point idle_now() const;
  void begin_pass(const std::string& pass);
  void end_pass();
  void begin_range(const char* name);
  void end_range();
  void add(const std::string& layer, double seconds);

  Device device_;
  kernels::TraceFunctions before_;
  std::vector<Part> parts_;
  std::string pass_, range_;
  int depth_ = 0;  // of nested ranges: the outermost counts
  Clock::time_point pass_begin_, range_begin_;
  double in_ranges_ = 0;
};

}  // namespace dragonn::bench
