// SPDX-License-Identifier: MIT
#include "trainer/run/plan.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "codec/list_codec.h"
#include "comm/agreement.h"
#include "comm/machine.h"
#include "compress/memory.h"
#include "core/units_text.h"
#include "kernels/devices.h"
#include "optim/optimizer.h"
#include "trainer/config/exchange_config.h"
#include "trainer/cost_model/cost_model.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

/// Returns ", codec rice x float32: 40.2 bits an entry (an estimate)", over all buckets whose selection is sent in
/// lists.
std::string describe_coding(const CompressionConfig& compression, const exchange::ExchangePlan& exchange) {
  const codec::ListEstimate estimate(compression.coding());
  double bytes = 0, entries = 0;
  for (const exchange::BucketPlan& planned : exchange.buckets) {
    if (planned.form != exchange::ExchangeForm::kSparse) continue;
    const auto k = static_cast<double>(planned.k);
    bytes += estimate.bytes(k, static_cast<double>(planned.bucket.size));
    entries += k;
  }
  if (entries == 0) return "";
  return fmt::format(", codec {}: {:.1f} bits an entry{}", compression.coding().name(), 8 * bytes / entries,
                     estimate.is_estimate() ? " (an estimate)" : "");
}

/// Returns "topk (sparsifier topk, collective allgather, memory residual), density 0.01".
std::string describe_exchange(const CompressionConfig& compression, const exchange::ExchangePlan& exchange) {
  if (compression.is_dense()) {
    const bool is_rounded = compression.coding().is_lossy();
    return is_rounded
               ? fmt::format("dense (values {}, memory {})", compression.codec.values.name, compression.memory.name)
               : "dense";
  }
  const std::string rest =
      fmt::format("collective {}, memory {}", compression.collective.name, compression.memory.name);
  if (compression.quantizes()) {
    return fmt::format("{} (quantizer {}, {})", compression.method, compression.quantizer.name, rest);
  }
  return fmt::format("{} (sparsifier {}, {}), density {}{}", compression.method, compression.sparsifier.name, rest,
                     compression.density, describe_coding(compression, exchange));
}

