// SPDX-License-Identifier: MIT
/// The C interface to the sparsified gradient exchange of dragonn, for other programs.
///
/// An exchange averages gradients over the processes of a run. Each process sends a part of its gradient and keeps the
/// rest as its residual (error feedback), which it adds to its next gradient. The methods, and the keys of the config,
/// are those of dragonn-train. docs/library.md has a complete program.
///
/// Processes. dragonn_create connects them, by the key comm.backend:
/// - "mpi": under mpirun or srun. MPI is initialized with MPI_THREAD_MULTIPLE unless the program did, and is then
///   finalized when the process exits.
/// - "tcp": rank and size come from RANK and WORLD_SIZE or from the launcher, the rendezvous from comm.rendezvous or
///   MASTER_ADDR and MASTER_PORT. Under torchrun, whose own store has that port, from MASTER_PORT + 1. A program whose
///   processes can already talk to each other gives one in its options.
/// - "local": this process alone.
/// - "auto": "tcp" under torchrun, "mpi" under another launcher, "tcp" where RANK and WORLD_SIZE are set, else "local".
///
/// Collective calls: dragonn_create, the exchanges and dragonn_destroy. All ranks make them in the same order. An
/// exchange that begins by dragonn_begin ends by dragonn_wait, or by dragonn_cancel on some rank.
///
/// Structs that may grow come with their size in the caller's header. A library with more fields leaves out those that
/// the caller does not know, and takes 0 for those that it did not give.
///
/// Threads. A handle has a thread of its own, which computes and communicates while the caller waits. One thread at a
/// time uses a handle; it need not be the same one. A second thread gets DRAGONN_ERROR_USAGE while the first one's call
/// lasts. Handles are independent of each other. A destroyed handle must not be used.
///
/// Forks. A child that a process forks has none of the handles' threads: there every call with a handle of the parent
/// is DRAGONN_ERROR_USAGE, also dragonn_destroy, and the parent's handle stays as it is. A child may create handles of
/// its own, except over MPI, which belongs to the parent.
///
/// Errors. A function that returns a status never throws and never ends the process. After DRAGONN_ERROR_USAGE,
/// DRAGONN_ERROR_CONFIG, DRAGONN_ERROR_NON_FINITE, DRAGONN_ERROR_STATE and DRAGONN_ERROR_CANCELLED the handle can be
/// used as if the call, or the exchange that had begun, had not been made. After any other error of an exchange the
/// group is dead: every further exchange returns DRAGONN_ERROR_COMMUNICATION, and the handle can only be ended. Every
/// wait for another rank ends at comm.timeout_s, that of dragonn_create over MPI at comm.start_timeout_s.
///
/// Memory for n elements: 4n bytes for the residual, 8n with momentum correction; the lists of the messages, 8 bytes
/// for each entry that is sent or received; and 4 bytes for each element of a gradient that is not read where it lies:
/// of 16 bits, or of several tensors of a bucket that do not lie behind each other. A dense exchange has no residual,
/// and 4n bytes for the sum. While a state is loaded, there are two residuals, and from the first dragonn_begin on,
/// too.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRAGONN_API __attribute__((visibility("default")))

/// The result of a call.
typedef enum dragonn_status {
  DRAGONN_OK = 0,
  DRAGONN_ERROR_USAGE = 1,   ///< a null pointer, a wrong size; a handle of the parent, or in use by another thread
  DRAGONN_ERROR_CONFIG = 2,  ///< an unknown key, a value out of range, keys that do not fit together
  DRAGONN_ERROR_COMMUNICATION = 3,  ///< a rank has ended or failed, or the ranks have different configs
  DRAGONN_ERROR_TIMEOUT = 4,        ///< a rank was later than the deadline
  /// The gradient of some rank holds NaN or infinity; all ranks get this. A sum with the residual that overflows
  /// although the gradient is finite is reported by the next exchange, and by all others until a saved state is loaded.
  DRAGONN_ERROR_NON_FINITE = 5,
  DRAGONN_ERROR_STATE = 6,      ///< a saved state is damaged, or of another rank, config or list of tensors
  DRAGONN_ERROR_SYSTEM = 7,     ///< memory, a thread, or an error of dragonn's own
  DRAGONN_ERROR_CANCELLED = 8,  ///< some rank gave up the exchange by dragonn_cancel; all ranks get this
} dragonn_status;

/// The type of a gradient's elements. They are converted to float32 once, in which dragonn computes and keeps
/// residuals; a mean is rounded to nearest even, and becomes the largest number of the type where it is larger.
typedef enum dragonn_dtype {
  DRAGONN_FLOAT32 = 0,
  DRAGONN_BFLOAT16 = 1,
  DRAGONN_FLOAT16 = 2,  ///< IEEE 754 binary16
} dragonn_dtype;

