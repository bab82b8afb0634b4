// SPDX-License-Identifier: MIT
#include "trainer/config_keys.h"

#include <limits>
#include <utility>

#include "comm/network_model.h"
#include "comm/sparse/sparse_collective.h"
#include "compress/density_schedule.h"
#include "compress/memory.h"
#include "compress/quantizer.h"
#include "compress/sparsifier.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/methods.h"

namespace dragonn::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A key as declared below: what SettingSpec holds, without the default, which is Config's initial value.
struct Declaration {
  const char* name;
  const char* help;
  double minimum = -kInfinity;
  double maximum = kInfinity;
  bool exclusive_minimum = false;
  std::vector<std::string> choices = {};
  KeyRole role = KeyRole::kResult;
};

/// Collects keys, table by table.
class KeyList {
 public:
  void table(std::string name) { table_ = std::move(name); }

  /// `access` returns a reference to the value in a Config.
  template <class Access>
  ConfigKey& add(Access access, Declaration declared) {
    using T = std::remove_cvref_t<decltype(access(std::declval<Config&>()))>;
    return add_converted([access](const Config& config) { return SettingValue(access(const_cast<Config&>(config))); },
                         [access](Config& config, const SettingValue& value) { access(config) = std::get<T>(value); },
                         std::move(declared));
  }

  template <class Get, class Set>
  ConfigKey& add_converted(Get get, Set set, Declaration declared) {
    SettingSpec spec{declared.name,
                     get(Config{}),
                     declared.help,
                     declared.minimum,
                     declared.maximum,
                     declared.exclusive_minimum,
                     std::move(declared.choices)};
    keys_.push_back({table_, std::move(spec), declared.role, false, {}, get, set});
    return keys_.back();
  }

  std::vector<ConfigKey> take() { return std::move(keys_); }

 private:
  std::string table_;
  std::vector<ConfigKey> keys_;
};

template <class Entry>
std::vector<std::string> names_with(std::vector<std::string> extra) {
  for (std::string& name : Registry<Entry>::instance().names()) extra.push_back(std::move(name));
  return extra;
}

template <class Entry, class Access>
void add_component(KeyList& keys, const char* key, const char* help, Access access,
                   std::vector<std::string> extra_names = {}) {
  keys.add([access](Config& config) -> std::string& { return access(config).name; },
           {.name = key, .help = help, .choices = names_with<Entry>(std::move(extra_names))});
}

void add_top(KeyList& keys) {
  keys.table("");
  keys.add([](Config & c) -> auto& { return c.seed; },
           {.name = "seed", .help = "key of every random stream; the same seed gives the same run", .minimum = 0});
  keys.add([](Config & c) -> auto& { return c.device; },
           {.name = "device",
            .help = "where arithmetic runs; auto: a GPU where this build and the machine have one",
            .choices = {"auto", "cpu", "cuda"},
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.device_math; },
           {.name = "device_math",
            .help = "precision of the factors of matrix products and convolutions on a GPU, and with bf16 of what a "
                    "convolution gives; sums, parameters and the memory of gradients are float32 in any case",
            .choices = {"float32", "tf32", "bf16"}});
  keys.add(
      [](Config & c) -> auto& { return c.device_graphs; },
      {.name = "device_graphs",
       .help = "on a GPU forward and backward are recorded in the second step and repeated as CUDA graphs, where all "
               "batches have one shape; false: kernel by kernel, as a profile of the layers needs it",
       .role = KeyRole::kRuntime});
}

void add_model_and_data(KeyList& keys) {
  keys.table("model");
  keys.add([](Config & c) -> auto& { return c.model.name; },
           {.name = "name",
            .help = "the network; the other keys here are its own",
            .choices = names_with<layers::ModelEntry>({})})
      .required = true;
  keys.table("data");
  keys.add([](Config & c) -> auto& { return c.data.name; },
           {.name = "name",
            .help = "the data set; the other keys here are its own",
            .choices = names_with<data::DatasetEntry>({})})
      .required = true;
  keys.add([](Config & c) -> auto& { return c.data.path; },
           {.name = "path",
            .help = "folder of the data files, relative to the working directory (~ and $VARIABLES are not expanded)",
            .role = KeyRole::kRuntime});
}

