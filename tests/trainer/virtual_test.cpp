// SPDX-License-Identifier: MIT
/// Tests of runs on a virtual cluster.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "comm/network_file.h"
#include "comm/node_links.h"
#include "comm/virtual/virtual_worker.h"
#include "core/file.h"
#include "tests/exchange/combinations.h"
#include "tests/trainer/quick_run.h"
#include "trainer/run/overlapped_backward.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

using Json = nlohmann::json;
using Overrides = std::vector<std::string>;

constexpr double kLatency = 250e-6;
constexpr double kBytesPerSecond = 1e7;

/// @param slower how many times latency and bandwidth are worse.
Overrides on_network(double slower, Overrides more = {}) {
  more.insert(more.end(), {"network.model=alpha-beta", fmt::format("network.latency_us={}", slower * kLatency * 1e6),
                           fmt::format("network.gbps={}", kBytesPerSecond * 8 / 1e9 / slower)});
  return more;
}

Overrides zero_compute(double slower, Overrides more = {}) {
  more.push_back("network.compute=zero");
  return on_network(slower, std::move(more));
}

/// The tolerance is a share of the time itself; doctest's default would add as many seconds.
doctest::Approx about(double seconds, double share) {
  return doctest::Approx(seconds).epsilon(share).scale(1e-9);
}

struct VirtualRun {
  std::vector<Json> steps;
  std::vector<Json> evaluations;
  Json summary;
  std::vector<double> times() const {
    std::vector<double> result;
    for (const Json& step : steps) result.push_back(step.at("time"));
    return result;
  }
  std::vector<double> losses() const {
    std::vector<double> result;
    for (const Json& step : steps) result.push_back(step.at("loss"));
    return result;
  }
};

VirtualRun read_run(const std::filesystem::path& folder) {
  VirtualRun run;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    (json.at("kind") == "step" ? run.steps : run.evaluations).push_back(std::move(json));
  }
  run.summary = Json::parse(read_text_file(folder / "summary.json"));
  return run;
}

VirtualRun run_of(int world, const Overrides& overrides) {
  const TemporaryFolder folder;
  quick_run(quick_config(overrides), world, folder.path());
  return read_run(folder.path());
}

/// A step of two ranks whose backward works for some time before each of three gradients is final, and whose exchange
/// of one takes kExchange. Nothing else takes time.
struct OverlapTimes {
  double step = 0;
  double backward = 0;
  double hidden = 0;
  double exposed = 0;
};

constexpr std::size_t kSide = 100;
constexpr double kDensity = 0.1;
constexpr comm::NetworkModel kSlow{.latency_seconds = 10e-3, .bytes_per_second = 1e6};
constexpr double kExchange = kSlow.latency_seconds + kDensity * kSide * kSide * 8 / kSlow.bytes_per_second;

/// The tolerance is for rounding in sums of a few products.
doctest::Approx about(double seconds) {
  return doctest::Approx(seconds).epsilon(1e-12);
}

/// Works on the thread that has the clock, for the same time on every machine.
void work_for(double seconds, Clock& clock) {
  const Moment begin = clock.moment();
  clock.advance_to({begin.seconds + seconds, begin.ideal + seconds});
}

/// Passes everything on to another communicator, and keeps the clock that was last forked from it.
class ForkKeeper final : public comm::Communicator {
 public:
  explicit ForkKeeper(comm::Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string backend() const override { return inner_.backend(); }
  Clock& clock() override { return inner_.clock(); }
  const Clock& clock() const override { return inner_.clock(); }
  std::unique_ptr<Clock> fork_clock() const override {
    std::unique_ptr<Clock> clock = inner_.fork_clock();
    forked_ = clock.get();
    return clock;
  }
  Clock& forked() const { return *forked_; }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 protected:
  comm::Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    return inner_.isend(destination, tag, message);
  }
  comm::Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    return inner_.irecv(source, tag, buffer);
  }
  std::size_t finish(const comm::Request& request) override {
    comm::Request same = request;
    return inner_.wait(same);
  }
  void start_notification(int destination, const comm::Notification& notification) override {
    inner_.notify(destination, notification);
  }
  std::optional<comm::Notification> take_notification(int source) override { return inner_.poll_notification(source); }
  std::optional<comm::Notification> finish_notification(int source,
                                                        const std::function<bool()>& is_interrupted) override {
    return inner_.wait_for_notification(source, is_interrupted);
  }

 private:
  comm::Communicator& inner_;
  mutable Clock* forked_ = nullptr;
};

