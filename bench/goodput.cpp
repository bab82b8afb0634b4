// SPDX-License-Identifier: MIT
/// `dragonn-bench goodput`: what failures leave of a run's speed, elastic or restarted. The members of the elastic run
/// are those of comm/elastic/membership.h, which orders them as a coordinator does; steps, deaths and silence are
/// events in virtual time.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/options.h"
#include "comm/elastic/membership.h"
#include "core/rng.h"

namespace dragonn::bench {
namespace {

/// Times in seconds.
struct Cluster {
  int workers = 32;
  double step = 1;
  double mean_steps_to_failure = 50;  ///< of any worker; the times between failures are exponential
  double silent = 0.5;                ///< share of failures without a word: stopped processes, cut links
  double heartbeat = 5;               ///< after which a silent worker is taken for dead
  double back = 30;                   ///< from a failure to the return of a worker
  double stream = 10;                 ///< from the return of a worker until it has the state, while the others train
  double join = 1;                    ///< from the beginning of a generation with new workers to its first step
  double form = 0.1;                  ///< the same without new workers
  double restart = 30;                ///< of all workers, with fixed membership
  double checkpoint_steps = 100;      ///< between checkpoints, with fixed membership
  double seconds = 100'000;           ///< that are simulated
};

struct Goodput {
  double committed = 0;  ///< steps of workers
  double possible = 0;   ///< seconds in which workers were there, over those of a step
  int failures = 0;
  double share() const { return committed / possible; }
};

/// The failures of a cluster. Both kinds of runs meet the same ones, whatever they do meanwhile.
class Failures {
 public:
  Failures(const Cluster& cluster, std::uint64_t seed)
      : mean_(cluster.mean_steps_to_failure * cluster.step), silent_(cluster.silent), stream_(seed, "goodput") {
    advance();
  }

  double next() const { return next_; }
  bool is_silent() const { return is_silent_; }
  /// Returns the victim, of so many workers that are there.
  std::size_t victim(std::size_t workers) const {
    return std::min(workers - 1, static_cast<std::size_t>(place_ * static_cast<double>(workers)));
  }
  void advance() {
    next_ -= mean_ * std::log1p(-stream_.uniform_double());
    is_silent_ = stream_.uniform_double() < silent_;
    place_ = stream_.uniform_double();
  }

 private:
  double mean_, silent_;
  Rng stream_;
  double next_ = 0, place_ = 0;
  bool is_silent_ = false;
};

/// An elastic run: processes that obey the orders of a Membership at once, and train.
class ElasticRun {
 public:
  ElasticRun(const Cluster& cluster, std::uint64_t seed)
      : cluster_(cluster), failures_(cluster, seed), membership_(cluster.workers, 1, cluster.workers) {
    for (int i = 0; i < cluster.workers; ++i) come();
  }

