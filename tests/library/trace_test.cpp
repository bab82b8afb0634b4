// SPDX-License-Identifier: MIT
/// The timeline of a library's exchanges: what is on it, when it is written, and what is refused.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "library/dragonn.h"
#include "tests/core/temporary_folder.h"
#include "tests/library/create.h"
#include "tests/library/two_ranks.h"

namespace dragonn::test {
namespace {

using Json = nlohmann::json;
constexpr std::size_t kTensors = 2;
constexpr std::array<std::uint64_t, 2> kShape{20, 30};

dragonn_exchange_handle* create(const std::string& logging, const std::string& backend, const std::string& place,
                                const std::filesystem::path& trace) {
  const std::array<dragonn_tensor, kTensors> tensors{{{"first", kShape.data(), 2}, {"second", kShape.data(), 2}}};
  const std::string config =
      fmt::format("comm.backend = \"{}\"\ncompression = {{ method = \"topk\", density = 0.05, fusion_mib = 0 }}\n{}",
                  backend, logging);
  return create_handle(tensors, config, place, trace.string());
}

/// Makes an exchange whose second tensor begins first.
void exchange(dragonn_exchange_handle* handle) {
  std::array<std::vector<float>, kTensors> gradients;
  for (std::size_t tensor : {1, 0}) {
    gradients[tensor].assign(kShape[0] * kShape[1], 0.5f);
    const dragonn_array gradient{tensor, gradients[tensor].data(), DRAGONN_FLOAT32};
    REQUIRE(dragonn_begin(handle, &gradient, 1, sizeof gradient) == DRAGONN_OK);
  }
  REQUIRE(dragonn_wait(handle) == DRAGONN_OK);
}

void both_exchange(const std::array<dragonn_exchange_handle*, 2>& handles) {
  std::thread first([&] { exchange(handles[0]); });
  exchange(handles[1]);
  first.join();
}

TEST_SUITE("library") {
  TEST_CASE("a timeline has the exchanges that logging.trace names, with each wait for backward, of all ranks") {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "trace.json";
    const auto handles = both_created(folder.path() / "place", [&](const std::string& place) {
      return create("logging = { trace = 2, trace_first = 2 }\n", "tcp", place, file);
    });
    for (int step = 1; step <= 4; ++step) {
      both_exchange(handles);
      // Rank 0 has written it when its own exchange is done.
      CHECK(std::filesystem::exists(file) == (step >= 3));
    }
    destroy_two(handles);

    const Json trace = Json::parse(read_text_file(file));
    CHECK(trace["otherData"]["first_step"] == 2);
    CHECK(trace["otherData"]["last_step"] == 3);
    std::map<int, std::vector<Json>> steps, waits, messages, backward;  // by rank
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const int rank = event["pid"];
      if (event["name"] == "exchange" && event["args"].contains("step")) steps[rank].push_back(event);
      if (event["name"] == "backward") backward[rank].push_back(event);
      if (event["name"] == "wait for backward") waits[rank].push_back(event);
      if (event["name"] == "send" || event["name"] == "receive") messages[rank].push_back(event);
    }
    for (int rank = 0; rank < 2; ++rank) {
      INFO("rank ", rank);
      REQUIRE(steps[rank].size() == 2);
      CHECK(steps[rank][0]["args"]["step"] == 2);
      CHECK(waits[rank].size() == 2 * kTensors);
      REQUIRE(backward[rank].size() == 2);
      // The last wait ends when the last gradient is there.
      const Json& last = waits[rank].back();
      CHECK(last["ts"].get<double>() + last["dur"].get<double>() >=
            backward[rank][1]["ts"].get<double>() + backward[rank][1]["dur"].get<double>());
      CHECK(messages[rank].size() >= 2 * 2 * kTensors);
      // Every wait and message is within one of the two exchanges.
      for (const std::vector<Json>& inner : {waits[rank], messages[rank]}) {
        for (const Json& event : inner) {
          CHECK(std::ranges::any_of(steps[rank], [&](const Json& step) {
            const double begin = step["ts"], end = begin + step["dur"].get<double>(), at = event["ts"];
            return at >= begin && at + event["dur"].get<double>() <= end;
          }));
        }
      }
    }
  }

  TEST_CASE("a timeline that cannot be written harms no exchange") {
    const TemporaryFolder folder;
    dragonn_exchange_handle* const handle =
        create("logging.trace = 1\n", "local", "", folder.path() / "missing" / "trace.json");
    REQUIRE(handle != nullptr);
    std::string warnings;
    dragonn_set_log([](dragonn_log_level, const char* line, void* user) { *static_cast<std::string*>(user) += line; },
                    &warnings);
    exchange(handle);
    dragonn_set_log(nullptr, nullptr);
    CHECK(warnings.find("the timeline of exchange 1 is lost: ") != std::string::npos);
    exchange(handle);
    CHECK(dragonn_destroy(handle) == DRAGONN_OK);
  }

  TEST_CASE("a timeline needs a number of exchanges and a file, the same on all ranks") {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "trace.json";
    const auto text = [](const char* expected) {
      INFO(dragonn_last_error());
      CHECK(std::string(dragonn_last_error()).find(expected) != std::string::npos);
    };
    CHECK(create("", "local", "", file) == nullptr);
    text("logging.trace = 0 and the option trace names a file: expected a number of exchanges and a file, or neither");
    CHECK(create("logging.trace = 3\n", "local", "", "") == nullptr);
    text("logging.trace = 3 and the option trace names no file");
    CHECK(create("logging.every_steps = 3\n", "local", "", "") == nullptr);
    text("logging.every_steps = 3: the key has no effect on an exchange without a training run");
    std::atomic<int> ranks = 0;
    const auto handles = try_both(folder.path() / "place", [&](const std::string& place) {
      return create(fmt::format("logging.trace = {}\n", 3 + ranks++), "tcp", place, file);
    });
    CHECK(handles == std::array<dragonn_exchange_handle*, 2>{});
    text("rank 1 has another logging.trace, trace_first or trace_mb than rank 0: expected the same on every rank");
  }
}

}  // namespace
}  // namespace dragonn::test