/// One rank's end of an exchange.
typedef struct dragonn_exchange_handle dragonn_exchange_handle;

/// A parameter tensor. Tensors of two or more dimensions are sparsified; scalars and vectors (biases, normalization)
/// are exchanged whole unless compression.include_vectors = "yes". Tensors are given in the order of the forward pass.
typedef struct dragonn_tensor {
  const char* name;       ///< for errors; no two tensors have the same
  const uint64_t* shape;  ///< [dimensions], each at least 1; unused without dimensions
  uint64_t dimensions;
} dragonn_tensor;

/// A tensor's gradient, or parameter, in host memory. The types are the same on every rank.
typedef struct dragonn_array {
  uint64_t tensor;  ///< its place in the list of tensors, from 0
  void* data;       ///< [elements of the tensor]; the mean takes its place
  uint32_t dtype;   ///< a dragonn_dtype
} dragonn_array;

/// The options of dragonn_create. What is 0 or null has its default.
typedef struct dragonn_options {
  size_t size;         ///< sizeof(dragonn_options)
  const char* config;  ///< TOML text with keys of dragonn-train: seed, [optimizer], [compression], [comm], [logging]
  /// The place where the ranks meet if they do so over TCP and the config has no comm.rendezvous: "tcp:HOST:PORT", an
  /// address of rank 0, or "file:PATH". Null: as the environment says.
  const char* rendezvous;
  uint64_t steps_per_epoch;  ///< exchanges in an epoch, for density schedules that count epochs; 0: all is one epoch
  /// The file for a timeline of logging.trace exchanges, from exchange logging.trace_first of this handle on. Rank 0
  /// writes it, in Chrome's format (docs/formats.md), when all ranks have made the last of them; if it cannot, the log
  /// has a warning. Null: none.
  const char* trace;
} dragonn_options;

/// The treatment of a tensor.
typedef struct dragonn_tensor_info {
  uint64_t elements;
  uint32_t sparsified;             ///< 1: it is compressed where the density is below 1
  uint32_t momentum_applied;       ///< 1: the mean contains the momentum (dgc), so the optimizer adds none
  uint32_t learning_rate_applied;  ///< 1: the mean contains the learning rate (compression.acc_form = "folded")
  float momentum;                  ///< the factor of the momentum that is applied; 0: none is
} dragonn_tensor_info;

/// The statistics of this rank's last exchange. Times are wall seconds of this rank.
typedef struct dragonn_statistics {
  uint64_t exchanges;   ///< number of exchanges so far, saved ones included
  uint64_t bytes_sent;  ///< of the last exchange, as are all below
  uint64_t bytes_received;
  uint64_t messages_sent;
  uint64_t elements;          ///< in buckets that were sparsified
  uint64_t entries_selected;  ///< by this rank, of these
  uint64_t entries_of_sum;    ///< of the mean that all ranks get, of these
  double density;             ///< requested by the density schedule
  double residual_norm;       ///< Euclidean norm of all that this rank has not sent yet; O(n) to compute
  double seconds;             ///< of the whole call, or from the first dragonn_begin on; waits included
  double seconds_compensate;  ///< adding the residual to the gradient
  double seconds_select;      ///< choosing entries; zero for methods whose selection is part of compensate
  double seconds_exchange;    ///< messages
  double seconds_decode;      ///< turning received messages into a sum
  double seconds_settle;      ///< computing the new residual
} dragonn_statistics;

/// The severity of a line in the log.
typedef enum dragonn_log_level {
  DRAGONN_LOG_DEBUG = 0,
  DRAGONN_LOG_INFO = 1,
  DRAGONN_LOG_WARNING = 2,
  DRAGONN_LOG_ERROR = 3
} dragonn_log_level;

/// Receives one line without its end, from any thread, one at a time. It must not call functions of this header.
typedef void (*dragonn_log_function)(dragonn_log_level level, const char* line, void* user);

/// The number of this interface. It grows with every function, member or meaning that is added; a library has all that
/// lower numbers had.
#define DRAGONN_ABI 3u

/// Returns the DRAGONN_ABI of the library, at least that of the header a program was compiled with, or for another
/// language written for; otherwise the library is too old. Local.
DRAGONN_API uint32_t dragonn_abi(void);

/// Returns the version of the library, as "0.1.0-g1234567". Local.
DRAGONN_API const char* dragonn_version(void);

/// Returns the error of the calling thread's last failed call, one line; "" if there was none. The text is valid until
/// the thread's next failed call. Local.
DRAGONN_API const char* dragonn_last_error(void);

/// Hands the lines of the log to a function from now on; a null function, as at the start, drops them. Local; for all
/// handles of the process.
DRAGONN_API dragonn_status dragonn_set_log(dragonn_log_function function, void* user);