/// Returns the number that follows a word in a file, or begins it without one; nothing if there is none ("max").
std::optional<std::size_t> read_number(const char* path, const std::string& word = "") {
  std::ifstream file(path);
  for (std::string other; !word.empty() && other != word && file >> other;) continue;
  std::size_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// Returns the memory that this process may still take: the machine's, or the rest of its control group's.
std::size_t available_memory() {
  const auto free_kib = read_number("/proc/meminfo", "MemAvailable:");
  std::size_t available = free_kib ? *free_kib * 1024 : static_cast<std::size_t>(-1);
  const auto limit = read_number("/sys/fs/cgroup/memory.max");
  const auto used = read_number("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, *limit > *used ? *limit - *used : 0);
  return available;
}

/// Returns the densities of the schedule below 1 but for the target, in their order.
std::vector<double> scheduled_densities(const Config& config) {
  const CompressionConfig& compression = config.compression;
  if (!density_decides(compression)) return {};
  // Schedules by epochs have each density in some epoch, whatever its length.
  std::vector<double> densities = sparse_densities(compression, static_cast<std::uint64_t>(config.train.epochs), 1);
  std::erase(densities, compression.density);
  return densities;
}

/// Returns the bytes that the messages of the largest fragment take one after the other.
double largest_fragment_bytes(const RunPlan& plan) {
  std::vector<double> bytes(plan.update.fragments);
  for (const exchange::BucketPlan& planned : plan.exchange.buckets)
    bytes[planned.bucket.fragment] += planned.cost.chain().bytes;
  return std::ranges::max(bytes);
}

/// Returns what a plan for several nodes is about; empty for workers that share one and exchange in one level.
std::string describe_nodes(const RunPlan& plan) {
  const std::string nodes = comm::describe(plan.nodes);
  if (plan.rules.nodes)
    return fmt::format("  {}: each worker sends {} of gradients inside its node, and what follows to other nodes\n",
                       nodes, bytes_text(plan.exchange.inside_bytes));
  return plan.nodes.count() > 1 && plan.nodes.most() > 1
             ? fmt::format("  {}, and one level: each worker exchanges all buckets with all others\n", nodes)
             : "";
}

std::string describe_cost(const RunPlan& plan) {
  const comm::Prediction cost = plan.exchange.cost();
  std::string text = describe_nodes(plan);
  const bool is_rare = plan.steps_per_exchange > 1;
  const std::size_t fragments = plan.update.fragments;
  const char* const unit = fragments > 1 ? "round" : is_rare ? "exchange" : "step";
  text += fmt::format("  {} sent per worker and {} ({:.0f} bytes; dense: {})", bytes_text(cost.bytes_sent), unit,
                      cost.bytes_sent, bytes_text(plan.dense_cost.bytes_sent));
  if (cost.header.bytes > 0) text += fmt::format(", {} of headers", bytes_text(cost.header.bytes));
  text += fmt::format("; {:.0f} messages one after the other (dense: {:.0f})\n", cost.chain().messages,
                      plan.dense_cost.chain().messages);
  if (!plan.bytes.settled.is_exact() || plan.bytes.first_steps > 0)
    text += fmt::format("  the counts vary: expect {} per worker and {}, as the mean of ten {}s\n",
                        exchange::describe(plan.bytes), unit, unit);
  if (!plan.scheduled_bytes.empty())
    text += fmt::format("  compression.density_schedule sends more at other times: {} per worker and {}\n",
                        describe_schedule(plan, 1), unit);
  if (!is_rare || cost.bytes_sent <= 0) return text;
  const double bytes = cost.bytes_sent / static_cast<double>(plan.steps_per_exchange);
  constexpr double kStepSeconds = 0.1;
  const double gbps = 8e-9 * cost.chain().bytes / affordable_seconds(plan.steps_per_exchange, kStepSeconds);
  text += fmt::format(
      "  with steps of {:.0f} ms {} {:.0f} % of a round at {} (latency left out), with longer ones "
      "less\n",
      1e3 * kStepSeconds, fragments > 1 ? "the exchanges take" : "an exchange takes", 100 * kRoundShare,
      bandwidth_text(gbps));
  if (plan.update.overlap_steps > 0)
    text += fmt::format("  overlap: {} such steps hide {} at {}\n", plan.update.overlap_steps,
                        fragments > 1 ? "the largest fragment" : "an exchange",
                        bandwidth_text(8e-9 * largest_fragment_bytes(plan) /
                                       (kStepSeconds * static_cast<double>(plan.update.overlap_steps))));
  const std::uint64_t interval = plan.steps_per_exchange / fragments;
  const std::string turns = fragments > 1 ? fmt::format("one of {} fragments in {} steps", fragments, interval)
                                          : fmt::format("one exchange in {} steps", interval);
  return text + fmt::format("  {}: {} per worker and step, {} times fewer than dense in every step\n", turns,
                            bytes_text(bytes), three_digits(plan.dense_cost.bytes_sent / bytes));
}

std::string describe_selection(const RunPlan& plan, const Config& config) {
  if (!plan.selection && !selects_by_cost(config)) return "";
  if (!plan.selection)
    return "  the cost model decides at the start of the run; with compression.profile and network.model its decisions "
           "are shown here\n";
  std::string text = "\n";
  if (config.compression.selects()) {
    for (const std::string& line : describe(*plan.selection, config.compression.density)) text += line + "\n";
  }
  return text + describe_advice(*plan.selection) + config.update.describe_period() + "\n";
}

/// Returns the bytes of a worker's messages that lie in the mailboxes of local workers: two places for the largest
/// message to each other worker. A dense sum sends to the next worker only.
std::size_t mailbox_bytes(const Config& config, const exchange::ExchangePlan& exchange, int world_size) {
  if (config.comm.process_backend() == Backend::kMpi || config.comm.process_backend() == Backend::kTcp) return 0;
  double dense = 0, lists = 0;
  for (const exchange::BucketPlan& planned : exchange.buckets) {
    if (planned.cost.chain().messages < 1) continue;
    const double message = planned.cost.bytes_sent / planned.cost.chain().messages;
    if (planned.form == exchange::ExchangeForm::kDense) {
      dense = std::max(dense, message);
    } else {
      lists = std::max(lists, message * std::min(planned.cost.chain().messages, static_cast<double>(world_size - 1)));
    }
  }
  return static_cast<std::size_t>(2 * (dense + lists));
}

/// Checks that the memory suffices. @param needed by one worker.  @param once needed by one of them on top.
void check_memory(const std::string& where, int workers, std::size_t needed, std::size_t once, std::size_t available) {
  const double needed_by_all = static_cast<double>(needed) * workers + static_cast<double>(once);
  if (needed_by_all <= static_cast<double>(available)) return;
  throw SystemError(
      fmt::format("not enough memory: {} workers on {} need {}, and {} are available; lower train.batch_size, "
                  "train.eval_batch_size or the number of workers (--dry-run shows more)",
                  workers, where, bytes_text(needed_by_all), bytes_text(static_cast<double>(available))));
}

/// Warns of buffers that do not fit if the counts are the highest that are forecast. They may never be, so the run
/// starts.
void warn_of_growth(const comm::Communicator& communicator, const RunPlan& plan, int neighbours, const Device& device) {
  const std::size_t growth = plan.most_buffer_bytes - std::min(plan.most_buffer_bytes, plan.buffer_bytes);
  const std::size_t planned = device.is_cpu() ? plan.memory_total() : plan.host_bytes;
  const double max = static_cast<double>(planned + growth) * neighbours;
  const auto available = static_cast<double>(available_memory());
  if (communicator.rank() != 0 || growth == 0 || max <= available) return;
  log::warning(
      0,
      "{} workers on this machine need up to {} while the selections are as large as they are forecast to get, "
      "and {} are available (--dry-run shows more)",
      neighbours, bytes_text(max), bytes_text(available));
}

/// Warns of workers that are so many that a step's messages between their threads take long: most collectives send a
/// number of messages that grows with the square of the workers.
void warn_of_messages(const comm::Communicator& communicator, const RunPlan& plan) {
  constexpr double kMany = 1e6;
  constexpr double kSecondsPerMessage = 5e-6;  // two switches between threads
  const double messages = plan.exchange.cost().chain().messages * communicator.size();
  if (communicator.rank() != 0 || communicator.backend() != "local" || messages < kMany) return;
  log::warning(
      0, "{} workers in one process exchange {:.3g} messages a step: expect some {:.0f} s a step, whatever the model",
      communicator.size(), messages, messages * kSecondsPerMessage);
}

}  // namespace

std::size_t RunPlan::memory_total() const {
  std::size_t total = 0;
  for (const auto& kind : memory) total += kind.second;
  return total;
}

std::string describe_schedule(const RunPlan& plan, std::uint64_t steps_per_exchange) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (const auto& [density, bytes] :
       std::span(plan.scheduled_bytes).first(std::min(kShown, plan.scheduled_bytes.size())))
    text += fmt::format("{}{} at {}{:.3g}", text.empty() ? "" : ", ",
                        bytes_text(bytes / static_cast<double>(steps_per_exchange)), text.empty() ? "density " : "",
                        density);
  return plan.scheduled_bytes.size() > kShown ? text + ", ..." : text;
}

