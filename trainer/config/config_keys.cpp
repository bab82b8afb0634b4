// SPDX-License-Identifier: MIT
#include "trainer/config/config_keys.h"

#include <limits>
#include <utility>

#include "codec/value_codec.h"
#include "comm/network_model.h"
#include "comm/sparse/sparse_collective.h"
#include "compress/density_schedule.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/config/methods.h"

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
    if constexpr (Choice<T>) {
      return add_choice<T>(access, std::move(declared));
    } else {
      return add_converted([access](const Config& config) { return SettingValue(access(const_cast<Config&>(config))); },
                           [access](Config& config, const SettingValue& value) { access(config) = std::get<T>(value); },
                           std::move(declared));
    }
  }

  /// The words of an enum.
  template <Choice T, class Access>
  ConfigKey& add_choice(Access access, Declaration declared) {
    declared.choices = choice_names<T>();
    const std::string name = declared.name;
    return add_converted(
        [access](const Config& config) { return SettingValue(name_of(access(const_cast<Config&>(config)))); },
        [access, name](Config& config, const SettingValue& value) {
          access(config) = choice_of<T>(name, std::get<std::string>(value));
        },
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
           {.name = "seed", .help = "seed of all random numbers: the same seed gives the same run", .minimum = 0});
  keys.add([](Config & c) -> auto& { return c.device; },
           {.name = "device",
            .help = "the device that computes; auto: a GPU if this build and the machine have one, else the CPU",
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.device_math; },
           {.name = "device_math",
            .help = "precision of the inputs of matrix products and convolutions on a GPU; bf16 also rounds the "
                    "outputs of convolutions; sums, parameters and residuals are float32 in any case"});
  keys.add([](Config & c) -> auto& { return c.device_graphs; },
           {.name = "device_graphs",
            .help = "true: on a GPU, record forward and backward in the second step and replay them as CUDA graphs, "
                    "where all batches have one shape; false: launch each kernel by itself, as a profile of single "
                    "layers needs it",
            .role = KeyRole::kRuntime});
}

