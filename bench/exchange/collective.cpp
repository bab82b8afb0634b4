// SPDX-License-Identifier: MIT
/// `dragonn-bench collective`: seconds, bytes and messages of a gradient's exchange by every collective, compared with
/// the formulas; on local workers, or as the ranks of mpirun and srun.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "bench/benchmark.h"
#include "bench/exchange/collective_rows.h"
#include "bench/exchange/exchange_measure.h"
#include "bench/options.h"
#include "bench/ranks.h"
#include "comm/agreement.h"
#include "comm/local/local.h"
#include "compress/sparsifier.h"
#include "core/choice.h"
#include "core/file.h"
#include "trainer/config/config.h"

namespace dragonn::bench {
namespace {

using comm::SparseCollectiveEntry;

constexpr const char* kDense = "dense";
constexpr const char* kUnites = "index_union";
const std::vector<std::string> kAll{"all"};

/// Returns the method whose sparsifier and memory a collective gets: the paper's if one has its name.
std::string method_of(const std::string& collective) {
  return collective == "allgather" ? "topk" : collective;
}

class CollectiveBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    declare_what(command);
    declare_where(command);
    declare_how(command);
  }

  Rows run(Progress& progress) override {
    omp_set_num_threads(1);  // ranks share the machine
    return is_started_as_rank() ? run_under_launcher(progress) : run_locally(progress);
  }

 private:
  void declare_what(CLI::App& command) {
    add_list_option(command, "--collective", collectives_,
                    "Collectives to measure, or all (dragonn-train --list names them)");
    command.add_option("--sparsifier", sparsifier_,
                       "Sparsifier to select with (default: that of the collective's paper, else topk)");
    add_list_option(command, "--dense-algorithm", dense_algorithms_,
                    "Algorithms of the collective dense: ring, rabenseifner, native");
    add_set_option(command, assignments_,
                   "Override a setting of a sparsifier, collective or memory, such as oktopk.drift=off (repeatable)",
                   "NAME.KEY=VALUE");
    CLI::Option* const numel =
        command.add_option("--numel", numel_, "Elements of the gradient")->check(gradient_sizes());
    add_list_option(command, "--density", densities_, "Share of the elements that a rank selects, in (0, 1]");
    command.add_option("--seed", gradients_.seed, "Seed of the gradients");
    command
        .add_option("--correlation", gradients_.correlation, "Correlation of an element between two ranks, in [0, 1]")
        ->check(CLI::Range(0.0, 1.0));
    command
        .add_option(
            "--input", files_.input,
            "Exchange your own accumulated gradients in one step: float32 .npy files of one dimension; {rank} in "
            "the path stands for the rank")
        ->type_name("FILE")
        ->excludes(numel);
    command
        .add_option("--dump", files_.dump,
                    "Write acc_RANK.npy, residual_RANK.npy and sum.npy of one step of one collective to DIR")
        ->type_name("DIR");
  }

  void declare_where(CLI::App& command) {
    add_list_option(
        command, "--ranks", ranks_,
        "Numbers of ranks (default: 4): threads of this process; under a launcher its processes are the ranks")
        ->default_str("")
        ->check(CLI::Range(1, 4096));
    command.add_option(
        "--network", network_,
        "Network by name, or none. Local ranks become a virtual cluster on it, with virtual seconds; under a "
        "launcher only the formulas take it");
    command
        .add_option("--latency-us", latency_us_, "Latency of a message in microseconds (default: the named network's)")
        ->check(CLI::NonNegativeNumber);
    command.add_option("--gbps", gbps_, "Bandwidth in 10^9 bits per second (default: the named network's)")
        ->check(CLI::PositiveNumber);
    command
        .add_option("--compute", compute_,
                    "What a rank's own work costs on a virtual cluster. measured: its CPU time; zero: nothing")
        ->check(CLI::IsMember(choice_names<comm::Compute>()));
    command.add_option("--timeout", timeout_s_, "Longest wait for a message, in seconds")->check(CLI::PositiveNumber);
  }

