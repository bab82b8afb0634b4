// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/agreement.h"
#include "core/file.h"
#include "core/npy.h"
#include "tests/support/devices.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/run_recorder.h"

namespace dragonn::trainer::testing {
namespace {

using Values = std::vector<float>;

/// Returns the files that a run of two workers left, with their values.
std::map<std::string, Values> dumps(const std::vector<std::string>& overrides) {
  const TemporaryFolder folder;
  quick_run(quick_config(overrides), 2, folder.path());
  std::map<std::string, Values> files;
  for (const auto& file : std::filesystem::directory_iterator(folder.path() / "gradients")) {
    files[file.path().filename().string()] = read_npy(file.path()).values;
  }
  return files;
}

std::vector<std::string> topk(const std::string& memory) {
  return {"compression.method=topk", "compression.memory=" + memory, "logging.dump_gradients=[1, 2]"};
}

}  // namespace

TEST_SUITE("trainer") {
  DRAGONN_DEVICE_TEST("a dump has one file per step and rank, with the elements that are sparsified") {
    const auto sparse = dumps(on_device(device, topk("residual")));
    const auto dense = dumps(on_device(device, {"logging.dump_gradients=[1]"}));
    REQUIRE(sparse.size() == 4);
    REQUIRE(dense.size() == 2);
    for (const char* name : {"step-00000001-rank-0000.npy", "step-00000001-rank-0001.npy"}) {
      // Before anything was left behind acc is the gradient; the matrices are a prefix of the model.
      const Values &acc = sparse.at(name), &gradient = dense.at(name);
      REQUIRE(acc.size() < gradient.size());
      CHECK(acc == Values(gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(acc.size())));
    }
    CHECK(sparse.at("step-00000001-rank-0000.npy") != sparse.at("step-00000001-rank-0001.npy"));
  }

  DRAGONN_DEVICE_TEST("a dump holds the residual plus the gradient") {
    // Both runs exchange the same entries in the first step, so they compute the same gradients in the second.
    const auto with = dumps(on_device(device, topk("residual"))), without = dumps(on_device(device, topk("none")));
    const Values& first = with.at("step-00000001-rank-0001.npy");
    const Values& second = with.at("step-00000002-rank-0001.npy");
    const Values& gradient = without.at("step-00000002-rank-0001.npy");
    std::size_t sent = 0, kept = 0;
    for (std::size_t i = 0; i < second.size(); ++i) {
      if (second[i] == first[i] + gradient[i]) {
        ++kept;
      } else if (second[i] == gradient[i]) {
        ++sent;
      }
    }
    CHECK(kept + sent == second.size());
    CHECK(sent > 0);
    CHECK(kept > sent);
  }

  TEST_CASE("dumping changes neither the parameters nor the traffic nor the hash of the config") {
    const TemporaryFolder plain, dumped;
    const RunSpec with = quick_config(topk("residual")), without = quick_config({"compression.method=topk"});
    CHECK(config_hash(with) == config_hash(without));
    CHECK(quick_run(with, 2, dumped.path()).parameters == quick_run(without, 2, plain.path()).parameters);
    const auto bytes = [](const TemporaryFolder& folder) {
      const std::string text = read_text_file(folder.path() / "summary.json");
      return text.substr(text.find("bytes_sent_total"), 40);
    };
    CHECK(bytes(dumped) == bytes(plain));
    CHECK_FALSE(std::filesystem::exists(plain.path() / "gradients"));
  }

  TEST_CASE("a dump that one rank cannot write ends the run on all ranks") {
    const TemporaryFolder folder;
    write_file_atomically(folder / "file", std::string_view("not a folder"));
    std::vector<std::string> messages(3);
    comm::run_local(3, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
      const int rank = communicator.rank();
      GradientDump dump(rank == 1 ? folder / "file" / "gradients" : folder / "gradients", {4}, 8);
      std::ranges::fill(dump.target(4).host(), 1.0f);
      dump.write(communicator, 3);  // not named: nothing happens
      try {
        dump.write(communicator, 4);
      } catch (const comm::CollectiveError& error) {
        messages[static_cast<std::size_t>(rank)] = error.what();
      }
    });
    for (const std::string& message : messages) CHECK(message.starts_with("rank 1: cannot create "));
  }
}

}  // namespace dragonn::trainer::testing