ByteForecast per_step(ByteForecast forecast, std::uint64_t steps_per_exchange) {
  for (ByteRange* range : {&forecast.settled, &forecast.first}) {
    for (double* value : {&range->low, &range->expected, &range->high})
      *value /= static_cast<double>(steps_per_exchange);
  }
  forecast.first_steps *= steps_per_exchange;
  return forecast;
}

comm::Nodes given_nodes(const Config& config, int workers) {
  const int per_node = static_cast<int>(config.comm.workers_per_node);
  const std::vector<int> sizes = config.network.node_links(workers).workers;
  if (per_node == 0 && !sizes.empty()) return comm::Nodes::of_sizes(sizes);
  return comm::Nodes::of_size(workers, per_node > 0 ? per_node : workers);
}

comm::Nodes find_nodes(const Config& config, comm::Communicator& communicator) {
  const bool are_given = config.comm.workers_per_node > 0 || communicator.clock().is_virtual();
  return are_given ? given_nodes(config, communicator.size()) : comm::find_nodes(communicator);
}

std::string overlap_obstacle(const Config& config, const ParameterArena& arena, const exchange::ExchangeRules& rules) {
  const std::vector<exchange::Bucket> buckets = exchange::make_buckets(arena, rules.buckets);
  return overlap_obstacle(config, arena, exchange::group_slices(buckets, exchange::make_groups(buckets, rules.fusion)));
}