  Goodput run() {
    while (now_ < cluster_.seconds && !membership_.is_over()) {
      const double due = std::min({failures_.next(), returns_.empty() ? kNever : returns_.front(),
                                   silences_.empty() ? kNever : silences_.front().at, agreement_, next_stream()});
      goodput_.possible +=
          (std::min(due, cluster_.seconds) - now_) * static_cast<double>(alive_.size()) / cluster_.step;
      now_ = due;
      if (now_ >= cluster_.seconds) break;
      if (due == agreement_) {
        agree();
      } else if (due == failures_.next()) {
        fail();
      } else if (!returns_.empty() && due == returns_.front()) {
        returns_.pop();
        come();
      } else if (due == next_stream()) {
        end_stream();
      } else {
        const int member = silences_.front().member;
        silences_.pop();
        leave(member, "it is silent");
      }
    }
    return goodput_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Process {
    std::uint64_t generation = 0;  // in which it trains; 0: it waits for the next one
    bool yields = false;
  };
  struct Silence {
    double at;
    int member;
  };
  struct Stream {
    double end;
    int donor;
  };

  double next_stream() const {
    double next = kNever;
    for (const auto& [taker, stream] : streams_) next = std::min(next, stream.end);
    return next;
  }

  /// A process has the state of the run.
  void end_stream() {
    const auto ended = std::ranges::find(streams_, now_, [](const auto& entry) { return entry.second.end; });
    const int taker = ended->first;
    streams_.erase(ended);
    membership_.ready(taker);
    obey();
  }

  void come() {
    const int member = next_id_++;
    alive_[member] = {};
    membership_.join(member);
    obey();
  }

  void fail() {
    const bool is_silent = failures_.is_silent();
    const auto victim = std::next(alive_.begin(), static_cast<std::ptrdiff_t>(failures_.victim(alive_.size())));
    const int member = victim->first;
    failures_.advance();
    if (alive_.size() == 1) return;  // the last one: nothing could go on
    ++goodput_.failures;
    // Nobody comes out of an agreement that a member does not enter; one that waits for a generation is in none.
    if (victim->second.generation > 0) agreement_ = kNever;
    alive_.erase(victim);
    streams_.erase(member);
    for (auto& [taker, stream] : streams_)
      if (stream.donor == member) stream.end = kNever;  // until another one gives the state
    returns_.push(now_ + cluster_.back);
    if (!is_silent) return leave(member, "its connection has ended");
    silences_.push({now_ + cluster_.heartbeat, member});
  }

  void leave(int member, const std::string& why) {
    membership_.leave(member, why);
    obey();
  }

  /// All members of the generation commit an agreement: its beginning, or a step.
  void agree() {
    ++place_;
    if (!is_beginning_) goodput_.committed += static_cast<double>(membership_.generation().members.size());
    is_beginning_ = false;
    agreement_ = now_ + cluster_.step;
    std::vector<int> leaving;
    for (const auto& [member, process] : alive_) {
      if (process.yields) leaving.push_back(member);
    }
    for (const int member : leaving) report(member);
    obey();
  }

  void report(int member) {
    Process& process = alive_.at(member);
    const std::uint64_t generation = std::exchange(process.generation, 0);
    process.yields = false;
    if (generation > 0) membership_.report(member, generation, place_, "");
  }

  void obey() {
    for (std::vector<comm::Order> orders = membership_.take_orders(); !orders.empty();
         orders = membership_.take_orders()) {
      for (const comm::Order& order : orders) {
        const auto found = alive_.find(order.member);
        if (found == alive_.end()) continue;  // it does not hear
        if (order.kind == comm::Order::Kind::kGive && alive_.contains(order.taker))
          streams_[order.taker] = {now_ + cluster_.stream, order.member};
        if (order.kind == comm::Order::Kind::kDrop) {
          streams_.erase(order.member);
          alive_.erase(found);
          continue;
        }
        if (order.kind == comm::Order::Kind::kYield) found->second.yields = true;
        if (order.kind == comm::Order::Kind::kEnd) {
          agreement_ = kNever;
          report(order.member);
        }
        if (order.kind == comm::Order::Kind::kForm) begin(order, found->second);
      }
    }
  }

  /// One member of a new generation begins; with the last one all do.
  void begin(const comm::Order& order, Process& process) {
    process.generation = order.plan.number;
    process.yields = false;
    const std::vector<int>& members = order.plan.members;
    const bool are_all_there = std::ranges::all_of(members, [&](int member) {
      const auto found = alive_.find(member);
      return found != alive_.end() && found->second.generation == order.plan.number;
    });
    if (!are_all_there) {
      agreement_ = kNever;  // until a silent one is missed
      return;
    }
    const bool has_new = std::ranges::any_of(members, [&](int member) { return member > newest_; });
    agreement_ = now_ + (has_new && place_ > 0 ? cluster_.join : cluster_.form);
    newest_ = std::max(newest_, members.back());
    is_beginning_ = true;
  }

  Cluster cluster_;
  Failures failures_;
  comm::Membership membership_;
  Goodput goodput_;
  double now_ = 0;
  std::uint64_t place_ = 0;
  double agreement_ = kNever;  // when all are through the one that they are in
  bool is_beginning_ = true;
  std::map<int, Process> alive_;   // by id: those that are no member yet, too
  std::map<int, Stream> streams_;  // by taker
  std::queue<double> returns_;     // ascending, as all are away for the same time
  std::queue<Silence> silences_;   // ascending, too
  int next_id_ = 0, newest_ = -1;
};

/// A run that needs all its workers: a failure ends it, and it goes on from the last checkpoint when all have
/// restarted.
Goodput run_fixed(const Cluster& cluster, std::uint64_t seed) {
  Failures failures(cluster, seed);
  Goodput goodput;
  const double workers = cluster.workers;
  double begin = 0;  // of the present attempt
  double saved = 0;  // steps
  while (begin < cluster.seconds) {
    while (failures.next() < begin) {  // while it restarts: the restart begins anew
      ++goodput.failures;
      begin = failures.next() + cluster.restart;
      failures.advance();
    }
    const double end = std::min(failures.next(), cluster.seconds);
    const double done = std::floor(std::max(end - begin, 0.0) / cluster.step);
    const bool is_over = failures.next() >= cluster.seconds;
    saved += is_over ? done : std::floor(done / cluster.checkpoint_steps) * cluster.checkpoint_steps;
    if (is_over) break;
    ++goodput.failures;
    begin = failures.next() + (failures.is_silent() ? cluster.heartbeat : 0) + cluster.restart;
    failures.advance();
  }
  goodput.committed = saved * workers;
  goodput.possible = cluster.seconds / cluster.step * workers;
  return goodput;
}

class GoodputBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    const auto seconds = [&](const char* name, double& value, const char* help) {
      command.add_option(name, value, help)->check(CLI::NonNegativeNumber);
    };
    command.add_option("--workers", cluster_.workers, "Workers at the start, and at most")->check(CLI::Range(2, 4096));
    add_list_option(command, "--steps-to-failure", steps_, "Mean steps from one failure of any worker to the next")
        ->check(CLI::PositiveNumber);
    command.add_option("--silent", cluster_.silent, "Share of failures without a word")->check(CLI::Range(0.0, 1.0));
    command.add_option("--step", cluster_.step, "Seconds of a step")->check(CLI::PositiveNumber);
    seconds("--heartbeat", cluster_.heartbeat, "Seconds after which a silent worker is taken for dead");
    seconds("--back", cluster_.back, "Seconds from a failure to the return of a worker");
    seconds("--stream", cluster_.stream, "Seconds in which a worker gets the state, while the others train");
    seconds("--join", cluster_.join, "Seconds to the first step of a generation with new workers");
    seconds("--form", cluster_.form, "Seconds to the first step of any other generation");
    seconds("--restart", cluster_.restart, "Seconds of a restart of all workers, with fixed membership");
    command.add_option("--checkpoint", cluster_.checkpoint_steps, "Steps between checkpoints, with fixed membership")
        ->check(CLI::PositiveNumber);
    command.add_option("--seconds", cluster_.seconds, "Seconds that are simulated")->check(CLI::PositiveNumber);
    command.add_option("--seed", seed_, "Seed of the failures");
  }