void add_train(KeyList& keys) {
  keys.table("train");
  keys.add([](Config & c) -> auto& { return c.train.epochs; },
           {.name = "epochs", .help = "passes over the training set", .minimum = 1});
  keys.add([](Config & c) -> auto& { return c.train.batch_size; },
           {.name = "batch_size", .help = "samples per worker and micro-batch", .minimum = 1});
  keys.add([](Config & c) -> auto& { return c.train.gradient_accumulation; },
           {.name = "gradient_accumulation", .help = "micro-batches whose mean gradient makes one step", .minimum = 1});
  keys.add([](Config & c) -> auto& { return c.train.max_steps; },
           {.name = "max_steps",
            .help = "stop after this many steps, without a change to the schedules; 0: no limit",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.eval_every_epochs; },
           {.name = "eval_every_epochs",
            .help = "epochs between evaluations of the test set; 0: only at the end",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.eval_batch_size; },
           {.name = "eval_batch_size",
            .help = "samples per worker and batch of an evaluation",
            .minimum = 1,
            .role = KeyRole::kRuntime});
  keys.add(
      [](Config & c) -> auto& { return c.train.label_smoothing; },
      {.name = "label_smoothing", .help = "share of the target spread over all classes", .minimum = 0, .maximum = 1});
  keys.add(
      [](Config & c) -> auto& { return c.train.clip; },
      {.name = "clip",
       .help = "gradient clipping: each worker's gradient to clip_norm (local) or to clip_norm / sqrt(workers), or "
               "the exchanged mean (global)",
       .choices = {"none", "local", "local_sqrt_workers", "global"}});
  keys.add([](Config & c) -> auto& { return c.train.clip_norm; },
           {.name = "clip_norm",
            .help = "largest Euclidean norm that clipping leaves",
            .minimum = 0,
            .exclusive_minimum = true});
  keys.add([](Config & c) -> auto& { return c.train.non_finite; },
           {.name = "non_finite",
            .help = "a gradient with NaN or infinity stops the run, or all workers skip that step",
            .choices = {"error", "skip"}});
  keys.add([](Config & c) -> auto& { return c.train.replica_check_every; },
           {.name = "replica_check_every",
            .help = "steps between comparisons of the workers' parameter hashes; 0: only at evaluations and at the end",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.remainder; },
           {.name = "remainder",
            .help = "samples of an epoch that fill no batch on every worker: left out, or filled up from the front",
            .choices = {"drop", "pad"}});
}

void add_optimizer(KeyList& keys) {
  keys.table("optimizer");
  add_component<optim::OptimizerEntry>(keys, "name", "the update rule; the other keys here are its own",
                                       [](Config& c) -> Component& { return c.optimizer; });
  keys.add([](Config & c) -> auto& { return c.optimizer.learning_rate; },
           {.name = "learning_rate",
            .help = "before any schedule; applied to the mean gradient over the workers",
            .minimum = 0});
  keys.table("schedule");
  add_component<optim::ScheduleEntry>(keys, "name", "the learning-rate schedule; the other keys here are its own",
                                      [](Config& c) -> Component& { return c.schedule; });
}

/// "auto", "tensor", "model", or a number of MiB.
void add_bucket(KeyList& keys) {
  using Grouping = BucketRules::Grouping;
  const auto get = [](const Config& config) -> SettingValue {
    const CompressionConfig& compression = config.compression;
    if (!compression.bucket) return std::string("auto");
    if (compression.bucket == Grouping::kBytes) return compression.bucket_mib;
    return std::string(compression.bucket == Grouping::kTensor ? "tensor" : "model");
  };
  const auto set = [](Config& config, const SettingValue& value) {
    CompressionConfig& compression = config.compression;
    const double* mebibytes = std::get_if<double>(&value);
    compression.bucket_mib = mebibytes != nullptr ? *mebibytes : 0;
    compression.bucket.reset();
    if (mebibytes != nullptr) {
      compression.bucket = Grouping::kBytes;
    } else if (const std::string& name = std::get<std::string>(value); name != "auto") {
      compression.bucket = name == "tensor" ? Grouping::kTensor : Grouping::kModel;
    }
  };
  ConfigKey& key = keys.add_converted(get, set,
                                      {.name = "bucket",
                                       .help = "what is sparsified at a time: one tensor, the whole model, or "
                                               "neighbours of up to this many MiB together; auto: the method's",
                                       .choices = {"auto", "tensor", "model"}});
  key.alternative = SettingSpec{"bucket", 1.0, "MiB", 0, kInfinity, true};
}