RunPlan plan_run(const RunSpec& config, const layers::Network& network, const comm::Nodes& nodes,
                 const Device& device) {
  const int world_size = nodes.ranks();
  RunPlan plan;
  plan.nodes = nodes;
  plan.rules = rules_on(config, nodes);
  plan.layers = network.summary();
  plan.parameters = network.arena().size();
  const bool has_device_messages = config.comm.backend == Backend::kNccl;
  plan.exchange = exchange::plan_exchange(plan.rules, network.arena(), config.compression.density, world_size,
                                          has_device_messages ? device : Device{});
  plan.bytes = exchange::forecast_bytes(plan.rules, plan.exchange, config.compression.density, world_size);
  exchange::ExchangePlan densest = plan.exchange;  // of which a worker holds the messages and lists
  for (const double density : scheduled_densities(config)) {
    exchange::ExchangePlan exchange = exchange::plan_exchange(plan.rules, network.arena(), density, world_size,
                                                              has_device_messages ? device : Device{});
    plan.scheduled_bytes.emplace_back(density, exchange.cost().bytes_sent);
    if (exchange.buffer_bytes > densest.buffer_bytes) densest = std::move(exchange);
  }
  plan.buffer_bytes = densest.buffer_bytes;
  plan.most_buffer_bytes = densest.max_bytes;
  plan.dense_cost = exchange::predict_dense_step(config.rules, network.arena(), world_size);
  plan.update = config.update.traits();
  require(!plan.update.skips_steps || !network.carries_state(),
          "model \"{}\" carries its state from each batch to the next, and with update.inner_seconds or "
          "update.inner_steps_from workers leave out batches: expected update.inner_seconds = 0",
          config.model.name);
  plan.steps_per_exchange = config.update.steps_per_exchange();
  plan.overlap_obstacle = overlap_obstacle(config, network.arena(), plan.rules);

  const layers::MemoryEstimate training = network.memory(static_cast<std::size_t>(config.train.batch_size));
  const std::size_t evaluation = network.evaluation_bytes(static_cast<std::size_t>(config.train.eval_batch_size));
  const std::size_t model_bytes = plan.parameters * sizeof(float);
  const std::size_t optimizer_bytes = config.optimizer.entry().floats_per_parameter * model_bytes;
  const std::size_t batch_bytes =
      network.sample_shape().size() * sizeof(float) *
      static_cast<std::size_t>(config.train.batch_size * config.train.gradient_accumulation * 3);
  const std::size_t staging_bytes = has_device_messages ? 0 : densest.staging_bytes;
  plan.memory = {{"parameters", training.parameters},
                 {"gradients", training.gradients * (config.train.gradient_accumulation > 1 ? 2 : 1)},
                 {"activations", training.activations},
                 {"workspace", training.workspace},
                 {"evaluation", evaluation - std::min(evaluation, training.activations + training.workspace)},
                 {"error feedback", plan.exchange.state_bytes},
                 {"exchange buffers", plan.buffer_bytes + (device.is_cpu() ? 0 : staging_bytes)},
                 {"optimizer", optimizer_bytes},
                 {"batches", batch_bytes}};
  const UpdateTraits& update = plan.update;
  if (update.floats_per_parameter > 0)
    plan.memory.emplace_back("update scheme", update.floats_per_parameter * model_bytes);
  const bool own_optimizers = config.update.steps_locally();
  const std::size_t rank_bytes = plan.exchange.state_bytes + (own_optimizers ? optimizer_bytes : 0) +
                                 update.own_floats_per_parameter * model_bytes;
  const std::size_t shared_bytes =
      model_bytes + (own_optimizers ? 0 : optimizer_bytes) + update.saved_floats_per_parameter * model_bytes;
  // The fields of an archive, and the file's bytes.
  const std::size_t saved_state = 2 * rank_bytes;
  const std::size_t kept_bytes = config.comm.elastic ? rank_bytes : 0;  // for a step that is not committed
  plan.host_bytes = batch_bytes + saved_state + kept_bytes + (has_device_messages ? 0 : plan.buffer_bytes);
  plan.saved_model_bytes = 2 * shared_bytes;
  if (device.is_cpu()) {
    plan.memory.emplace_back("messages", mailbox_bytes(config, densest, world_size));
    plan.memory.emplace_back("checkpoint", saved_state);
    if (kept_bytes > 0) plan.memory.emplace_back("state before a step", kept_bytes);
  }
  plan.checkpoint_bytes = shared_bytes + rank_bytes * static_cast<std::size_t>(world_size);
  return plan;
}