/// Collective. Connects the processes and creates this rank's end.
/// @param options null: all have their defaults.
/// @param tensors [tensor_count], the same on every rank.
/// @param handle receives the handle; null after an error.
DRAGONN_API dragonn_status dragonn_create(const dragonn_options* options, const dragonn_tensor* tensors,
                                          uint64_t tensor_count, dragonn_exchange_handle** handle);

/// Collective. Waits until all ranks are here, ends the group and frees the handle, also after an error; only after
/// DRAGONN_ERROR_USAGE it is as before. A null handle is ignored.
DRAGONN_API dragonn_status dragonn_destroy(dragonn_exchange_handle* handle);

/// Ends the group because this rank has failed, and frees the handle. Waits at most a few seconds, until the others
/// know. Over TCP the other ranks' exchanges fail with this reason; over MPI they fail at their deadline, or when this
/// process has ended. In a forked child, and while another thread's call lasts, it does nothing but set the error of
/// dragonn_last_error.
DRAGONN_API void dragonn_abort(dragonn_exchange_handle* handle, const char* reason);

/// Returns this rank, 0 to size - 1, or -1 for a null handle. Local.
DRAGONN_API int32_t dragonn_rank(const dragonn_exchange_handle* handle);
/// Returns the number of ranks, or -1 for a null handle. Local.
DRAGONN_API int32_t dragonn_size(const dragonn_exchange_handle* handle);
/// Returns the number of elements of all tensors, or 0 for a null handle. Local.
DRAGONN_API uint64_t dragonn_elements(const dragonn_exchange_handle* handle);

/// Tells how a tensor is treated. Local. @param tensor its place in the list, from 0. @param size
/// sizeof(dragonn_tensor_info).
DRAGONN_API dragonn_status dragonn_get_tensor_info(const dragonn_exchange_handle* handle, uint64_t tensor,
                                                   dragonn_tensor_info* info, size_t size);

/// Sets the learning rate of the next exchanges. It is optimizer.learning_rate at first. Only compression.acc_form =
/// "folded", compression.momentum_correction.masking_rate and compression.density_schedule = "rate" use it. The last
/// two take a warm-up for a rate that has fallen: without "folded" do not tell them the rates of one. Local.
DRAGONN_API dragonn_status dragonn_set_learning_rate(dragonn_exchange_handle* handle, double learning_rate);

/// Collective. Replaces this rank's gradient by the mean over the ranks of what they sent, the same on every rank.
/// O(n), plus the method's own work.
/// @param gradient [elements] float32 in host memory, the tensors one after the other in their order.
/// @param elements as dragonn_elements(); another number is an error before anything is sent.
DRAGONN_API dragonn_status dragonn_exchange(dragonn_exchange_handle* handle, float* gradient, uint64_t elements);

/// Collective. Works as dragonn_exchange, with one pointer for each tensor. @param gradients [tensor_count], in the
/// order of the tensors, which need not be neighbours in memory.
DRAGONN_API dragonn_status dragonn_exchange_tensors(dragonn_exchange_handle* handle, float* const* gradients,
                                                    uint64_t tensor_count);

/// Collective. Works as dragonn_exchange for gradients of other types.
/// @param gradients [count], one for each tensor, in any order.  @param size sizeof(dragonn_array).
DRAGONN_API dragonn_status dragonn_exchange_gradients(dragonn_exchange_handle* handle, const dragonn_array* gradients,
                                                      uint64_t count, size_t size);

/// Collective. Begins to exchange the gradients of some tensors, and returns: the handle's thread exchanges them while
/// the caller computes others. The exchange is complete when every tensor has begun, once each, in one call or many,
/// and dragonn_wait ends it. The bits are those of dragonn_exchange. All ranks begin every tensor in the same
/// exchanges; their order, and how calls divide them, can differ.
///
/// Gradients stay where they are, unchanged by the caller, until dragonn_wait has returned. Meanwhile every other call
/// with the handle but dragonn_test, dragonn_cancel and dragonn_abort is DRAGONN_ERROR_USAGE.
/// @param gradients [count], read before the call returns.  @param size sizeof(dragonn_array).
DRAGONN_API dragonn_status dragonn_begin(dragonn_exchange_handle* handle, const dragonn_array* gradients,
                                         uint64_t count, size_t size);

/// Tells whether dragonn_wait would return at once. Local. @param is_done receives 1 or 0.
DRAGONN_API dragonn_status dragonn_test(dragonn_exchange_handle* handle, int32_t* is_done);

/// Waits for the exchange that has begun. The gradients are then the means, or after an error as they were.
DRAGONN_API dragonn_status dragonn_wait(dragonn_exchange_handle* handle);