/// "all", "cost_model", or a number of elements.
void add_select_tensors(KeyList& keys) {
  using SelectTensors = CompressionConfig::SelectTensors;
  const auto get = [](const Config& config) -> SettingValue {
    const CompressionConfig& compression = config.compression;
    if (compression.select_tensors == SelectTensors::kMinimumSize) return compression.minimum_size;
    return std::string(compression.select_tensors == SelectTensors::kAll ? "all" : "cost_model");
  };
  const auto set = [](Config& config, const SettingValue& value) {
    CompressionConfig& compression = config.compression;
    const std::int64_t* elements = std::get_if<std::int64_t>(&value);
    compression.minimum_size = elements != nullptr ? *elements : 0;
    compression.select_tensors = elements != nullptr                     ? SelectTensors::kMinimumSize
                                 : std::get<std::string>(value) == "all" ? SelectTensors::kAll
                                                                         : SelectTensors::kCostModel;
  };
  ConfigKey& key = keys.add_converted(
      get, set,
      {.name = "select_tensors",
       .help = "which tensors are sparsified: all, those where the cost model expects to save time, or those of at "
               "least so many elements (without effect where the bucket is the whole model); the others travel dense",
       .choices = {"all", "cost_model"}});
  key.alternative = SettingSpec{"select_tensors", std::int64_t{0}, "elements", 0};
}

void add_compression(KeyList& keys) {
  keys.table("compression");
  keys.add([](Config & c) -> auto& { return c.compression.method; },
           {.name = "method",
            .help = "dense, or a paper's sparsifier or quantizer, collective and memory; the next four keys and "
                    "bucket set them apart",
            .choices = method_names()});
  add_component<compress::SparsifierEntry>(keys, "sparsifier", "what picks the entries to send; auto: the method's",
                                           [](Config& c) -> Component& { return c.compression.sparsifier; },
                                           {"auto", "none"});
  add_component<compress::QuantizerEntry>(keys, "quantizer",
                                          "what sends all entries in fewer bits, instead of a sparsifier; auto: the "
                                          "method's",
                                          [](Config& c) -> Component& { return c.compression.quantizer; },
                                          {"auto", "none"});
  add_component<comm::SparseCollectiveEntry>(keys, "collective", "what sums them over the workers; auto: the method's",
                                             [](Config& c) -> Component& { return c.compression.collective; },
                                             {"auto"});
  add_component<compress::MemoryEntry>(
      keys, "memory", "error feedback: what becomes of the rest; auto: the method's (without effect when dense)",
      [](Config& c) -> Component& { return c.compression.memory; }, {"auto"});
  keys.add([](Config & c) -> auto& { return c.compression.density; },
           {.name = "density",
            .help = "share of a bucket's entries that each worker selects; without effect with a quantizer",
            .minimum = 0,
            .maximum = 1,
            .exclusive_minimum = true});
  add_component<compress::DensityScheduleEntry>(keys, "density_schedule", "how the density comes down to `density`",
                                                [](Config& c) -> Component& { return c.compression.density_schedule; });
  add_bucket(keys);
  keys.add([](Config & c) -> auto& { return c.compression.include_vectors; },
           {.name = "include_vectors",
            .help = "sparsify biases and normalization too; auto: only where the bucket is the whole model",
            .choices = {"auto", "yes", "no"}});
  keys.add([](Config & c) -> auto& { return c.compression.acc_form; },
           {.name = "acc_form",
            .help = "what is accumulated: gradients (raw), or gradients times the learning rate (folded)",
            .choices = {"raw", "folded"}});
  add_select_tensors(keys);
  keys.add(
      [](Config & c) -> auto& { return c.compression.overlap; },
      {.name = "overlap",
       .help = "exchange each bucket as soon as backward has finished it, while backward goes on in a thread of its "
               "own: the same bits in less time, where a processor is free for it. A single bucket, local clipping "
               "and non_finite = \"skip\" leave nothing to overlap",
       .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.compression.profile; },
           {.name = "profile",
            .help = "file of encode and decode times for the cost model (dragonn-bench profile --json FILE, or the "
                    "profile.json of a run); empty: measured at start-up where the cost model needs them",
            .role = KeyRole::kRuntime});
}