void add_model_and_data(KeyList& keys) {
  keys.table("model");
  keys.add([](Config & c) -> auto& { return c.model.name; },
           {.name = "name",
            .help = "the model; the other keys of this table are its settings",
            .choices = names_with<layers::ModelEntry>({})})
      .required = true;
  keys.table("data");
  keys.add([](Config & c) -> auto& { return c.data.name; },
           {.name = "name",
            .help = "the data set; the other keys of this table are its settings",
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
           {.name = "gradient_accumulation",
            .help = "micro-batches per step; a step takes the mean of their gradients",
            .minimum = 1});
  keys.add([](Config & c) -> auto& { return c.train.max_steps; },
           {.name = "max_steps",
            .help = "stop after this many steps; schedules still cover all epochs; 0: no limit",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.eval_every_epochs; },
           {.name = "eval_every_epochs",
            .help = "epochs between evaluations on the test set; 0: evaluate at the end only",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.eval_batch_size; },
           {.name = "eval_batch_size",
            .help = "samples per worker and batch in an evaluation",
            .minimum = 1,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.label_smoothing; },
           {.name = "label_smoothing",
            .help = "share of the target probability that is spread over all classes",
            .minimum = 0,
            .maximum = 1});
  keys.add([](Config & c) -> auto& { return c.train.clip; },
           {.name = "clip",
            .help = "gradient clipping; local: each worker clips its gradient to clip_norm; local_sqrt_workers: to "
                    "clip_norm / sqrt(workers); global: all workers clip the exchanged mean"});
  keys.add(
      [](Config & c) -> auto& { return c.train.clip_norm; },
      {.name = "clip_norm", .help = "largest Euclidean norm after clipping", .minimum = 0, .exclusive_minimum = true});
  keys.add([](Config & c) -> auto& { return c.train.non_finite; },
           {.name = "non_finite",
            .help = "error: a gradient with NaN or infinity stops the run; skip: all workers skip that step"});
  keys.add([](Config & c) -> auto& { return c.train.replica_check_every; },
           {.name = "replica_check_every",
            .help = "steps between comparisons of the workers' parameters by hash; 0: compare at the end only",
            .minimum = 0,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.train.remainder; },
           {.name = "remainder",
            .help = "samples at the end of an epoch that fill no batch on every worker; drop: leave them out; pad: "
                    "fill up with samples from the start of the epoch"});
}

void add_optimizer(KeyList& keys) {
  keys.table("optimizer");
  add_component<optim::OptimizerEntry>(keys, "name", "the optimizer; the other keys of this table are its settings",
                                       [](Config& c) -> Component& { return c.optimizer; });
  keys.add([](Config & c) -> auto& { return c.optimizer.learning_rate; },
           {.name = "learning_rate",
            .help = "learning rate before any schedule; it multiplies the mean gradient of all workers",
            .minimum = 0});
  keys.table("schedule");
  add_component<optim::ScheduleEntry>(keys, "name",
                                      "the learning-rate schedule; the other keys of this table are its settings",
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
  ConfigKey& key = keys.add_converted(
      get, set,
      {.name = "bucket",
       .help = "what is sparsified together: each tensor, the whole model, or neighbouring tensors of up to "
               "this many MiB; auto: as the method defines it",
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
       .help = "which tensors are sparsified: all, those where the cost model predicts a gain, or those of at "
               "least this many elements (no effect where the bucket is the whole model); the others are sent "
               "dense",
       .choices = {"all", "cost_model"}});
  key.alternative = SettingSpec{"select_tensors", std::int64_t{0}, "elements", 0};
}

void add_compression(KeyList& keys) {
  keys.table("compression");
  keys.add([](Config & c) -> auto& { return c.compression.method; },
           {.name = "method",
            .help = "dense, or the method of a paper: it chooses sparsifier or quantizer, collective, memory and "
                    "bucket, and each of these keys replaces one of its choices",
            .choices = method_names()});
  add_component<compress::SparsifierEntry>(
      keys, "sparsifier", "the sparsifier selects the entries that a worker sends; auto: as the method defines it",
      [](Config& c) -> Component& { return c.compression.sparsifier; }, {"auto", "none"});
  add_component<codec::ValueCodecEntry>(
      keys, "quantizer",
      "the quantizer sends all entries in fewer bits, instead of a sparsifier; auto: as the method "
      "defines it",
      [](Config& c) -> Component& { return c.compression.quantizer; }, {"auto", "none"});
  add_component<comm::SparseCollectiveEntry>(
      keys, "collective", "the collective sums the selected entries over the workers; auto: as the method defines it",
      [](Config& c) -> Component& { return c.compression.collective; }, {"auto"});
  add_component<compress::MemoryEntry>(
      keys, "memory",
      "the memory keeps what a worker did not send (error feedback); auto: as the method defines it; "
      "no effect when dense",
      [](Config& c) -> Component& { return c.compression.memory; }, {"auto"});
  keys.add([](Config & c) -> auto& { return c.compression.density; },
           {.name = "density",
            .help = "share of a bucket's entries that each worker selects; no effect with a quantizer",
            .minimum = 0,
            .maximum = 1,
            .exclusive_minimum = true});
  add_component<compress::DensityScheduleEntry>(keys, "density_schedule",
                                                "the schedule by which the density falls to `density`",
                                                [](Config& c) -> Component& { return c.compression.density_schedule; });
  add_bucket(keys);
  keys.add([](Config & c) -> auto& { return c.compression.include_vectors; },
           {.name = "include_vectors",
            .help = "yes: sparsify biases and normalization, too; auto: only where the bucket is the whole model"});
  keys.add([](Config & c) -> auto& { return c.compression.acc_form; },
           {.name = "acc_form",
            .help = "raw: the memory accumulates gradients; folded: it accumulates gradients times the learning rate"});
  add_select_tensors(keys);
  keys.add(
      [](Config & c) -> auto& { return c.compression.fusion_mib; },
      {.name = "fusion_mib",
       .help = "MiB of gradients whose buckets are exchanged together, in the messages of one bucket; with overlap "
               "at most a quarter of the model; 0: each bucket by itself; the results have the same bits",
       .minimum = 0,
       .maximum = 1e6,
       .role = KeyRole::kRuntime});
  keys.add(
      [](Config & c) -> auto& { return c.compression.overlap; },
      {.name = "overlap",
       .help = "true: exchange each group of buckets as soon as backward has finished it, while backward continues "
               "in its own thread; the results have the same bits, and a step takes less time where a core is "
               "free; no effect with a single group, local clipping or non_finite = \"skip\"",
       .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.compression.profile; },
           {.name = "profile",
            .help = "file of encode and decode times for the cost model (written by dragonn-bench profile --json "
                    "FILE, or as profile.json by a run); empty: the run measures them at its start if it needs them",
            .role = KeyRole::kRuntime});
}

void add_comm(KeyList& keys) {
  keys.table("comm");
  keys.add([](Config & c) -> auto& { return c.comm.workers; },
           {.name = "workers",
            .help = "number of local workers; under mpirun or srun, and with backend tcp, the launcher sets the "
                    "number",
            .minimum = 1,
            .maximum = 4096,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.backend; },
           {.name = "backend",
            .help = "local: workers are threads of this process; mpi: each worker is a process; tcp: the same "
                    "without MPI; nccl: each worker has a process and a GPU, NCCL sends the gradients and "
                    "comm.bootstrap the rest; auto: mpi under a launcher, else local",
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.bootstrap; },
           {.name = "bootstrap",
            .help = "with backend nccl: connects the workers and sends everything but gradients",
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.rendezvous; },
           {.name = "rendezvous",
            .help = "where workers meet by TCP: tcp:HOST:PORT of rank 0, or file:PATH that all can read; empty: "
                    "MASTER_ADDR and MASTER_PORT, or the first host of srun's step",
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.timeout_s; },
           {.name = "timeout_s",
            .help = "seconds that a worker waits for another before the run fails",
            .minimum = 0,
            .exclusive_minimum = true,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.comm.threads_per_worker; },
           {.name = "threads_per_worker",
            .help = "compute threads per worker; another number can change the last bits of results",
            .minimum = 1,
            .maximum = 1024});
  keys.add([](Config & c) -> auto& { return c.comm.dense_algorithm; },
           {.name = "dense_algorithm",
            .help = "algorithm of the dense allreduce; native is the backend's own and may change the last bits of "
                    "results; backend nccl always uses NCCL's"});
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
            .help = "alpha-beta: assume the network that this table describes; with backend local it makes the run a "
                    "virtual cluster, whose times are all virtual; with mpi times stay wall times, and only "
                    "decisions and warnings use the network; none: the run measures its network where it needs it"});
  std::vector<std::string> presets = comm::network_preset_names();
  presets.insert(presets.begin(), "none");
  keys.add([](Config & c) -> auto& { return c.network.preset; },
           {.name = "preset",
            .help = "latency and bandwidth of a common network (dragonn-train --list networks)",
            .choices = std::move(presets)});
  add_network_number(keys, [](Config & c) -> auto& { return c.network.latency_us; },
                     {.name = "latency_us",
                      .help = "latency of a message in microseconds; auto: the preset's",
                      .minimum = 0,
                      .maximum = 1e9});
  add_network_number(keys, [](Config & c) -> auto& { return c.network.gbps; },
                     {.name = "gbps",
                      .help = "bandwidth of a worker's link in Gbit/s; auto: the preset's",
                      .minimum = 0,
                      .maximum = 1e6,
                      .exclusive_minimum = true});
  keys.add([](Config & c) -> auto& { return c.network.compute; },
           {.name = "compute",
            .help = "compute time on a virtual cluster; measured: the CPU time of each worker's thread; zero: none, "
                    "so that a step takes only the time of its messages",
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
           {.name = "keep", .help = "number of newest checkpoints to keep", .minimum = 1, .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.checkpoint.keep_best; },
           {.name = "keep_best",
            .help = "also save and keep the checkpoint of the best evaluation",
            .role = KeyRole::kRuntime});
  keys.table("logging");
  keys.add([](Config & c) -> auto& { return c.logging.every_steps; },
           {.name = "every_steps",
            .help = "steps between the lines of metrics.jsonl; progress lines in the log follow these steps",
            .minimum = 1,
            .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.logging.level; },
           {.name = "level", .help = "least severe level that is logged", .role = KeyRole::kRuntime});
  keys.add([](Config & c) -> auto& { return c.logging.dump_gradients; },
           {.name = "dump_gradients",
            .help = "steps, from 1, at which each worker writes its accumulated gradient to gradients/*.npy",
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
      component_table<codec::ValueCodecEntry>("quantizer",
                                              [](Config& c) -> Component& { return c.compression.quantizer; }),
      component_table<comm::SparseCollectiveEntry>("collective",
                                                   [](Config& c) -> Component& { return c.compression.collective; }),
      component_table<compress::MemoryEntry>("memory", [](Config& c) -> Component& { return c.compression.memory; }),
      component_table<compress::DensityScheduleEntry>(
          "density_schedule", [](Config& c) -> Component& { return c.compression.density_schedule; }),
  };
}

}  // namespace dragonn::trainer
