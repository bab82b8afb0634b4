// SPDX-License-Identifier: MIT
/// Runs whose exchange has two levels: replicas stay equal (every run ends with a comparison), and a resumed run is one
/// that was not interrupted, on the same nodes; on others it goes on.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/error.h"
#include "tests/support/text.h"
#include "tests/trainer/quick_run.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/plan.h"

namespace dragonn::trainer::testing {
namespace {

using dragonn::test::contains;

std::vector<std::string> on_nodes(int workers_per_node, const std::string& method = "topk") {
  return {fmt::format("comm.workers_per_node={}", workers_per_node), "compression.method=" + method, "train.epochs=20",
          "compression.bucket=tensor"};
}

std::vector<float> trained(const std::vector<std::string>& overrides, int workers) {
  const TemporaryFolder folder;
  return quick_run(quick_config(overrides), workers, folder.path()).parameters;
}

/// Returns the parameters of a run that is resumed after step 3, with these overrides, by so many workers.
std::vector<float> resumed(const std::vector<std::string>& overrides, int workers, const std::vector<std::string>& then,
                           int workers_then) {
  const TemporaryFolder first, second;
  quick_run(quick_config(with(overrides, {"checkpoint.every_steps=3", "checkpoint.keep=9"})), workers, first.path());
  return quick_run(quick_config(then), workers_then, second.path(), first.path() / "checkpoints" / "step-00000003")
      .parameters;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("two levels: a resumed run has the bits of one that was not interrupted, on every shape of nodes") {
  struct Shape {
    int workers, per_node;
    const char* method;
  };
  for (const auto& [workers, per_node, method] :
       {Shape{4, 2, "topk"}, Shape{6, 3, "oktopk"}, Shape{6, 2, "dgc"}, Shape{16, 4, "dragonn"}, Shape{4, 3, "topk"}}) {
    CAPTURE(workers);
    CAPTURE(per_node);
    const std::vector<std::string> overrides = with(on_nodes(per_node, method), {"comm.hierarchy=node"});
    const std::vector<float> once = trained(overrides, workers);
    CHECK(resumed(overrides, workers, overrides, workers) == once);
    CHECK(trained(with(overrides, {"comm.hierarchy=off"}), workers) != once);
    if (workers % per_node == 0) CHECK(trained(with(overrides, {"comm.hierarchy=auto"}), workers) == once);
  }
}

TEST_CASE("two levels: nodes of one worker have the bits of one level") {
  CHECK(trained(with(on_nodes(1), {"comm.hierarchy=node"}), 3) ==
        trained(with(on_nodes(1), {"comm.hierarchy=off"}), 3));
  CHECK(trained(on_nodes(0), 4) == trained(with(on_nodes(0), {"comm.hierarchy=off"}), 4));
}

TEST_CASE("two levels: schemes, overlap, clipping and memories that follow an estimate resume to the same bits") {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"update.scheme=local", "update.inner_steps=2", "optimizer.name=adamw"},
                                             {"update.scheme=local", "update.inner_steps=4", "update.fragments=2",
                                              "update.overlap_steps=1", "optimizer.name=adamw"},
                                             {"update.delay_steps=1", "compression.overlap=true"},
                                             {"train.clip=global", "train.clip_norm=0.1"},
                                             {"train.clip=local", "train.clip_norm=0.1"},
                                             {"compression.memory=ef21", "update.average=ranks"},
                                             {"compression.method=qsgd"}}) {
    CAPTURE(more.front());
    const std::vector<std::string> overrides = with(with(on_nodes(2), {"comm.hierarchy=node"}), more);
    CHECK(resumed(overrides, 4, overrides, 4) == trained(overrides, 4));
  }
  const std::vector<std::string> overlapped = with(on_nodes(2), {"compression.overlap=true"});
  CHECK(trained(overlapped, 4) == trained(on_nodes(2), 4));
}

TEST_CASE("two levels: a checkpoint goes to other nodes and to one level, and back") {
  const std::vector<std::string> nodes = on_nodes(2), flat = with(on_nodes(2), {"comm.hierarchy=off"});
  CHECK_NOTHROW(resumed(nodes, 4, flat, 4));
  CHECK_NOTHROW(resumed(flat, 4, nodes, 4));
  CHECK_NOTHROW(resumed(nodes, 4, nodes, 6));
  CHECK_NOTHROW(resumed(nodes, 6, on_nodes(3), 4));
  CHECK_NOTHROW(resumed(nodes, 4, flat, 3));
}

TEST_CASE("two levels: what they do not go with is refused, or leaves auto with one level") {
  const auto refusal = [](const std::vector<std::string>& overrides) -> std::string {
    try {
      quick_config(with(overrides, {"comm.hierarchy=node"}));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(contains(refusal({"compression.method=topk", "compression.select_tensors=cost_model"}),
                 "comm.hierarchy = \"node\" does not go with compression.select_tensors = \"cost_model\""));
  CHECK(contains(refusal({"comm.backend=tcp", "comm.elastic=true"}),
                 "comm.elastic = true does not go with comm.hierarchy = \"node\""));
  const auto levels = [](const std::vector<std::string>& overrides, const comm::Nodes& nodes) {
    return rules_on(quick_config(overrides), nodes).nodes ? 2 : 1;
  };
  const comm::Nodes even = comm::Nodes::of_size(4, 2), uneven = comm::Nodes::of_size(4, 3);
  CHECK(levels({"compression.method=topk"}, even) == 2);
  CHECK(levels({"compression.method=topk"}, uneven) == 1);
  CHECK(levels({"compression.method=topk"}, comm::Nodes(4)) == 1);
  CHECK(levels({"compression.method=dense"}, even) == 1);
  CHECK(levels({"compression.method=topk", "compression.select_tensors=cost_model"}, even) == 1);
  CHECK(levels({"compression.method=topk", "comm.hierarchy=node"}, uneven) == 2);
  CHECK(levels({"compression.method=dense", "comm.hierarchy=node"}, comm::Nodes(4)) == 2);
}

TEST_CASE("two levels: the plan says who exchanges what, and what a place sends") {
  const RunSpec config = quick_config(on_nodes(2));
  const layers::Network network = make_network(config, {6, 6, 1}, 4);
  const RunPlan plan = plan_run(config, network, given_nodes(config, 4));
  const std::string text = describe(plan, config, 4);
  CHECK(contains(text, "2 nodes of 2 workers: each worker sends"));
  CHECK(contains(text, "place 1"));
  const RunPlan flat =
      plan_run(quick_config(with(on_nodes(2), {"comm.hierarchy=off"})), network, given_nodes(config, 4));
  CHECK(plan.exchange.cost().bytes_sent < flat.exchange.cost().bytes_sent / 3);
  CHECK(plan.exchange.state_bytes < flat.exchange.state_bytes);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing
