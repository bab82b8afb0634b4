// SPDX-License-Identifier: MIT
#include "library/dragonn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "comm/agreement.h"
#include "comm/deadline.h"
#include "core/error.h"
#include "core/log.h"
#include "core/program.h"
#include "library/exchange.h"
#include "library/gradients.h"
#include "library/rank_thread.h"
#include "trainer/config/exchange_config.h"

namespace library = dragonn::library;

/// The members that a caller's thread reads are set before dragonn_create returns.
struct dragonn_exchange_handle {
  dragonn::trainer::RunSpec spec;
  std::vector<library::Tensor> tensors;
  std::uint64_t steps_per_epoch = 1;
  std::filesystem::path trace;  // empty: none
  int rank = 0;
  int size = 1;
  std::unique_ptr<dragonn::Clock> clock;  // the run's
  std::size_t elements = 0;
  std::vector<dragonn_tensor_info> infos;
  std::vector<std::byte> saved;  // the state between dragonn_state_size and dragonn_state_save; empty: none
  std::optional<library::Exchange> exchange;         // only the thread uses it, while the group lives
  std::unique_ptr<library::StepParts> parts;         // of an exchange that has begun; null: none
  std::shared_ptr<library::LocalSteps> local_steps;  // the exchange's; null: it has none
  bool sends_change = false;                         // of local steps, in the thread
  std::unique_ptr<library::RankThread> thread;
  ::pid_t process = ::getpid();  // the thread is there, and in no child that this process forks
  std::atomic<bool> is_in_use = false;
};

namespace {

using dragonn::ConfigError;
using dragonn::library::UsageError;

/// The text of dragonn_last_error. It has a fixed size, so that an error of memory needs none.
thread_local std::array<char, 2048> last_error{};

void set_last_error(const char* text) noexcept {
  std::strncpy(last_error.data(), text, last_error.size() - 1);
  // One line, and no commands to a terminal: texts can quote a config, or a name.
  const auto is_control = [](unsigned char letter) { return letter != 0 && (letter < ' ' || letter == 0x7f); };
  std::ranges::replace_if(last_error, is_control, ' ');
}

dragonn_status status_of(const std::exception& error) {
  constexpr int kBadConfig = 2;
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return DRAGONN_ERROR_USAGE;
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return DRAGONN_ERROR_CONFIG;
  if (dynamic_cast<const dragonn::comm::TimeoutError*>(&error) != nullptr) return DRAGONN_ERROR_TIMEOUT;
  if (dynamic_cast<const dragonn::CommError*>(&error) != nullptr) return DRAGONN_ERROR_COMMUNICATION;
  if (dynamic_cast<const library::NonFiniteError*>(&error) != nullptr) return DRAGONN_ERROR_NON_FINITE;
  if (dynamic_cast<const library::CancelledError*>(&error) != nullptr) return DRAGONN_ERROR_CANCELLED;
  if (dynamic_cast<const dragonn::DataError*>(&error) != nullptr) return DRAGONN_ERROR_STATE;
  const auto* const agreed = dynamic_cast<const dragonn::comm::CollectiveError*>(&error);
  if (agreed != nullptr && agreed->exit_code() == kBadConfig) return DRAGONN_ERROR_CONFIG;
  return DRAGONN_ERROR_SYSTEM;
}

/// Runs the body of a function of the interface. No exception leaves it.
template <class Body>
dragonn_status guarded(const Body& body) noexcept {
  try {
    body();
    return DRAGONN_OK;
  } catch (const std::bad_alloc&) {
    set_last_error("out of memory");
    return DRAGONN_ERROR_SYSTEM;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return status_of(error);
  } catch (...) {
    set_last_error("unknown error");
    return DRAGONN_ERROR_SYSTEM;
  }
}

/// Throws the formatted UsageError unless the argument is right.
template <class... Args>
void require(bool right, fmt::format_string<Args...> otherwise, Args&&... args) {
  if (!right) throw UsageError(fmt::format(otherwise, std::forward<Args>(args)...));
}

/// Checks the size of a struct in the caller's header, which may be older than this library's, but not newer.
template <class Struct>
void require_size(std::size_t size, const char* name) {
  require(size > 0 && size <= sizeof(Struct),
          "{} has {} bytes in the caller's header: expected at most {}, the header of "
          "this library",
          name, size, sizeof(Struct));
}

/// Returns the options that a caller gives; a null pointer gives none.
dragonn_options read_options(const dragonn_options* given) {
  dragonn_options options{};
  if (given == nullptr) return options;
  require_size<dragonn_options>(given->size, "dragonn_options");
  std::memcpy(&options, given, given->size);
  return options;
}

/// Sends the log nowhere until a caller wants it.
void silence_log() {
  static std::once_flag once;
  std::call_once(once, [] { dragonn::log::set_sink({}); });
}

/// Returns the shape with at most two dimensions.
dragonn::Shape shape_of(const dragonn_tensor& tensor, std::uint64_t index) {
  constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max();
  require(tensor.dimensions == 0 || tensor.shape != nullptr, "tensor {} ('{}'): shape is a null pointer", index,
          tensor.name);
  std::uint64_t first = 1, rest = 1;
  for (std::uint64_t axis = 0; axis < tensor.dimensions; ++axis) {
    const std::uint64_t extent = tensor.shape[axis];
    require(extent > 0 && extent <= kMaxElements / first / rest,
            "tensor {} ('{}'): dimension {} is {}: expected at least 1, and fewer than 2^63 elements in all", index,
            tensor.name, axis, extent);
    (axis == 0 ? first : rest) *= extent;
  }
  if (tensor.dimensions < 2) return {static_cast<std::int64_t>(first)};
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(rest)};
}

