// SPDX-License-Identifier: MIT
/// FakeRun: a run folder made up for a test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "core/file.h"

namespace dragonn::report {

/// Writes the three files of a run folder. Every step sends `bytes_per_step` and takes one second; step lines stand at
/// every `every`-th step, evaluations at the steps that a test names.
class FakeRun {
 public:
  explicit FakeRun(const std::filesystem::path& folder) : folder_(folder) {
    std::filesystem::create_directories(folder_);
    write("metrics.jsonl", "");
  }

  /// @param more further tables, as "[model]
  /// name = \"mlp\"
  /// ".
  FakeRun& config(const std::string& method, int seed, const std::string& more = "") {
    write("config.toml", fmt::format("# a comment\nseed = {}\n\n[compression]\n# help\nmethod = \"{}\"\n\n[logging]\n"
                                     "every_steps = {}\n{}",
                                     seed, method, seed, more));
    return *this;
  }
  FakeRun& step(int number, double loss, double bytes_per_step = 100) {
    return line(fmt::format(R"({{"kind":"step","step":{},"epoch":{},"loss":{},"bytes_sent":{{"mean":{},"max":{}}},)"
                            R"("bytes_sent_total":{},"seconds":{{"forward":0.25,"exchange":0.5}},"time":{}}})",
                            number, number / 10.0, loss, bytes_per_step, bytes_per_step, bytes_per_step * number,
                            number));
  }
  FakeRun& eval(int step, double accuracy, const std::string& split = "test") {
    return line(fmt::format(R"({{"kind":"eval","step":{},"epoch":{},"split":"{}","loss":1.5,"accuracy":{},"time":{}}})",
                            step, step / 10.0, split, accuracy, step));
  }
  FakeRun& line(const std::string& text) { return raw(text + "\n"); }
  FakeRun& raw(const std::string& text) {
    std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << text;
    return *this;
  }
  /// Adds an evaluation and a step line of a virtual run, with both clocks.
  FakeRun& both(int step, double accuracy, double time, double time_ideal, double bytes_per_step = 100,
                double messages_per_step = 0) {
    line(fmt::format(
        R"({{"kind":"step","step":{},"epoch":{},"loss":1,"bytes_sent_total":{},"messages":{},"time":{},"time_ideal":{}}})",
        step, step / 10.0, bytes_per_step * step, messages_per_step, time, time_ideal));
    return line(fmt::format(R"({{"kind":"eval","step":{},"epoch":{},"split":"test","loss":1.5,"accuracy":{},"time":{},)"
                            R"("time_ideal":{}}})",
                            step, step / 10.0, accuracy, time, time_ideal));
  }
  /// Writes the summary of a virtual run, by default on 10^6 bytes a second.
  FakeRun& virtual_summary(double gbps = 0.008) {
    return write("summary.json",
                 fmt::format(R"({{"steps":20,"seconds_total":21.5,"throughput_samples_per_second":10,"world_size":4,)"
                             R"("backend":"local","time":"virtual",)"
                             R"("network":{{"gbps":{},"latency_us":100.0,"compute":"measured"}}}})",
                             gbps));
  }
  FakeRun& summary(double throughput, const std::string& warnings = "[]", const std::string& time = "wall") {
    write("summary.json", fmt::format("{{\n  \"steps\": 20,\n  \"seconds_total\": 21.5,\n"
                                      "  \"throughput_samples_per_second\": {},\n  \"density_mean\": 0.5,\n"
                                      "  \"world_size\": 4,\n  \"backend\": \"local\",\n  \"warnings\": {},\n"
                                      "  \"time\": \"{}\"\n}}\n",
                                      throughput, warnings, time));
    return *this;
  }
  FakeRun& write(const std::string& file, const std::string& text) {
    write_file_atomically(folder_ / file, std::string_view(text));
    return *this;
  }

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace dragonn::report