  void declare_how(CLI::App& command) {
    steps_option_ =
        command.add_option("--steps", steps_, "Measured steps (default: 3, or a period where the collective has one)")
            ->default_str("")
            ->check(CLI::Range(1, 1000000));
    warm_up_option_ = command
                          .add_option("--warmup", warm_up_,
                                      "Steps before the first measurement: thresholds settle in them (default: 2, or "
                                      "a period where the collective has one)")
                          ->default_str("")
                          ->check(CLI::Range(0, 1000000));
    command.add_option("--svg", svg_, "Also draw a figure of seconds against ranks to FILE")->type_name("FILE");
    command.add_option("--title", title_, "Title of the figure");
    payload_option_ = command.add_flag(
        "--payload-only", payload_only_,
        "Simulate clusters that memory would not hold: draw selections as lists without gradients, and send large "
        "payloads as their size alone (needs local ranks and --network)");
    command
        .add_flag("--everything", everything_,
                  "Also report seconds_total, from compensate to settle, and the seconds of each part")
        ->excludes(payload_option_);
  }

  Rows run_locally(Progress& progress) {
    const std::vector<ExchangeCase> cases = make_cases();
    if (ranks_.empty()) ranks_ = {4};
    check_files(cases.size() * ranks_.size());
    plan(progress, cases, ranks_);
    const CollectiveRowOptions options = row_options("local");
    Rows rows;
    for (const int ranks : ranks_) {
      for (const ExchangeCase& exchange_case : cases) {
        std::vector<ExchangeRecord> records;
        comm::run_local(ranks, cluster(), [&](comm::Communicator& communicator) {
          std::vector<ExchangeRecord> measured = measure(communicator, exchange_case, progress);
          if (communicator.rank() == 0) records = std::move(measured);
        });
        std::ranges::move(collective_rows(options, exchange_case, ranks, records), std::back_inserter(rows));
      }
    }
    if (!svg_.empty()) write_file_atomically(svg_, scaling_figure(rows, title_));
    return rows;
  }

  /// Runs as one rank. Options are read before the ranks are connected; an error in them is agreed on and printed once.
  Rows run_under_launcher(Progress& progress) {
    std::vector<ExchangeCase> cases;
    std::exception_ptr wrong;
    try {
      cases = make_cases();
      check_files(cases.size());
    } catch (const std::exception&) {
      wrong = std::current_exception();
    }
    Rows rows;
    run_ranks(/*local_ranks=*/1, timeout_s_, [&](comm::Communicator& communicator) {
      comm::throw_everywhere(communicator, wrong);
      comm::all_ranks_or_none(communicator, [&] { check_world(communicator.size()); });
      plan(progress, cases, {communicator.size()});
      const CollectiveRowOptions options = row_options(communicator.backend());
      for (const ExchangeCase& exchange_case : cases) {
        const std::vector<ExchangeRecord> records = measure(communicator, exchange_case, progress);
        std::ranges::move(collective_rows(options, exchange_case, communicator.size(), records),
                          std::back_inserter(rows));
      }
    });
    return rows;
  }

  /// Plans the work. A step counts by its number of ranks, since local ranks share the processors of one machine.
  static void plan(Progress& progress, const std::vector<ExchangeCase>& cases, const std::vector<int>& ranks) {
    double steps = 0;
    for (const ExchangeCase& exchange_case : cases)
      steps += static_cast<double>(exchange_case.warm_up + exchange_case.steps);
    progress.plan(steps * std::accumulate(ranks.begin(), ranks.end(), 0.0));
  }

  static std::vector<ExchangeRecord> measure(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             Progress& progress) {
    if (communicator.rank() != 0) return measure_exchange(communicator, exchange_case);
    return measure_exchange(communicator, exchange_case, [&] {
      progress.advance(communicator.size(), fmt::format("{} of {} ranks, density {}", exchange_case.collective,
                                                        communicator.size(), exchange_case.density));
    });
  }