  Rows run(Progress& progress) override {
    progress.plan(static_cast<double>(steps_.size()));
    Rows rows;
    for (const double steps : steps_) {
      Cluster cluster = cluster_;
      cluster.mean_steps_to_failure = steps;
      const Goodput elastic = ElasticRun(cluster, seed_).run(), fixed = run_fixed(cluster, seed_);
      rows.push_back({{"workers", cluster.workers},
                      {"step_seconds", cluster.step},
                      {"silent", cluster.silent},
                      {"heartbeat_seconds", cluster.heartbeat},
                      {"back_seconds", cluster.back},
                      {"stream_seconds", cluster.stream},
                      {"join_seconds", cluster.join},
                      {"restart_seconds", cluster.restart},
                      {"checkpoint_steps", cluster.checkpoint_steps},
                      {"steps_to_failure", steps},
                      {"failures", elastic.failures},
                      {"elastic", elastic.share()},
                      {"fixed", fixed.share()}});
      progress.advance(1, fmt::format("a failure in {:g} steps", steps));
    }
    return rows;
  }

  std::vector<std::string> remarks() const override {
    return {"Shares of the samples that the workers that were there could have done, with comm.elastic,",
            "and with fixed membership, where a failure restarts all workers from a checkpoint."};
  }

 private:
  Cluster cluster_;
  std::vector<double> steps_{1000, 200, 50, 20};
  std::uint64_t seed_ = 1;
};

const Registration<BenchmarkEntry> registration{
    {{"goodput", "Simulates what failures leave of an elastic run's speed, and of a restarted one's"},
     [] { return std::make_unique<GoodputBenchmark>(); },
     {.conditions = {"workers", "step_seconds", "silent", "heartbeat_seconds", "back_seconds", "stream_seconds",
                     "join_seconds", "restart_seconds", "checkpoint_steps"},
      .results = {"steps_to_failure", "elastic", "fixed", "failures"}},
     {"goodput", "goodput --workers 8 --step 30 --steps-to-failure 20,100 --join 60", "goodput --silent 1 --json -"}}};

}  // namespace
}  // namespace dragonn::bench