void add_comm(KeyList& keys) {
  keys.table("comm");
  keys.add([](Config & c) -> auto& { return c.comm.workers; },
           {.name = "workers",
            .help = "local workers; under mpirun or srun, and with the backend tcp, their number is the launcher's",
            .minimum = 1,
            .maximum = 4096,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.backend; },
           {.name = "backend",
            .help = "local: workers are threads of this process; mpi: one process each; tcp: likewise, without MPI; "
                    "nccl: one process and GPU each, gradients go from GPU to GPU and the rest by comm.bootstrap; "
                    "auto: mpi under a launcher, else local",
            .choices = {"auto", "local", "mpi", "tcp", "nccl"},
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.bootstrap; },
           {.name = "bootstrap",
            .help = "what brings the workers of the backend nccl together, and carries all that is not a gradient",
            .choices = {"mpi", "tcp"},
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.rendezvous; },
           {.name = "rendezvous",
            .help = "where workers meet by tcp: tcp:HOST:PORT of worker 0, or file:PATH that all see; empty: "
                    "MASTER_ADDR and MASTER_PORT, or the first host of srun's step",
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.timeout_s; },
           {.name = "timeout_s",
            .help = "deadline of every wait for another worker (seconds)",
            .minimum = 0,
            .exclusive_minimum = true,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.threads_per_worker; },
           {.name = "threads_per_worker",
            .help = "threads of each worker's arithmetic; results are the same bits only at the same number",
            .minimum = 1,
            .maximum = 1024});
  keys.add([](Config & c) -> auto& { return c.comm.dense_algorithm; },
           {.name = "dense_algorithm",
            .help = "the dense allreduce; native is the backend's own and promises no bits; with the backend nccl "
                    "it is always NCCL's",
            .choices = {"ring", "rabenseifner", "native"}});
}

/// "auto", or a number.
template <class Access>
void add_network_number(KeyList& keys, Access access, Declaration declared) {
  const auto get = [access](const Config& config) -> SettingValue {
    const std::optional<double>& number = access(const_cast<Config&>(config));
    return number ? SettingValue(*number) : SettingValue(std::string("auto"));
  };
  const auto set = [access](Config& config, const SettingValue& value) {
    const double* number = std::get_if<double>(&value);
    access(config) = number != nullptr ? std::optional(*number) : std::nullopt;
  };
  const SettingSpec number{
      declared.name, 1.0, declared.help, declared.minimum, declared.maximum, declared.exclusive_minimum};
  ConfigKey& key = keys.add_converted(get, set, {.name = declared.name, .help = declared.help, .choices = {"auto"}});
  key.alternative = number;
}

void add_network(KeyList& keys) {
  keys.table("network");
  keys.add([](Config & c) -> auto& { return c.network.model; },
           {.name = "model",
            .help = "alpha-beta: with backend local the workers are a virtual cluster on the network described here, "
                    "and the times of the run are virtual; with mpi times are wall times. Decisions that depend on the "
                    "network (compression.select_tensors, warnings) take it with both; none: they measure theirs",
            .choices = {"none", "alpha-beta"}});
  std::vector<std::string> presets = comm::network_preset_names();
  presets.insert(presets.begin(), "none");
  keys.add([](Config & c) -> auto& { return c.network.preset; },
           {.name = "preset", .help = "latency and bandwidth of a usual network", .choices = std::move(presets)});
  add_network_number(
      keys, [](Config & c) -> auto& { return c.network.latency_us; },
      {.name = "latency_us", .help = "of a message (microseconds); auto: the preset's", .minimum = 0, .maximum = 1e9});
  add_network_number(keys, [](Config & c) -> auto& { return c.network.gbps; },
                     {.name = "gbps",
                      .help = "bandwidth of a worker's link (10^9 bits per second); auto: the preset's",
                      .minimum = 0,
                      .maximum = 1e6,
                      .exclusive_minimum = true});
  keys.add([](Config & c) -> auto& { return c.network.compute; },
           {.name = "compute",
            .help = "what a worker's own work takes on a virtual cluster; measured: the processor time of its thread; "
                    "zero: nothing, so that times are those of the network alone",
            .choices = {"measured", "zero"},
            .role = KeyRole::kRuntime});
}