  /// Checks the options. Size-only messages make sense on a virtual cluster only.
  void check_payload_only() const {
    if (is_started_as_rank() || !network()) {
      throw ConfigError("--payload-only: expected local workers on a network (--network), without a launcher");
    }
    if (!files_.input.empty() || !files_.dump.empty()) {
      throw ConfigError("--payload-only: there are no gradients for --input and --dump");
    }
    if (collectives_ != kAll && std::ranges::count(collectives_, kUnites) > 0) {
      throw ConfigError(fmt::format("--payload-only: {} unites all lists on every rank; measure it without", kUnites));
    }
  }

  void check_world(int size) const {
    if (ranks_.empty() || ranks_ == std::vector<int>{size}) return;
    throw ConfigError(fmt::format("--ranks {}: the launcher started {} processes, which are the ranks",
                                  fmt::join(ranks_, ","), size));
  }

  /// Checks the options. An exchange of files begins with an empty memory, and a dump has one outcome.
  void check_files(std::size_t exchanges) const {
    if (files_.input.empty() && files_.dump.empty()) return;
    const std::string option = files_.input.empty() ? "--dump " + files_.dump : "--input " + files_.input;
    if (steps_option_->count() > 0 || warm_up_option_->count() > 0) {
      throw ConfigError(option + ": it is for one step, without --steps and --warmup");
    }
    if (!files_.dump.empty() && exchanges != 1) {
      throw ConfigError(
          fmt::format("--dump {}: {} exchanges are to be measured; expected one collective at one density "
                      "and one number of ranks",
                      files_.dump, exchanges));
    }
  }

  std::optional<comm::NetworkModel> network() const {
    if (network_ == "none") {
      if (!latency_us_ && !gbps_) return std::nullopt;
      if (!latency_us_ || !gbps_) throw ConfigError("--latency-us and --gbps: expected both, or --network with a name");
      return comm::NetworkModel::from_units(*latency_us_, *gbps_);
    }
    const comm::NetworkModel& named = comm::network_preset(network_);
    return comm::NetworkModel::from_units(latency_us_.value_or(named.latency_us()), gbps_.value_or(named.gbps()));
  }

  comm::LocalOptions cluster() const {
    return {.timeout_s = timeout_s_, .network = network(), .compute = choice_of<comm::Compute>("compute", compute_)};
  }

  CollectiveRowOptions row_options(const std::string& backend) const {
    const bool is_own = latency_us_ || gbps_;
    return {.backend = backend,
            .network_name = is_own ? "alpha-beta" : network_,
            .network = network(),
            .compute = backend == "local" && network() ? compute_ : "wall",
            .everything = everything_};
  }

  /// Makes every exchange for one number of ranks. The options are known to be valid.
  std::vector<ExchangeCase> make_cases() {
    if (payload_only_) check_payload_only();
    network();
    for (const double density : densities_) compress::target_count(density, 1);
    if (!files_.input.empty()) numel_ = input_numel(files_.input);
    const auto& registry = Registry<SparseCollectiveEntry>::instance();
    std::vector<std::string> names = collectives_ == kAll ? registry.names() : collectives_;
    for (const std::string& name : names) registry.at(name);
    if (payload_only_) std::erase(names, kUnites);
    std::vector<ExchangeCase> cases;
    for (const double density : densities_) {
      for (const std::string& name : names) {
        if (name != kDense) {
          cases.push_back(make_case(name, density, dense_algorithms_.front()));
          continue;
        }
        for (const std::string& algorithm : dense_algorithms_) cases.push_back(make_case(name, density, algorithm));
      }
    }
    return cases;
  }