/// Gives up an exchange of which some tensors have not begun, because this rank cannot compute them. Waits for the
/// others, whose dragonn_wait returns DRAGONN_ERROR_CANCELLED: all ranks are as before the exchange. Does nothing if
/// none has begun.
DRAGONN_API dragonn_status dragonn_cancel(dragonn_exchange_handle* handle);

/// Tells in which order gradients will begin, so that each begins to travel as early as it can: tensors of part 0
/// first. Without it they travel in the opposite order of the tensors, matrices first. Local; the same on every rank.
/// No result depends on it. @param part_of [tensor_count], by tensor.
DRAGONN_API dragonn_status dragonn_set_parts(dragonn_exchange_handle* handle, const uint64_t* part_of,
                                             uint64_t tensor_count);

/// Local steps: with update.scheme = "local" in the config a handle exchanges changes of parameters instead of
/// gradients (DiLoCo, SparseLoCo, Streaming DiLoCo: docs/algorithms.md, section 7). The caller makes the inner steps by
/// an optimizer of its own; dragonn has the common parameters, the outer optimizer and the schedule. Such a handle
/// refuses the functions for gradients, and others refuse the four below. Parameters are given in full, one array for
/// each tensor, in any order.

/// Collective. Takes these parameters as the common ones, before the first inner step; once, unless a state is loaded.
/// DRAGONN_ERROR_CONFIG if a rank has others than rank 0. @param size sizeof(dragonn_array), as in the next two.
DRAGONN_API dragonn_status dragonn_local_start(dragonn_exchange_handle* handle, const dragonn_array* parameters,
                                               uint64_t count, size_t size);

/// Counts an inner step that this rank has made. Collective where the schedule exchanges: the call then waits for the
/// others and changes the parameters, or with update.overlap_steps returns while the handle's thread exchanges, and a
/// later call changes them. After DRAGONN_ERROR_NON_FINITE, which all ranks get when some rank's parameters are not
/// finite, the common parameters are as before.
/// @param is_last 1: the run's last step, after which all ranks have the same parameters; else 0.
DRAGONN_API dragonn_status dragonn_local_step(dragonn_exchange_handle* handle, const dragonn_array* parameters,
                                              uint64_t count, size_t size, int32_t is_last);

/// Writes the common parameters: those that all ranks share, of the last exchange.
DRAGONN_API dragonn_status dragonn_local_common(dragonn_exchange_handle* handle, const dragonn_array* parameters,
                                                uint64_t count, size_t size);

/// Tells whether the next dragonn_local_step reads or writes parameters; else it needs none: `count` can be 0. Local.
/// @param touches receives 1 or 0.
DRAGONN_API dragonn_status dragonn_local_next(dragonn_exchange_handle* handle, int32_t is_last, int32_t* touches);

/// Returns the statistics of the last exchange. Local. @param size sizeof(dragonn_statistics).
DRAGONN_API dragonn_status dragonn_get_statistics(dragonn_exchange_handle* handle, dragonn_statistics* statistics,
                                                  size_t size);

/// Returns the bytes of this rank's state: residuals, the method's own numbers, the number of exchanges. Local. The
/// size can change with every exchange. O(n): the state is written, and kept for a dragonn_state_save that follows at
/// once.
DRAGONN_API dragonn_status dragonn_state_size(dragonn_exchange_handle* handle, uint64_t* bytes);

/// Saves this rank's state. Local; each rank has its own. The format is that of dragonn's checkpoints, with a checksum
/// for each field. @param size of `state` in bytes: as dragonn_state_size() told.
DRAGONN_API dragonn_status dragonn_state_save(dragonn_exchange_handle* handle, void* state, uint64_t size);

/// Restores a state that this rank saved in a run with the same config, tensors and number of ranks. What follows has
/// the bits of an uninterrupted run. Local; all ranks load, or none. After any error, lack of memory included, the
/// handle is as before.
DRAGONN_API dragonn_status dragonn_state_load(dragonn_exchange_handle* handle, const void* state, uint64_t size);

/// Restores the states that all ranks of a run saved after the same exchange, on this number of ranks or another one.
/// On another one residuals are added up or start empty, so that no gradient is lost, and the method's own numbers
/// follow the rules of checkpoints (docs/design.md, section 5); a method whose rule refuses is an error. Local; all
/// ranks load the same states, or none. A rank reads those that concern it, and the first. After any error the handle
/// is as before.
/// @param states [state_count], in the order of the ranks that saved them. @param sizes their bytes.
DRAGONN_API dragonn_status dragonn_state_load_all(dragonn_exchange_handle* handle, const void* const* states,
                                                  const uint64_t* sizes, uint64_t state_count);

#ifdef __cplusplus
}
#endif