void add_selection(RunPlan& plan, const RunSpec& config, const ParameterArena& arena, int world_size,
                   const Device& device) {
  const double density = config.compression.density;
  if (!wants_costs(config, world_size) || (config.compression.selects() && density >= 1)) return;
  std::vector<exchange::Bucket> buckets;
  for (const exchange::BucketPlan& planned : plan.exchange.buckets) buckets.push_back(planned.bucket);
  const bool overlaps = config.compression.overlap && plan.overlap_obstacle.empty();
  SelectionQuestion question{config,      buckets,
                             {density},   world_size,
                             device,      ready_shares(plan.layers, buckets),
                             overlaps,    &arena,
                             plan.layers, config.comm.process_backend() != Backend::kMpi};
  if (plan.rules.nodes) question.ask_between(*plan.rules.nodes);
  if (question.world_size == 1) return;
  const auto profile = given_profile(question);
  const auto modelled = config.network.slowest_link();
  const auto network = modelled ? modelled : profile ? profile->network : std::nullopt;
  if (!profile || !network) return;
  plan.selection = decide(question, *profile, *network);
  plan.selection->network_source = modelled ? modelled_source(config.network) : "of the profile";
  plan.selection->profile_source = config.compression.profile;
  if (!selects_by_cost(config)) return;
  const exchange::BucketChoice choice = bucket_choices(*plan.selection, buckets).front();
  exchange::apply_choice(config.rules, choice, world_size, plan.exchange);
  plan.bytes = exchange::forecast_bytes(config.rules, plan.exchange, density, world_size);
}