void add_checkpoint_and_logging(KeyList& keys) {
  keys.table("checkpoint");
  keys.add([](Config & c) -> auto& { return c.checkpoint.every_steps; },
           {.name = "every_steps",
            .help = "steps between checkpoints; 0: none by steps",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.checkpoint.every_epochs; },
           {.name = "every_epochs",
            .help = "epochs between checkpoints; 0: none by epochs",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.checkpoint.keep; },
           {.name = "keep", .help = "newest checkpoints that stay on disk", .minimum = 1, .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.checkpoint.keep_best; },
           {.name = "keep_best",
            .help = "save at the best evaluation so far, and keep that checkpoint too",
            .role = KeyRole::kRuntime});
  keys.table("logging");
  keys.add([](Config & c) -> auto& { return c.logging.every_steps; },
           {.name = "every_steps",
            .help = "steps between step lines in metrics.jsonl and the log",
            .minimum = 1,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.logging.level; },
           {.name = "level",
            .help = "least severe lines that are logged",
            .choices = {"debug", "info", "warning", "error"},
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.logging.dump_gradients; },
           {.name = "dump_gradients",
            .help = "steps, from 1, at which each worker's accumulated gradient is written to gradients/*.npy",
            .minimum = 1,
            .role = KeyRole::kRuntime});
}

template <class Entry, class Access>
ComponentTable component_table(std::string table, Access access) {
  const auto find = [](const std::string& name) -> const SettingSpecs* {
    const auto& registry = Registry<Entry>::instance();
    return registry.contains(name) ? &registry.at(name).settings : nullptr;
  };
  return {std::move(table), access, find, [] { return Registry<Entry>::instance().names(); }};
}

}  // namespace

SettingValue ConfigKey::convert(SettingValue value) const {
  const bool is_alternative =
      alternative && type_name(value) != type_name(spec.default_value) && !std::holds_alternative<bool>(value);
  return (is_alternative ? *alternative : spec).convert(path(), std::move(value));
}

std::string ConfigKey::describe_type() const {
  return alternative ? spec.describe_type() + "; or " + alternative->describe_type() : spec.describe_type();
}

std::vector<ConfigKey> config_keys() {
  KeyList keys;
  add_top(keys);
  add_model_and_data(keys);
  add_train(keys);
  add_optimizer(keys);
  add_compression(keys);
  add_comm(keys);
  add_network(keys);
  add_checkpoint_and_logging(keys);
  return keys.take();
}

std::vector<ComponentTable> component_tables() {
  return {
      component_table<layers::ModelEntry>("model", [](Config& c) -> Component& { return c.model; }),
      component_table<data::DatasetEntry>("data", [](Config& c) -> Component& { return c.data; }),
      component_table<optim::OptimizerEntry>("optimizer", [](Config& c) -> Component& { return c.optimizer; }),
      component_table<optim::ScheduleEntry>("schedule", [](Config& c) -> Component& { return c.schedule; }),
  };
}

std::vector<ComponentTable> compression_parts() {
  return {
      component_table<compress::SparsifierEntry>("sparsifier",
                                                 [](Config& c) -> Component& { return c.compression.sparsifier; }),
      component_table<compress::QuantizerEntry>("quantizer",
                                                [](Config& c) -> Component& { return c.compression.quantizer; }),
      component_table<comm::SparseCollectiveEntry>("collective",
                                                   [](Config& c) -> Component& { return c.compression.collective; }),
      component_table<compress::MemoryEntry>("memory", [](Config& c) -> Component& { return c.compression.memory; }),
      component_table<compress::DensityScheduleEntry>(
          "density_schedule", [](Config& c) -> Component& { return c.compression.density_schedule; }),
  };
}

}  // namespace dragonn::trainer