std::vector<library::Tensor> read_tensors(const dragonn_tensor* tensors, std::uint64_t count) {
  require(tensors != nullptr && count > 0, "dragonn_create got no tensors: expected at least 1");
  std::vector<library::Tensor> list;
  std::vector<std::string> names;
  for (std::uint64_t index = 0; index < count; ++index) {
    require(tensors[index].name != nullptr, "tensor {}: name is a null pointer", index);
    list.push_back({tensors[index].name, shape_of(tensors[index], index)});
    names.push_back(list.back().name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  require(twice == names.end(), "two tensors have the name '{}'", twice == names.end() ? "" : *twice);
  return list;
}

/// Sets up this rank's exchange, in its thread.
void set_up(dragonn_exchange_handle& handle, dragonn::comm::Communicator& communicator) {
  omp_set_num_threads(static_cast<int>(handle.spec.comm.threads_per_worker));
  dragonn::comm::all_ranks_or_none(communicator, [&] {
    handle.exchange.emplace(handle.spec, handle.tensors, handle.steps_per_epoch, handle.trace, communicator);
  });
  handle.exchange->check_same_on_all_ranks();
  handle.local_steps = handle.exchange->local_steps();
  handle.clock = communicator.fork_clock();
  handle.rank = communicator.rank();
  handle.size = communicator.size();
  handle.elements = handle.exchange->elements();
  for (std::size_t tensor = 0; tensor < handle.tensors.size(); ++tensor) {
    handle.infos.push_back(handle.exchange->info(tensor));
  }
}

std::unique_ptr<dragonn_exchange_handle> make_handle(const dragonn_options& options,
                                                     std::vector<library::Tensor> tensors) {
  auto handle = std::make_unique<dragonn_exchange_handle>();
  handle->spec = dragonn::trainer::parse_exchange_config(options.config == nullptr ? "" : options.config, "config");
  for (const std::string& note : handle->spec.notes) dragonn::log::info(0, "{}", note);
  handle->tensors = std::move(tensors);
  const std::uint64_t steps = options.steps_per_epoch;
  handle->steps_per_epoch = steps > 0 ? steps : std::numeric_limits<std::uint64_t>::max();
  if (options.trace != nullptr) handle->trace = options.trace;
  require((handle->spec.logging.trace > 0) == !handle->trace.empty(),
          "logging.trace = {} and the option trace names {}: expected a number of exchanges and a file, or neither",
          handle->spec.logging.trace, handle->trace.empty() ? "no file" : "a file");
  dragonn_exchange_handle* const address = handle.get();
  handle->thread = std::make_unique<library::RankThread>(
      library::choose_connection(handle->spec.comm, options.rendezvous == nullptr ? "" : options.rendezvous),
      [address](dragonn::comm::Communicator& communicator) { set_up(*address, communicator); },
      [address] { address->exchange.reset(); });
  return handle;
}

void check_handle(const dragonn_exchange_handle* handle) {
  require(handle != nullptr, "the handle is a null pointer");
  require(
      handle->process == ::getpid(),
      "the handle is of process {}, which forked this process, {}: expected a call by that process, or a handle that "
      "this one created",
      handle->process, ::getpid());
}

/// Holds a handle for one call of one thread.
class HandleUse {
 public:
  explicit HandleUse(dragonn_exchange_handle* handle) : handle_(handle) {
    check_handle(handle);
    require(!handle->is_in_use.exchange(true), "another thread uses the handle: expected one at a time");
  }
  ~HandleUse() {
    if (handle_ != nullptr) handle_->is_in_use = false;
  }
  HandleUse(const HandleUse&) = delete;
  HandleUse& operator=(const HandleUse&) = delete;

  /// Hands the handle over to be freed.
  std::unique_ptr<dragonn_exchange_handle> take() {
    return std::unique_ptr<dragonn_exchange_handle>(std::exchange(handle_, nullptr));
  }

 private:
  dragonn_exchange_handle* handle_;
};

void require_no_exchange(const dragonn_exchange_handle& handle) {
  require(handle.parts == nullptr, "an exchange has begun: expected dragonn_begin, dragonn_wait or dragonn_cancel");
}

/// Runs the body of a function that one thread at a time may call with a handle, also while an exchange has begun.
template <class Body>
dragonn_status guarded_during_exchange(dragonn_exchange_handle* handle, const Body& body) noexcept {
  return guarded([&] {
    const HandleUse use(handle);
    body();
  });
}

/// Waits for a change that the thread exchanges beside local steps.
void wait_for_change(dragonn_exchange_handle& handle) {
  if (std::exchange(handle.sends_change, false)) handle.thread->wait();
}

/// Runs the body of a function that needs the handle's thread.
template <class Body>
dragonn_status guarded(dragonn_exchange_handle* handle, const Body& body) noexcept {
  return guarded_during_exchange(handle, [&] {
    require_no_exchange(*handle);
    wait_for_change(*handle);
    body();
  });
}

void require_gradients(const dragonn_exchange_handle& handle) {
  require(!handle.spec.update.steps_locally(),
          "update.scheme = \"{}\" exchanges changes of parameters: expected dragonn_local_step",
          handle.spec.update.scheme.name);
}

/// Returns the local steps, which must have a start, or must not have one.
library::LocalSteps& local_steps(dragonn_exchange_handle& handle, bool has_started) {
  require(handle.local_steps != nullptr, "the config has no update.scheme = \"local\"");
  library::LocalSteps& steps = *handle.local_steps;
  require(steps.has_started() == has_started, "the local steps have {}",
          has_started ? "no start: expected dragonn_local_start" : "started already");
  return steps;
}

void run_exchange(dragonn_exchange_handle& handle, std::span<const library::Numbers> gradients) {
  require_gradients(handle);
  handle.saved.clear();
  handle.thread->run([&] { handle.exchange->run(gradients); });
}

/// Returns arrays of a caller, at most one for each tensor.
std::vector<dragonn_array> read_arrays(const dragonn_exchange_handle& handle, const dragonn_array* gradients,
                                       std::uint64_t count, std::size_t size) {
  require(gradients != nullptr || count == 0, "the list of gradients is a null pointer");
  require_size<dragonn_array>(size, "dragonn_array");
  std::vector<dragonn_array> list(count);
  std::vector<bool> is_given(handle.tensors.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    dragonn_array& gradient = list[i];
    std::memcpy(&gradient, reinterpret_cast<const std::byte*>(gradients) + i * size, size);
    const std::uint64_t tensor = gradient.tensor;
    require(tensor < handle.tensors.size(), "gradient {} is of tensor {}: expected 0 to {}", i, tensor,
            handle.tensors.size() - 1);
    const std::string& name = handle.tensors[tensor].name;
    require(gradient.data != nullptr, "the gradient of {} is a null pointer", name);
    require(gradient.dtype <= DRAGONN_FLOAT16, "the gradient of {} has the type {}: expected a dragonn_dtype", name,
            gradient.dtype);
    require(!is_given[tensor] && (handle.parts == nullptr || !handle.parts->is_given(tensor)),
            "the gradient of {} is given twice in one exchange", name);
    is_given[tensor] = true;
  }
  return list;
}

library::Numbers numbers_of(const dragonn_array& gradient) {
  return {gradient.data, static_cast<dragonn_dtype>(gradient.dtype)};
}

/// Returns one array for each tensor, in their order.
std::vector<library::Numbers> read_all(const dragonn_exchange_handle& handle, const dragonn_array* arrays,
                                       std::uint64_t count, std::size_t size, const char* what) {
  require(count == handle.tensors.size(), "there are {} {}: expected {}, one for each tensor", count, what,
          handle.tensors.size());
  std::vector<library::Numbers> numbers(count);
  for (const dragonn_array& array : read_arrays(handle, arrays, count, size)) numbers[array.tensor] = numbers_of(array);
  return numbers;
}

/// Ends the exchange that has begun.
void wait_for_exchange(dragonn_exchange_handle& handle) {
  try {
    handle.thread->wait();
  } catch (...) {
    handle.parts.reset();
    throw;
  }
  handle.parts.reset();
}

}  // namespace

uint32_t dragonn_abi(void) {
  return DRAGONN_ABI;
}

const char* dragonn_version(void) {
  static const std::string text(dragonn::version());
  return text.c_str();
}

const char* dragonn_last_error(void) {
  return last_error.data();
}

dragonn_status dragonn_set_log(dragonn_log_function function, void* user) {
  return guarded([&] {
    silence_log();
    if (function == nullptr) return dragonn::log::set_sink({});
    dragonn::log::set_sink([function, user](dragonn::log::Level level, const std::string& line) {
      function(static_cast<dragonn_log_level>(level), line.c_str(), user);
    });
  });
}

dragonn_status dragonn_create(const dragonn_options* options, const dragonn_tensor* tensors, uint64_t tensor_count,
                              dragonn_exchange_handle** handle) {
  if (handle != nullptr) *handle = nullptr;
  return guarded([&] {
    silence_log();
    require(handle != nullptr, "dragonn_create has no place for the handle: a null pointer");
    *handle = make_handle(read_options(options), read_tensors(tensors, tensor_count)).release();
  });
}

dragonn_status dragonn_destroy(dragonn_exchange_handle* handle) {
  return guarded([&] {
    if (handle == nullptr) return;
    HandleUse use(handle);
    require_no_exchange(*handle);
    use.take()->thread->finish();
  });
}

void dragonn_abort(dragonn_exchange_handle* handle, const char* reason) {
  guarded([&] {
    if (handle == nullptr) return;
    const std::string text = reason == nullptr || *reason == '\0' ? "no reason given" : reason;
    const auto owned = HandleUse(handle).take();
    if (owned->parts) owned->parts->fail(text);
    owned->thread->abort(text);
  });
}

int32_t dragonn_rank(const dragonn_exchange_handle* handle) {
  return handle == nullptr ? -1 : handle->rank;
}

int32_t dragonn_size(const dragonn_exchange_handle* handle) {
  return handle == nullptr ? -1 : handle->size;
}

uint64_t dragonn_elements(const dragonn_exchange_handle* handle) {
  return handle == nullptr ? 0 : handle->elements;
}

dragonn_status dragonn_get_tensor_info(const dragonn_exchange_handle* handle, uint64_t tensor,
                                       dragonn_tensor_info* info, size_t size) {
  return guarded([&] {
    check_handle(handle);
    require(info != nullptr, "the place for the tensor's info is a null pointer");
    require(tensor < handle->infos.size(), "tensor {}: expected 0 to {}", tensor, handle->infos.size() - 1);
    require_size<dragonn_tensor_info>(size, "dragonn_tensor_info");
    std::memcpy(info, &handle->infos[tensor], size);
  });
}

dragonn_status dragonn_set_learning_rate(dragonn_exchange_handle* handle, double learning_rate) {
  return guarded(handle, [&] {
    require(learning_rate >= 0 && learning_rate <= std::numeric_limits<double>::max(),
            "the learning rate is {}: expected a number of at least 0", learning_rate);
    handle->thread->run([&] { handle->exchange->set_learning_rate(learning_rate); });
  });
}

dragonn_status dragonn_exchange(dragonn_exchange_handle* handle, float* gradient, uint64_t elements) {
  return guarded(handle, [&] {
    require(gradient != nullptr, "the gradient is a null pointer");
    require(elements == handle->elements, "the gradient has {} elements: expected {}, those of all {} tensors",
            elements, handle->elements, handle->tensors.size());
    std::vector<library::Numbers> gradients;
    for (const dragonn_tensor_info& info : handle->infos) {
      gradients.push_back({gradient});
      gradient += info.elements;
    }
    run_exchange(*handle, gradients);
  });
}

dragonn_status dragonn_exchange_tensors(dragonn_exchange_handle* handle, float* const* gradients,
                                        uint64_t tensor_count) {
  return guarded(handle, [&] {
    require(gradients != nullptr, "the list of gradients is a null pointer");
    require(tensor_count == handle->tensors.size(), "there are {} gradients: expected {}, one for each tensor",
            tensor_count, handle->tensors.size());
    const std::span<float* const> list(gradients, tensor_count);
    const auto missing = std::ranges::find(list, nullptr);
    require(missing == list.end(), "the gradient of tensor {} is a null pointer", missing - list.begin());
    std::vector<library::Numbers> numbers;
    for (float* const gradient : list) numbers.push_back({gradient});
    run_exchange(*handle, numbers);
  });
}

dragonn_status dragonn_exchange_gradients(dragonn_exchange_handle* handle, const dragonn_array* gradients,
                                          uint64_t count, size_t size) {
  return guarded(handle, [&] { run_exchange(*handle, read_all(*handle, gradients, count, size, "gradients")); });
}

dragonn_status dragonn_begin(dragonn_exchange_handle* handle, const dragonn_array* gradients, uint64_t count,
                             size_t size) {
  return guarded_during_exchange(handle, [&] {
    require_gradients(*handle);
    const std::vector<dragonn_array> list = read_arrays(*handle, gradients, count, size);
    if (list.empty()) return;
    if (handle->parts == nullptr) {
      handle->saved.clear();
      auto parts = std::make_unique<library::StepParts>(handle->tensors.size(), *handle->clock);
      handle->thread->start([handle, step = parts.get()] { handle->exchange->run(*step); });
      handle->parts = std::move(parts);
    }
    std::vector<std::pair<dragonn::ParameterId, library::Numbers>> numbers;
    for (const dragonn_array& gradient : list) numbers.emplace_back(gradient.tensor, numbers_of(gradient));
    handle->parts->give(numbers);
  });
}

dragonn_status dragonn_test(dragonn_exchange_handle* handle, int32_t* is_done) {
  return guarded_during_exchange(handle, [&] {
    require(is_done != nullptr, "the place for the answer is a null pointer");
    require(handle->parts != nullptr, "no exchange has begun: expected dragonn_begin first");
    *is_done = handle->thread->is_idle() ? 1 : 0;
  });
}

dragonn_status dragonn_wait(dragonn_exchange_handle* handle) {
  return guarded_during_exchange(handle, [&] {
    require(handle->parts != nullptr, "no exchange has begun: expected dragonn_begin first");
    // The thread may have failed before all has begun.
    require(handle->parts->is_complete() || handle->thread->is_idle(),
            "some tensors have not begun: expected dragonn_begin for them, or dragonn_cancel");
    wait_for_exchange(*handle);
  });
}

dragonn_status dragonn_cancel(dragonn_exchange_handle* handle) {
  return guarded_during_exchange(handle, [&] {
    if (handle->parts == nullptr) return;
    require(!handle->parts->is_complete(), "all tensors have begun: expected dragonn_wait");
    handle->parts->cancel();
    try {
      wait_for_exchange(*handle);
    } catch (const library::CancelledError&) {  // as wanted
    }
  });
}

dragonn_status dragonn_set_parts(dragonn_exchange_handle* handle, const uint64_t* part_of, uint64_t tensor_count) {
  return guarded(handle, [&] {
    require(part_of != nullptr, "the list of parts is a null pointer");
    require(tensor_count == handle->tensors.size(), "there are {} parts: expected {}, one for each tensor",
            tensor_count, handle->tensors.size());
    handle->thread->run([&] { handle->exchange->set_parts(std::span(part_of, tensor_count)); });
  });
}

dragonn_status dragonn_local_start(dragonn_exchange_handle* handle, const dragonn_array* parameters, uint64_t count,
                                   size_t size) {
  return guarded(handle, [&] {
    local_steps(*handle, /*has_started=*/false);
    const std::vector<library::Numbers> numbers = read_all(*handle, parameters, count, size, "parameters");
    handle->saved.clear();
    handle->thread->run([&] { handle->exchange->start_local_steps(numbers); });
  });
}

dragonn_status dragonn_local_step(dragonn_exchange_handle* handle, const dragonn_array* parameters, uint64_t count,
                                  size_t size, int32_t is_last) {
  return guarded_during_exchange(handle, [&] {
    library::LocalSteps& steps = local_steps(*handle, /*has_started=*/true);
    const library::LocalTurn turn = steps.next(is_last != 0);
    std::vector<library::Numbers> numbers;
    if (turn.arrives || turn.part) {
      numbers = read_all(*handle, parameters, count, size, "parameters");
      wait_for_change(*handle);
    }
    handle->saved.clear();
    steps.count(turn);
    if (!turn.arrives && !turn.part) return;
    handle->thread->run([&] {
      handle->exchange->take_turn(turn, numbers);
      if (!turn.part || turn.is_beside) return;
      handle->exchange->exchange_change(turn);
      steps.give(*turn.part, turn.is_last, numbers);
    });
    if (!turn.is_beside) return;
    handle->thread->start([handle, turn] { handle->exchange->exchange_change(turn); });
    handle->sends_change = true;
  });
}

dragonn_status dragonn_local_common(dragonn_exchange_handle* handle, const dragonn_array* parameters, uint64_t count,
                                    size_t size) {
  return guarded(handle, [&] {
    library::LocalSteps& steps = local_steps(*handle, /*has_started=*/true);
    const std::vector<library::Numbers> numbers = read_all(*handle, parameters, count, size, "parameters");
    handle->thread->run([&] { steps.write_common(numbers); });
  });
}

dragonn_status dragonn_local_next(dragonn_exchange_handle* handle, int32_t is_last, int32_t* touches) {
  return guarded_during_exchange(handle, [&] {
    require(touches != nullptr, "the place for the answer is a null pointer");
    const library::LocalTurn turn = local_steps(*handle, /*has_started=*/true).next(is_last != 0);
    *touches = turn.arrives || turn.part ? 1 : 0;
  });
}

dragonn_status dragonn_get_statistics(dragonn_exchange_handle* handle, dragonn_statistics* statistics, size_t size) {
  return guarded(handle, [&] {
    require(statistics != nullptr, "the place for the statistics is a null pointer");
    require_size<dragonn_statistics>(size, "dragonn_statistics");
    handle->thread->run([&] {
      const dragonn_statistics all = handle->exchange->statistics();
      std::memcpy(statistics, &all, size);
    });
  });
}

dragonn_status dragonn_state_size(dragonn_exchange_handle* handle, uint64_t* bytes) {
  return guarded(handle, [&] {
    require(bytes != nullptr, "the place for the state's size is a null pointer");
    handle->thread->run([&] { handle->saved = handle->exchange->save(); });
    *bytes = handle->saved.size();
  });
}

dragonn_status dragonn_state_save(dragonn_exchange_handle* handle, void* state, uint64_t size) {
  return guarded(handle, [&] {
    require(state != nullptr, "the place for the state is a null pointer");
    if (handle->saved.empty()) handle->thread->run([&] { handle->saved = handle->exchange->save(); });
    require(size == handle->saved.size(), "the place for the state has {} bytes: expected {} (dragonn_state_size)",
            size, handle->saved.size());
    std::memcpy(state, handle->saved.data(), size);
    handle->saved = {};
  });
}

dragonn_status dragonn_state_load(dragonn_exchange_handle* handle, const void* state, uint64_t size) {
  return guarded(handle, [&] {
    require(state != nullptr, "the state is a null pointer");
    handle->saved.clear();
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(state), size);
    handle->thread->run([&] { handle->exchange->load(bytes); });
    handle->local_steps = handle->exchange->local_steps();
  });
}

dragonn_status dragonn_state_load_all(dragonn_exchange_handle* handle, const void* const* states, const uint64_t* sizes,
                                      uint64_t state_count) {
  return guarded(handle, [&] {
    require(states != nullptr && sizes != nullptr, "the list of states, or of their sizes, is a null pointer");
    require(state_count > 0 && state_count <= std::numeric_limits<int>::max(),
            "there are {} states: expected at least 1", state_count);
    std::vector<std::span<const std::byte>> all;
    for (std::uint64_t rank = 0; rank < state_count; ++rank) {
      require(states[rank] != nullptr, "the state of rank {} is a null pointer", rank);
      all.emplace_back(static_cast<const std::byte*>(states[rank]), sizes[rank]);
    }
    handle->saved.clear();
    handle->thread->run([&] { handle->exchange->load_all(all); });
    handle->local_steps = handle->exchange->local_steps();
  });
}