ParameterArena three_matrices() {
  ParameterArena arena;
  for (const char* name : {"first", "second", "third"}) arena.declare(name, {kSide, kSide}, ParameterRole::kWeight);
  arena.allocate();
  std::ranges::fill(arena.gradients().host(), 1.0f);
  return arena;
}

OverlapTimes overlap_times(double work, bool overlap) {
  OverlapTimes times;
  const comm::LocalOptions options{.timeout_s = 60, .network = kSlow, .compute = comm::Compute::kZero};
  comm::run_local(2, options, [&](comm::Communicator& inner) {
    ForkKeeper communicator(inner);
    ParameterArena arena = three_matrices();
    exchange::GradientExchange exchange(rules_of({"topk", "allgather", "residual"}), arena, communicator);
    const auto backward = [&](const layers::GradientReady& ready) {
      for (ParameterId id = arena.parameters().size(); id-- > 0;) {
        work_for(work, overlap ? communicator.forked() : communicator.clock());
        if (ready) ready(id);
      }
    };
    ComputeThread thread(communicator);
    OverlappedBackward overlapped(thread, arena, exchange.buckets(), backward);
    for (std::uint64_t step = 0; step < 3; ++step) {
      StepTimers timers(communicator.clock());
      const double begin = communicator.now();
      overlap ? overlapped.start() : backward({});
      exchange.run({.step = step, .density = kDensity, .learning_rate = 0.1}, View<const float>(arena.gradients()),
                   timers, overlap ? &overlapped : nullptr);
      exchange.commit(timers);
      if (overlap) overlapped.finish(timers);
      if (communicator.rank() > 0) continue;
      times = {communicator.now() - begin, timers.seconds(StepPart::kBackward),
               timers.seconds(StepPart::kExchangeHidden), timers.seconds(StepPart::kExchangeExposed)};
    }
  });
  return times;
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("virtual: a step takes what the formula of its exchange says, with any number of workers") {
    for (const int world : {1, 4, 32}) {
      const Overrides model{"compression.bucket=model", "data.train_samples=576"};
      const VirtualRun run = run_of(world, zero_compute(1, model));
      const double bytes = run.steps[0].at("bytes_sent").at("mean");
      const double ring = 2 * (world - 1) * kLatency + bytes / kBytesPerSecond;
      // All ranks agree on the step (StepWord).
      const double step = ring + std::ceil(std::log2(world)) * (kLatency + 16 / kBytesPerSecond);
      REQUIRE(run.steps.size() == 6);
      for (std::size_t i = 0; i < run.steps.size(); ++i) {
        // Chunks of a ring differ by one element.
        CHECK(run.steps[i].at("time").get<double>() == about(step * (i + 1.0), 0.01));
        const Json& seconds = run.steps[i].at("seconds");
        CHECK(seconds.value("exchange", 0.0) == about(step, 0.01));
        CHECK(seconds.size() == (world > 1 ? 1 : 0));  // nothing else takes time
      }
      CHECK(run.summary.at("time") == "virtual");
      CHECK(run.summary.at("seconds_total") == run.steps.back().at("time"));
    }
  }

  TEST_CASE("virtual: the network changes times, and nothing else") {
    for (const char* method : {"dense", "gtopk", "oktopk"}) {
      CAPTURE(method);
      const Overrides base{std::string("compression.method=") + method, "compression.bucket=model"};
      const VirtualRun real = run_of(4, base);
      const VirtualRun fast = run_of(4, zero_compute(1, base));
      const VirtualRun slow = run_of(4, zero_compute(10, base));
      CHECK(real.summary.at("time") == "wall");
      CHECK(fast.losses() == real.losses());
      CHECK(slow.losses() == real.losses());
      CHECK(fast.summary.at("parameters_hash") == real.summary.at("parameters_hash"));
      CHECK(slow.summary.at("parameters_hash") == real.summary.at("parameters_hash"));
      for (std::size_t i = 0; i < fast.steps.size(); ++i) {
        // Rounding alone: every time is a sum of products of the network's numbers.
        CHECK(slow.times()[i] == about(10 * fast.times()[i], 1e-9));
      }
    }
  }

  TEST_CASE("virtual: without compute every run has the same times") {
    const Overrides overrides = zero_compute(1, {"compression.method=oktopk"});
    const std::vector<double> first = run_of(5, overrides).times();
    CHECK(run_of(5, overrides).times() == first);
  }

  TEST_CASE("virtual: evaluations, checkpoints and metrics take no time") {
    const VirtualRun bare = run_of(3, zero_compute(1, {"logging.every_steps=6"}));
    const VirtualRun busy = run_of(
        3, zero_compute(1, {"train.eval_every_epochs=1", "data.train_samples=18", "train.epochs=3",
                            "checkpoint.every_steps=1", "train.replica_check_every=1", "logging.dump_gradients=[2]"}));
    REQUIRE(busy.steps.size() == 6);
    CHECK(busy.steps.back().at("time") == bare.steps.back().at("time"));
    CHECK(busy.evaluations.size() == 3);
    CHECK(busy.evaluations[0].at("time") == busy.steps[1].at("time"));
  }

  TEST_CASE("virtual: a resumed run goes on where the clock of every rank stood") {
    for (const char* method : {"dense", "gtopk"}) {
      const Overrides overrides = zero_compute(1, {std::string("compression.method=") + method});
      const VirtualRun whole = run_of(3, overrides);
      const TemporaryFolder folder;
      RunSpec config = quick_config(overrides);
      config.train.max_steps = 2;
      quick_run(config, 3, folder.path());
      config.train.max_steps = 6;
      quick_run(config, 3, folder.path(), "auto");
      CHECK(read_run(folder.path()).times() == whole.times());
    }
  }

  TEST_CASE("virtual: measured work is in the times, by verb") {
    const VirtualRun run = run_of(3, on_network(1));
    const VirtualRun zero = run_of(3, zero_compute(1));
    CHECK(run.steps[0].at("seconds").at("forward") > 0);
    CHECK(run.steps[0].at("seconds").at("backward") > 0);
    CHECK(run.times().back() > zero.times().back());
    CHECK(run.losses() == zero.losses());
  }

  TEST_CASE("virtual: behind a long backward all exchanges but the last are hidden") {
    constexpr double kWork = kExchange + 10e-3;
    CHECK(overlap_times(kWork, false).step == about(3 * kWork + 3 * kExchange));
    const OverlapTimes beside = overlap_times(kWork, true);
    CHECK(beside.step == about(3 * kWork + kExchange));
    CHECK(beside.backward == about(3 * kWork));
    CHECK(beside.hidden == about(2 * kExchange));
    CHECK(beside.exposed == about(kExchange));
  }

  TEST_CASE("virtual: beside a backward that is soon over exchanges follow each other as after it") {
    constexpr double kWork = 1e-3;
    CHECK(overlap_times(0, true).step == about(3 * kExchange));
    const OverlapTimes beside = overlap_times(kWork, true);
    CHECK(beside.step == about(kWork + 3 * kExchange));
    CHECK(beside.hidden == about(2 * kWork));
    CHECK(beside.exposed == about(3 * kExchange - 2 * kWork));
  }

  TEST_CASE("virtual: the measured work of backward's own thread is in the time of backward") {
    comm::run_local(1, {.network = kSlow}, [&](comm::Communicator& communicator) {
      ParameterArena arena = three_matrices();
      exchange::GradientExchange exchange(rules_of({"topk", "allgather", "residual"}), arena, communicator);
      double worked = 0;
      ComputeThread thread(communicator);
      OverlappedBackward overlapped(thread, arena, exchange.buckets(), [&](const layers::GradientReady&) {
        comm::VirtualClock clock(comm::Compute::kMeasured);
        clock.attach_to_this_thread();
        while (worked < 1e-3) worked = clock.now();
      });
      StepTimers timers(communicator.clock());
      overlapped.start();
      exchange.run({.step = 0, .density = kDensity}, View<const float>(arena.gradients()), timers, &overlapped);
      exchange.commit(timers);
      overlapped.finish(timers);
      if (timers.seconds(StepPart::kBackward) < worked) throw Error("the work of backward is not in its time");
    });
  }

  TEST_CASE("virtual: without compute overlap changes no time") {
    // With fusion overlap cuts smaller groups.
    const Overrides overrides{"compression.method=topk", "compression.bucket=tensor", "compression.fusion_mib=0"};
    const std::vector<double> after = run_of(3, zero_compute(1, overrides)).times();
    Overrides overlapped = overrides;
    overlapped.push_back("compression.overlap=true");
    CHECK(run_of(3, zero_compute(1, overlapped)).times() == after);
  }

  TEST_CASE("virtual: forward and backward take the described time, and overlap hides the exchange behind it") {
    const Overrides overrides{"compression.method=topk", "compression.bucket=tensor", "compression.fusion_mib=0",
                              "train.gradient_accumulation=2"};
    const VirtualRun plain = run_of(3, zero_compute(1, overrides));
    Overrides described = overrides;
    described.push_back("network.step_ms=30");
    const VirtualRun serial = run_of(3, zero_compute(1, described));
    described.push_back("compression.overlap=true");
    const VirtualRun overlapped = run_of(3, zero_compute(1, described));
    CHECK(serial.losses() == plain.losses());
    CHECK(overlapped.losses() == plain.losses());
    CHECK(serial.summary.at("network").at("step_ms") == 30);
    REQUIRE(serial.steps.size() == plain.steps.size());
    for (std::size_t i = 0; i < plain.steps.size(); ++i) {
      const double computing = 0.03 * serial.steps[i].at("step").get<double>();
      CHECK(serial.times()[i] == about(plain.times()[i] + computing, 1e-9));
      CHECK(overlapped.times()[i] > computing);
      CHECK(overlapped.times()[i] < serial.times()[i]);
    }
  }

  TEST_CASE("virtual: workers of a node share its link, in every run alike, and compute the same") {
    // Inside a node as between nodes, so that the shared link alone makes the difference.
    const Overrides together{"compression.method=topk", "comm.hierarchy=off", "network.workers_per_node=2",
                             fmt::format("network.inside_latency_us={}", kLatency * 1e6),
                             fmt::format("network.inside_gbps={}", kBytesPerSecond * 8 / 1e9)};
    const VirtualRun alone = run_of(4, zero_compute(1, {"compression.method=topk"}));
    const VirtualRun shared = run_of(4, zero_compute(1, together));
    CHECK(shared.losses() == alone.losses());
    CHECK(shared.times().back() > alone.times().back());
    CHECK(run_of(4, zero_compute(1, together)).times() == shared.times());
    CHECK(shared.summary["network"]["workers_per_node"] == 2);
    const TemporaryFolder folder;
    quick_run(quick_config(zero_compute(1, {"compression.method=topk", "network.workers_per_node=2"})), 4,
              folder.path());
    const VirtualRun levels = read_run(folder.path());
    CHECK(levels.summary["bytes_sent_total"] != shared.summary["bytes_sent_total"]);  // two levels, by itself
    const Json advised = Json::parse(read_text_file(folder.path() / "profile.json"));
    CHECK(advised["ranks"] == 2);  // nodes, whose advice it is
    CHECK(advised["workers_per_node"] == 2);
    const Overrides unlike{"network.nodes=[3,1]", "network.up_gbps=[0.08,0.008]"};
    const VirtualRun uneven = run_of(4, zero_compute(1, unlike));
    CHECK(uneven.summary["network"]["nodes"] == Json{3, 1});
    CHECK(uneven.times().back() > run_of(4, zero_compute(1, {unlike[0]})).times().back());
  }

  TEST_CASE("virtual: by link a slow worker selects less, so that a step is faster with as many entries in all") {
    const Overrides uneven{"compression.method=topk",
                           "compression.density=0.1",
                           "compression.bucket=model",
                           "compression.allgather.route=direct",
                           "network.up_gbps=[0.0008,0.008,0.008,0.008]",
                           "network.down_gbps=[0.008,0.008,0.008,0.008]"};
    const auto by_link = [&](const std::string& least, const Overrides& more = {}) {
      Overrides overrides = uneven;
      overrides.insert(overrides.end(), {"compression.share=by_link", "compression.least_share=" + least});
      overrides.insert(overrides.end(), more.begin(), more.end());
      return run_of(4, zero_compute(1, overrides));
    };
    const auto selected = [](const VirtualRun& run) -> std::vector<double> { return run.steps.back().at("selected"); };
    const auto sum = [](const std::vector<double>& counts) {
      return std::accumulate(counts.begin(), counts.end(), 0.0);
    };
    const VirtualRun equal = run_of(4, zero_compute(1, uneven));
    const double all = sum(selected(equal)), one = selected(equal)[0];
    // The share of the slow worker, and of the others: in proportion, with the others' rest, and equal.
    const std::vector<std::tuple<std::string, double, double>> cases{
        {"0", 4 / 31.0, 40 / 31.0}, {"0.1", 4 / 31.0, 40 / 31.0}, {"0.6", 0.6, 3.4 / 3}, {"1", 1, 1}};
    for (const auto& [least, slow, others] : cases) {
      CAPTURE(least);
      const VirtualRun shared = by_link(least);
      const std::vector<double> counts = selected(shared);
      CHECK(std::abs(counts[0] - slow * one) < 1);
      CHECK(std::abs(counts[1] - others * one) < 1);
      CHECK(sum(counts) == about(all, 0.02));
      if (slow <= 0.6) CHECK(shared.times().back() * 1.5 < equal.times().back());
    }
    // What the slowest gets more, the others lack, so that the second slowest is raised, too.
    const std::vector<double> raised = selected(by_link("0.9", {"network.up_gbps=[0.0008,0.0044,0.008,0.008]"}));
    CHECK(raised[1] == raised[0]);
    CHECK(std::abs(raised[0] - 0.9 * one) < 1);
    CHECK(std::abs(raised[2] - 1.1 * one) < 1);
    CHECK_THROWS_WITH_AS(
        quick_config({"compression.method=topk", "compression.share=by_link"}),
        "quick.toml: compression.share = \"by_link\" needs the rates of the links: expected network.model = "
        "\"alpha-beta\" and network.up_gbps, with a rate for each node, or network.file",
        ConfigError);
  }

  TEST_CASE("virtual: a network file has the bits and times of the keys that say the same") {
    const Overrides training{"compression.method=topk", "comm.hierarchy=node"};
    const VirtualRun keys =
        run_of(3, zero_compute(1, {training[0], training[1], "network.nodes=[2,1]", "network.up_gbps=[0.08,0.008]"}));
    comm::NodeLinks links =
        quick_config(zero_compute(1, {"network.nodes=[2,1]", "network.up_gbps=[0.08,0.008]"})).network.node_links(3);
    links.down = {kBytesPerSecond, kBytesPerSecond};
    links.pairs.assign(4, {kLatency, links.up[0]});
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "net.json").string();
    write_file_atomically(path, comm::network_file_text(links, ""));
    const Overrides described{"network.compute=zero", "network.model=alpha-beta", "network.file=" + path, training[0],
                              training[1]};
    const VirtualRun file = run_of(3, described);
    CHECK(file.losses() == keys.losses());
    CHECK(file.times() == keys.times());
    CHECK(file.summary["parameters_hash"] == keys.summary["parameters_hash"]);
    CHECK(file.summary["network"]["file"] == path);
    CHECK_THROWS_WITH_AS(local_options(quick_config(described), 4),
                         ("network.file = \"" + path + "\" has 3 workers: expected 4 in all").c_str(), ConfigError);
    links.pairs[1].bytes_per_second = links.up[1] / 10;
    write_file_atomically(path, comm::network_file_text(links, ""));
    const VirtualRun slower = run_of(3, described);
    CHECK(slower.losses() == keys.losses());
    CHECK(slower.times().back() > keys.times().back());
  }

  TEST_CASE("virtual: formulas know the slowest of links that differ") {
    const auto gbps = [](const Overrides& links) {
      Overrides overrides{"network.model=alpha-beta", "network.gbps=0.1", "network.latency_us=100"};
      overrides.insert(overrides.end(), links.begin(), links.end());
      return quick_config(overrides).network.slowest_link().value().gbps();
    };
    CHECK(gbps({}) == about(0.1));
    CHECK(gbps({"network.up_gbps=[0.1,0.02]"}) == about(0.02));
    CHECK(gbps({"network.down_gbps=[0.1,0.05]"}) == about(0.05));
    CHECK(gbps({"network.up_gbps=[1,1]"}) == about(0.1));  // into the nodes at the network's rate
    CHECK(gbps({"network.up_gbps=[1,0.4]", "network.down_gbps=[0.2,1]"}) == about(0.2));
    CHECK_FALSE(quick_config({}).network.slowest_link().has_value());
  }

  TEST_CASE("virtual: nodes that do not fit the workers are refused") {
    const auto options = [](const Overrides& overrides) {
      return local_options(quick_config(zero_compute(1, overrides)), 4);
    };
    CHECK(options({"network.workers_per_node=3"}).nodes.workers == std::vector{3, 1});
    CHECK_THROWS_WITH_AS(options({"network.nodes=[2,1]"}), "network.nodes = [2, 1] has 3 workers: expected 4 in all",
                         ConfigError);
    CHECK_THROWS_WITH_AS(options({"network.workers_per_node=2", "network.up_gbps=[1.0]"}),
                         "network.up_gbps = [1] has 1 rates: expected one for each of 2 nodes", ConfigError);
    CHECK_THROWS_AS(quick_config({"network.workers_per_node=2"}), ConfigError);
    CHECK_THROWS_AS(quick_config({"network.down_gbps=[1.0]"}), ConfigError);
  }

  TEST_CASE("virtual: a config whose times would not be true is refused") {
    CHECK_THROWS_WITH_AS(local_options(quick_config(on_network(1, {"comm.threads_per_worker=2"})), 2),
                         "network.compute = \"measured\" does not go with comm.threads_per_worker = 2: a virtual "
                         "cluster measures one thread per worker; expected 1, or network.compute = \"zero\"",
                         ConfigError);
    CHECK(local_options(quick_config(zero_compute(1, {"comm.threads_per_worker=2"})), 2).network);
    CHECK_FALSE(local_options(quick_config(), 2).network);
    CHECK_THROWS_AS(quick_config({"network.compute=zero"}), ConfigError);
    CHECK_THROWS_AS(quick_config({"network.step_ms=100"}), ConfigError);
    CHECK_THROWS_AS(quick_config(on_network(1, {"network.compute=none"})), ConfigError);
  }
}

}  // namespace dragonn::trainer::testing