std::string describe(const RunPlan& plan, const Config& config, int world_size) {
  std::string text = fmt::format("model {}\n  {:<36} {:<26} {:>20} {:>12} {:>14}\n", config.model.name, "layer", "kind",
                                 "output", "parameters", "MFLOP forward");
  for (const layers::LayerSummary& layer : plan.layers) {
    text += fmt::format("  {:<36} {:<26} {:>20} {:>12} {:>14.3f}\n", layer.name, layer.kind, layer.output.to_string(),
                        layer.parameters, layer.forward_flops / 1e6);
  }
  std::size_t padding = 0;
  for (const layers::LayerSummary& layer : plan.layers) padding += layer.padding;
  text +=
      fmt::format("  {} parameters{}\n\nmemory per worker\n", plan.parameters,
                  padding == 0 ? "" : fmt::format(": {}, and {} that pad tables", plan.parameters - padding, padding));
  for (const auto& [kind, bytes] : plan.memory) {
    text += fmt::format("  {:<20} {:>12}\n", kind, bytes_text(static_cast<double>(bytes)));
  }
  if (plan.most_buffer_bytes > plan.buffer_bytes) {
    text += fmt::format("  (exchange buffers grow to {} if the counts are the highest that are forecast)\n",
                        bytes_text(static_cast<double>(plan.most_buffer_bytes)));
  }
  const auto total = static_cast<double>(plan.memory_total()), saved = static_cast<double>(plan.saved_model_bytes);
  text += fmt::format("  {:<20} {:>12}   ({} workers: {}, of which rank 0 saves the model with {})\n\n", "total",
                      bytes_text(total), world_size, bytes_text(total * world_size + saved), bytes_text(saved));
  text += fmt::format("exchange: {}\n", describe_exchange(config.compression, plan.exchange));
  text += fmt::format("  {:<48} {:>12} {:>12} {:>10}\n", "bucket", "elements", "k", "");
  for (const exchange::BucketPlan& planned : plan.exchange.buckets) {
    const bool is_part = plan.update.fragments > 1;
    text += fmt::format("  {:<48} {:>12} {:>12} {:>10}{}{}\n", planned.bucket.name, planned.bucket.size, planned.k,
                        name_of(planned.form), is_part ? fmt::format("  fragment {}", planned.bucket.fragment) : "",
                        plan.rules.nodes ? fmt::format("  place {}", planned.place) : "");
  }
  text += describe_cost(plan);
  if (config.compression.overlap)
    text += !plan.overlap_obstacle.empty() ? fmt::format("  overlap: none, as {}\n", plan.overlap_obstacle)
            : config.update.traits().delays
                ? "  overlap: the gradients of the step before are exchanged during backward\n"
                : "  overlap: a bucket is exchanged as soon as backward has finished it\n";
  text += describe_selection(plan, config);
  text += fmt::format("\ncheckpoint: {} on disk\n", bytes_text(static_cast<double>(plan.checkpoint_bytes)));
  return text;
}

void check_resources(comm::Communicator& communicator, const RunPlan& plan, const Config& config,
                     const fs::path& folder, const DeviceChoice& choice) {
  const int neighbours = comm::place_on_machine(communicator).ranks;
  comm::all_ranks_or_none(communicator, [&] {
    const bool on_host = choice.device.is_cpu();
    warn_of_growth(communicator, plan, neighbours, choice.device);
    check_memory("this machine", neighbours, on_host ? plan.memory_total() : plan.host_bytes, plan.saved_model_bytes,
                 available_memory());
    if (!on_host)
      check_memory(to_string(choice.device), choice.workers, plan.memory_total(), 0,
                   kernels::free_memory(choice.device));
  });
  warn_of_messages(communicator, plan);
  comm::rank_zero_or_none(communicator, [&] {
    // Checkpoints on disk: the last ones, the best, and the one being written.
    const std::int64_t kept =
        std::max<std::int64_t>(config.checkpoint.keep, 1) + (config.checkpoint.keep_best ? 1 : 0) + 1;
    const double disk = static_cast<double>(plan.checkpoint_bytes) * static_cast<double>(kept);
    fs::path parent = fs::absolute(folder);
    while (!fs::exists(parent) && parent.has_parent_path() && parent != parent.parent_path())
      parent = parent.parent_path();
    const double free = static_cast<double>(fs::space(parent).available);
    if (disk <= free) return;
    throw SystemError(
        fmt::format("not enough disk: {} checkpoints need {}, and {} are free at {}; lower checkpoint.keep or "
                    "choose another --output",
                    kept, bytes_text(disk), bytes_text(free), parent.string()));
  });
}

}  // namespace dragonn::trainer
