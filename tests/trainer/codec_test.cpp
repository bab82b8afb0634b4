// SPDX-License-Identifier: MIT
/// Runs whose lists are coded in messages.
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "codec/values/value_codec.h"
#include "comm/local/local.h"
#include "comm/sparse/sparse_collective.h"
#include "compress/memory.h"
#include "core/archive.h"
#include "exchange/exchange_plan.h"
#include "exchange/gradient_exchange.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer::testing {
namespace {

/// Returns the methods that send indices. The others have none to code, or their own code.
std::vector<std::string> methods_with_indices() {
  std::vector<std::string> names = method_names();
  std::erase_if(names, [](const std::string& name) {
    return !exchange::sends_indices(exchange_rules(quick_config({"compression.method=" + name})));
  });
  return names;
}

/// Returns the codec of indices that a config chooses.
std::string indices_of(const std::vector<std::string>& overrides) {
  return quick_config(overrides).compression.codec.indices.name;
}

QuickResult coded_run(const std::string& method, const std::string& indices, int workers,
                      std::vector<std::string> overrides = {}) {
  const TemporaryFolder folder;
  overrides.push_back("compression.method=" + method);
  overrides.push_back("compression.codec.indices=" + indices);
  return quick_run(quick_config(overrides), workers, folder.path());
}

TEST_SUITE("trainer") {
  TEST_CASE("a codec of indices changes no bit of a run, with any method") {
    for (const std::string& method : methods_with_indices()) {
      CAPTURE(method);
      const std::vector<float> expected = coded_run(method, codec::kRawIndices, 3).parameters;
      for (const char* indices : {"rice", "smallest"}) {
        CAPTURE(indices);
        CHECK(coded_run(method, indices, 3).parameters == expected);
      }
    }
    for (const std::string& indices : Registry<codec::IndexCodecEntry>::instance().names()) {
      CAPTURE(indices);
      for (const char* method : {"topk", "gtopk", "oktopk"}) {
        const std::vector<float> expected = coded_run(method, codec::kRawIndices, 2, {"train.max_steps=3"}).parameters;
        CHECK(coded_run(method, indices, 2, {"train.max_steps=3"}).parameters == expected);
      }
    }
  }

  TEST_CASE("lossy values: replicas stay equal, and a resumed run equals an uninterrupted one") {
    const std::vector<std::string> of_sums{"dense", "index_union", "cltk", "exdyna"};
    for (const char* method : {"topk", "gtopk", "oktopk", "dsa", "dgc", "dense", "index_union", "cltk", "exdyna"}) {
      for (const char* values : {"float16", "int4", "bins2", "levels"}) {
        if (std::ranges::count(of_sums, method) > 0 && values != std::string("float16")) continue;
        CAPTURE(method);
        CAPTURE(values);
        const std::vector<std::string> overrides{std::string("compression.codec.values=") + values};
        const auto run = [&](const std::string& steps, const std::filesystem::path& folder, const std::string& resume) {
          std::vector<std::string> all = overrides;
          all.push_back(std::string("compression.method=") + method);
          all.push_back("train.max_steps=" + steps);
          return quick_run(quick_config(all), 3, folder, resume).parameters;
        };
        const TemporaryFolder whole, parts;
        const std::vector<float> expected = run("6", whole.path(), "");
        run("3", parts.path(), "");
        CHECK(run("6", parts.path(), "auto") == expected);
        const TemporaryFolder exact;
        CHECK(quick_run(quick_config({std::string("compression.method=") + method}), 3, exact.path()).parameters !=
              expected);
      }
    }
  }

  TEST_CASE("the momentum of an entry that was sent as 0 goes on") {
    using Entries = std::vector<std::pair<std::uint32_t, float>>;
    const codec::CodecChoice coding{
        {"rice", Settings(Registry<codec::IndexCodecEntry>::instance().at("rice").settings)},
        {"int4", Settings(Registry<codec::ValueCodecEntry>::instance().at("int4").settings)}};
    // Specification, section 6: 1 beside 100 is 0 in a code of 4 bits, and stays with rank 0.
    const auto check = [&](const std::string& name, const std::string& put_back, const Entries& others) {
      CAPTURE(name);
      std::vector<float> momentum, velocity;
      comm::run_local(2, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
        const auto& entry = Registry<compress::MemoryEntry>::instance().at("momentum_correction");
        const auto memory = entry.make(Settings(entry.settings), 64, 0.5f, /*nesterov=*/false, Device{});
        std::vector<float> gradient(64);
        SparseVector selected;
        selected.resize_discard(2);
        std::size_t place = 0;
        for (const auto& [index, value] : communicator.rank() == 0 ? Entries{{0, 100.0f}, {1, 1.0f}} : others) {
          gradient[index] = selected.values.host()[place] = value;
          selected.indices.host()[place++] = index;
        }
        memory->compensate({}, std::span<const float>(gradient), 1.0f);
        Settings settings(Registry<comm::SparseCollectiveEntry>::instance().at(name).settings);
        if (!put_back.empty()) settings.set("put_back", put_back);
        const auto collective = comm::make_collective(name, settings, gradient.size());
        const comm::ReduceContext context{.k = 2, .density = 1.0 / 32};
        comm::SparseReduction out;
        comm::GroupReduce(communicator, coding)
            .run({collective.get(), &context, memory->accumulated(), &selected, &out});
        memory->settle({.contributed = out.contributed.view(), .masked = out.masked(), .returned = &out.returned});
        if (communicator.rank() != 0) return;
        Archive archive;
        memory->save(archive, "");
        momentum = archive.get_vector<float>("momentum");
        velocity = archive.get_vector<float>("velocity");
      });
      CHECK(velocity[1] == 1);
      CHECK(momentum[1] == 1);
      CHECK(momentum[0] == 0);
    };
    const Entries apart{{50, 50.0f}, {51, 40.0f}}, shared{{1, 60.0f}, {51, 40.0f}};
    check("allgather", "", apart);
    check("dsa", "", apart);
    check("gtopk", "naive", shared);
  }