  /// Makes an exchange as a config of dragonn-train would.
  ExchangeCase make_case(const std::string& collective, double density, const std::string& dense_algorithm) const {
    std::vector<std::string> overrides{"compression.method=" + method_of(collective),
                                       fmt::format("compression.density={}", density), "compression.bucket=model",
                                       "comm.dense_algorithm=" + dense_algorithm};
    if (collective != kDense) {
      overrides.push_back("compression.collective=" + collective);
      overrides.push_back("compression.memory=residual");
      if (!sparsifier_.empty()) overrides.push_back("compression.sparsifier=" + sparsifier_);
    }
    // The threshold of ExDyna's code suits small gradients, and takes hundreds of steps to adapt to others.
    overrides.push_back("compression.exdyna.first_delta=topk");
    for (const std::string& assignment : assignments_) overrides.push_back("compression." + assignment);
    const std::string base = "[model]\nname = \"mlp\"\n[data]\nname = \"synthetic_images\"\n";
    const trainer::RunSpec config = trainer::parse_config(base, "dragonn-bench collective", overrides);
    if (payload_only_ && !config.rules.coding.is_raw()) {
      throw ConfigError(
          fmt::format("--payload-only: messages have no content that a code could shorten; expected "
                      "codec.indices = \"{}\" and codec.values = \"{}\"",
                      codec::kRawIndices, codec::kRawValues));
    }
    ExchangeCase exchange_case{.rules = config.rules,
                               .collective = collective,
                               .numel = numel_,
                               .density = density,
                               .gradients = gradients_,
                               .files = files_};
    exchange_case.aligned = !everything_;
    exchange_case.rules.bypass_density_one = false;  // the collective is what is measured
    exchange_case.payload_only = payload_only_;
    set_steps(exchange_case);
    return exchange_case;
  }

  /// Sets the number of steps: a few if all steps are alike, otherwise a period. Drawn lists need no time to settle:
  /// one step of each kind suffices.
  void set_steps(ExchangeCase& exchange_case) const {
    const std::size_t period = exchange_case.period();
    const bool one_step = !files_.input.empty() || !files_.dump.empty();
    if (one_step || payload_only_) {
      exchange_case.steps = one_step || period == 1 ? 1 : 2;
      exchange_case.warm_up = 0;
    } else {
      exchange_case.steps = std::max<std::size_t>(3, period);
      exchange_case.warm_up = std::max<std::size_t>(2, period);
    }
    if (steps_option_->count() > 0) exchange_case.steps = static_cast<std::size_t>(steps_);
    if (warm_up_option_->count() > 0) exchange_case.warm_up = static_cast<std::size_t>(warm_up_);
  }

  CLI::Option* payload_option_ = nullptr;
  CLI::Option* steps_option_ = nullptr;
  CLI::Option* warm_up_option_ = nullptr;
  std::vector<std::string> collectives_ = kAll;
  std::string sparsifier_;
  std::vector<std::string> dense_algorithms_{"ring"};
  std::vector<std::string> assignments_;
  std::size_t numel_ = std::size_t{1} << 22;
  std::vector<double> densities_{0.001};
  WorkerGradientRules gradients_;
  ExchangeFiles files_;
  std::vector<int> ranks_;
  std::string network_ = "none";
  std::optional<double> latency_us_;
  std::optional<double> gbps_;
  std::string compute_ = name_of(comm::Compute::kZero);
  double timeout_s_ = comm::LocalOptions{}.timeout_s;
  int steps_ = 0;
  int warm_up_ = 0;
  std::string svg_;
  std::string title_ = "Seconds of an exchange";
  bool payload_only_ = false;
  bool everything_ = false;
};

const Registration<BenchmarkEntry> registration{
    {{"collective", "Measures an exchange by each collective, and compares it with the formulas"},
     [] { return std::make_unique<CollectiveBenchmark>(); },
     {.conditions = {"algorithm", "ranks", "numel", "density", "backend", "network", "compute"},
      .results = {"collective", "phase", "seconds", "seconds_total", "of_formula", "bytes_sent", "bytes_of_formula",
                  "messages", "global"}},
     {"collective --collective dense,allgather,gtopk --ranks 4,8 --density 0.01 --network 1gbe",
      "collective --collective oktopk --numel 1000000 --everything --json oktopk.json",
      "collective --ranks 32 --numel 25000000 --network 10gbe --payload-only --svg scaling.svg"}}};

}  // namespace
}  // namespace dragonn::bench