  TEST_CASE("the lines of a run say how many bits an entry takes") {
    for (const auto& [values, min, max] : {std::tuple("float32", 64.0, 64.0), std::tuple("int8", 12.0, 40.0)}) {
      CAPTURE(values);
      const TemporaryFolder folder;
      quick_run(quick_config({"compression.method=gtopk", std::string("compression.codec.values=") + values}), 3,
                folder.path());
      std::ifstream lines(folder.path() / "metrics.jsonl");
      std::size_t steps = 0;
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        if (json.at("kind") != "step") continue;
        ++steps;
        CHECK(json.at("bits_per_entry") >= min);
        CHECK(json.at("bits_per_entry") <= max);
      }
      CHECK(steps == 6);
    }
  }

  TEST_CASE("what a codec cannot do, or has no effect on, is refused with what fits") {
    const auto refused = [](const std::vector<std::string>& overrides, const char* message) {
      CHECK_THROWS_WITH_AS(quick_config(overrides), doctest::Contains(message), ConfigError);
    };
    for (const char* method : {"index_union", "cltk", "exdyna", "dense"}) {
      CAPTURE(method);
      refused({std::string("compression.method=") + method, "compression.codec.values=int8"},
              "valid: bfloat16, float16, float32; or one of the collectives allgather, dsa");
    }
    refused({"compression.method=dense", "compression.codec.indices=rice"}, "sends no indices; valid: raw32");
    refused({"compression.method=topk", "compression.collective=dense", "compression.codec.indices=rice"},
            "sends no indices; valid: raw32");
    for (const char* collective : {"allgather", "index_union", "cltk"}) {
      CAPTURE(collective);
      refused({"compression.method=randomk", std::string("compression.collective=") + collective,
               "compression.codec.indices=rice"},
              "sparsifier 'randomk', whose indices all workers know, which sends no indices; valid: raw32");
    }
    refused({"compression.method=dense", "compression.codec.values=float16", "comm.dense_algorithm=rabenseifner"},
            "valid: ring, or values = \"float32\"");
    for (const char* key : {"compression.codec.values=int8", "compression.codec.indices=rice"})
      refused({"compression.method=qsgd", key}, "no effect with quantizer 'qsgd'");
  }

  TEST_CASE("the codec of indices is chosen where indices are sent beside values in a code") {
    CHECK(indices_of({"compression.method=topk"}) == "raw32");
    CHECK(indices_of({"compression.method=topk", "compression.codec.values=float16"}) == "smallest");
    CHECK(indices_of({"compression.method=dense", "compression.codec.values=float16"}) == "raw32");
    // Sums at indices that all workers know; lists of them, since int8 carries no sums; and workers that draw apart.
    const auto randomk = [](const char* values, const char* key) {
      return indices_of({"compression.method=randomk", std::string("compression.codec.values=") + values, key});
    };
    CHECK(randomk("float16", "seed=1") == "raw32");
    CHECK(randomk("int8", "seed=1") == "smallest");
    CHECK(randomk("float16", "compression.randomk.mode=private") == "smallest");
    CHECK(randomk("float16", "compression.allgather.layout=unpadded") == "smallest");
  }

  TEST_CASE("a dense exchange in 16 bits sends half the bytes, with and without error feedback") {
    const auto config = [](const std::string& memory) {
      return quick_config(
          {"compression.method=dense", "compression.codec.values=bfloat16", "compression.memory=" + memory});
    };
    CHECK(config("auto").compression.memory.name == "residual");
    CHECK(quick_config({"compression.method=dense", "compression.memory=residual"}).compression.memory.name == "none");
    const TemporaryFolder with, without;
    CHECK(quick_run(config("residual"), 3, with.path()).parameters !=
          quick_run(config("none"), 3, without.path()).parameters);
    const auto bytes = [](const std::vector<std::string>& overrides) {
      return exchange::predict_bucket(quick_config(overrides).rules, {.size = 1000}, exchange::ExchangeForm::kDense, 1,
                                      4)
          .bytes_sent;
    };
    CHECK(2 * bytes({"compression.codec.values=bfloat16"}) == bytes({}));
  }

  TEST_CASE("values whose code carries no sums are sent as lists, also at indices that all workers know") {
    const auto bits = [](const char* values) {
      const TemporaryFolder folder;
      quick_run(quick_config({"compression.method=randomk", "compression.collective=allgather",
                              std::string("compression.codec.values=") + values}),
                3, folder.path());
      std::ifstream lines(folder.path() / "metrics.jsonl");
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        if (json.at("kind") == "step") return json.value("bits_per_entry", 0.0);
      }
      return 0.0;
    };
    CHECK(bits("float16") == 0);  // summed without lists
    CHECK(bits("int8") > 8);
  }

  TEST_CASE("a codec of values has its own settings") {
    const RunSpec config =
        quick_config({"compression.method=topk", "compression.codec.values=sign", "compression.codec.sign.group=64"});
    CHECK(config.rules.coding.name() == "smallest x sign");
    CHECK(config.rules.coding.values.settings.integer("group") == 64);
  }

  TEST_CASE("methods send what their papers send unless a config says otherwise") {
    for (const std::string& method : method_names()) {
      CAPTURE(method);
      CHECK(quick_config({"compression.method=" + method}).compression.coding().is_raw());
    }
    const RunSpec config = quick_config({"compression.method=topk", "compression.codec.indices=rice"});
    CHECK(config.rules.coding.name() == "rice x float32");
    CHECK_THROWS_WITH_AS(quick_config({"compression.codec.indices=ryce"}), doctest::Contains("rice"), ConfigError);
    CHECK_THROWS_WITH_AS(quick_config({"compression.codec=rice"}), doctest::Contains("indices, values"), ConfigError);
  }
}

}  // namespace
}  // namespace dragonn::trainer::testing
