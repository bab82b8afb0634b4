// SPDX-License-Identifier: MIT
/// A C program that uses dragonn.h as its readers would, alone or as one of several processes: sums, error feedback,
/// errors, saved states. Prints "ok", or what is wrong.
#include <dragonn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

enum { kMatrix = 600, kBias = 20, kElements = kMatrix + kBias };

static const uint64_t kMatrixShape[] = {20, 30};
static const uint64_t kBiasShape[] = {20};
static const dragonn_tensor kTensors[] = {{"weight", kMatrixShape, 2}, {"bias", kBiasShape, 1}};
static const char* const kTopk = "[compression]\nmethod = \"topk\"\ndensity = 0.05\n";

#define CHECK(condition)                                                                                        \
  do {                                                                                                          \
    if (!(condition)) {                                                                                         \
      fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n", __FILE__, __LINE__, #condition, dragonn_last_error()); \
      exit(1);                                                                                                  \
    }                                                                                                           \
  } while (0)

static double timeout_s = 60;

static dragonn_status create_of(const char* config, const dragonn_tensor* tensors, uint64_t count,
                                dragonn_exchange_handle** handle) {
  const dragonn_options options = {.size = sizeof options, .config = config};
  return dragonn_create(&options, tensors, count, handle);
}

/// Creates an exchange that waits `timeout_s`, over TCP where the environment has a rendezvous.
static dragonn_exchange_handle* create(const char* keys) {
  dragonn_exchange_handle* handle = NULL;
  const char* const rendezvous = getenv("DRAGONN_TEST_RENDEZVOUS");
  char config[1000];
  const int length = snprintf(config, sizeof config, "%s[comm]\ntimeout_s = %.1f\n", keys, timeout_s);
  if (rendezvous != NULL) {
    snprintf(config + length, sizeof config - (size_t)length, "backend = \"tcp\"\nrendezvous = \"file:%s\"\n", rendezvous);
  }
  CHECK(create_of(config, kTensors, 2, &handle) == DRAGONN_OK);
  CHECK(handle != NULL);
  return handle;
}

/// Returns an integer from -8 to 8 that depends on rank, step and place.
static float value_of(int rank, int step, int place) {
  const uint32_t mixed = ((uint32_t)place * 2654435761u) ^ ((uint32_t)(rank + 7 * step + 1) * 2246822519u);
  return (float)((int)((mixed >> 13) % 17) - 8);
}

static void fill(float* gradient, int rank, int step) {
  for (int i = 0; i < kElements; ++i) gradient[i] = value_of(rank, step, i);
}

static void exchange_is_the_mean(void) {
  dragonn_exchange_handle* handle = create("[compression]\nmethod = \"dense\"\n");
  const int size = dragonn_size(handle);
  float gradient[kElements];
  fill(gradient, dragonn_rank(handle), 0);
  CHECK(dragonn_elements(handle) == kElements);
  CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_OK);
  for (int i = 0; i < kElements; ++i) {
    float sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += value_of(rank, 0, i);
    CHECK(gradient[i] == sum / (float)size);
  }
  dragonn_statistics statistics;
  CHECK(dragonn_get_statistics(handle, &statistics, sizeof statistics) == DRAGONN_OK);
  CHECK(statistics.exchanges == 1);
  CHECK(size == 1 ? statistics.bytes_sent == 0 : statistics.bytes_sent >= 4 * kElements);
  CHECK(statistics.residual_norm == 0);
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
}

/// Integers and their means over a power of two ranks are exact, so all that went in comes out once no residual is left.
static void nothing_is_lost(void) {
  dragonn_exchange_handle* handle = create(kTopk);
  const int size = dragonn_size(handle), steps = 3;
  static double in[kElements], out[kElements];
  float matrix[kMatrix], bias[kBias], gradient[kElements];
  float* const pointers[] = {matrix, bias};
  dragonn_statistics statistics = {0};
  int step = 0;
  for (; step < steps || statistics.residual_norm > 0; ++step) {
    CHECK(step < 200);
    memset(gradient, 0, sizeof gradient);
    if (step < steps) fill(gradient, dragonn_rank(handle), step);
    memcpy(matrix, gradient, sizeof matrix);
    memcpy(bias, gradient + kMatrix, sizeof bias);
    CHECK(dragonn_exchange_tensors(handle, pointers, 2) == DRAGONN_OK);
    for (int i = 0; i < kElements; ++i) {
      for (int rank = 0; rank < size && step < steps; ++rank) in[i] += value_of(rank, step, i);
      out[i] += (i < kMatrix ? matrix[i] : bias[i - kMatrix]) * (double)size;
    }
    CHECK(dragonn_get_statistics(handle, &statistics, sizeof statistics) == DRAGONN_OK);
    CHECK(statistics.entries_selected <= 30);
    CHECK(step > 0 || statistics.residual_norm > 0);
    if (step < steps) continue;
    // The ranks stop together, when none has a residual: they tell each other by a bias, which is exchanged whole.
    memset(matrix, 0, sizeof matrix);
    memset(bias, 0, sizeof bias);
    bias[0] = statistics.residual_norm > 0 ? 1.0f : 0.0f;
    CHECK(dragonn_exchange_tensors(handle, pointers, 2) == DRAGONN_OK);
    for (int i = 0; i < kMatrix; ++i) out[i] += matrix[i] * (double)size;
    statistics.residual_norm = bias[0];
  }
  for (int i = 0; i < kElements; ++i) CHECK(in[i] == out[i]);
  dragonn_tensor_info info;
  CHECK(dragonn_get_tensor_info(handle, 0, &info, sizeof info) == DRAGONN_OK);
  CHECK(info.elements == kMatrix && info.sparsified == 1 && info.momentum_applied == 0);
  CHECK(dragonn_get_tensor_info(handle, 1, &info, sizeof info) == DRAGONN_OK);
  CHECK(info.sparsified == 0);
  CHECK(dragonn_get_tensor_info(handle, 2, &info, sizeof info) == DRAGONN_ERROR_USAGE);
  // A caller with an older header, whose struct is shorter, gets what it knows.
  info.sparsified = 7;
  CHECK(dragonn_get_tensor_info(handle, 0, &info, sizeof info.elements) == DRAGONN_OK);
  CHECK(info.elements == kMatrix && info.sparsified == 7);
  CHECK(dragonn_get_tensor_info(handle, 0, &info, sizeof info + 8) == DRAGONN_ERROR_USAGE);
  CHECK(strstr(dragonn_last_error(), "dragonn_tensor_info has 32 bytes in the caller's header: expected at most 24") != NULL);
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
}

/// Without optimizer.momentum the exchange applies none, so the caller's optimizer may.
static void momentum_is_told(void) {
  dragonn_exchange_handle* handle = create("[compression]\nmethod = \"dgc\"\n");
  dragonn_tensor_info info;
  CHECK(dragonn_get_tensor_info(handle, 0, &info, sizeof info) == DRAGONN_OK && info.sparsified == 1 && info.momentum_applied == 0);
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
}

static void fails(const char* config, dragonn_status expected, const char* text) {
  dragonn_exchange_handle* handle = NULL;
  CHECK(create_of(config, kTensors, 2, &handle) == expected);
  CHECK(handle == NULL);
  CHECK(strstr(dragonn_last_error(), text) != NULL);
}

static void configs_are_checked(void) {
  fails("[compression]\ndensty = 0.1\n", DRAGONN_ERROR_CONFIG, "config:2:1: compression.densty = 0.1: unknown key");
  fails("[compression]\ndensity = 2.0\n", DRAGONN_ERROR_CONFIG, "compression.density = 2.0: expected");
  fails("[train]\nepochs = 3\n", DRAGONN_ERROR_CONFIG, "has no effect on an exchange");
  fails("[compression]\noverlap = true\n", DRAGONN_ERROR_CONFIG, "overlap");
  fails("[compression\n", DRAGONN_ERROR_CONFIG, "config:1:");
  dragonn_exchange_handle* handle = NULL;
  CHECK(create_of("", NULL, 0, &handle) == DRAGONN_ERROR_USAGE);
  const uint64_t empty[] = {3, 0};
  const dragonn_tensor bad = {"bad", empty, 2};
  CHECK(create_of("", &bad, 1, &handle) == DRAGONN_ERROR_USAGE);
  const dragonn_tensor twice[] = {kTensors[0], kTensors[0]};
  CHECK(create_of("", twice, 2, &handle) == DRAGONN_ERROR_USAGE);
  CHECK(create_of("", kTensors, 2, NULL) == DRAGONN_ERROR_USAGE);
  const dragonn_options no_size = {.config = ""};
  CHECK(dragonn_create(&no_size, kTensors, 2, &handle) == DRAGONN_ERROR_USAGE);
}

static void bad_gradients_change_nothing(void) {
  dragonn_exchange_handle* handle = create(kTopk);
  dragonn_exchange_handle* untouched = create(kTopk);
  const int rank = dragonn_rank(handle);
  float gradient[kElements], other[kElements];
  fill(gradient, rank, 0);
  CHECK(dragonn_exchange(handle, gradient, kElements - 1) == DRAGONN_ERROR_USAGE);
  CHECK(strstr(dragonn_last_error(), "619 elements: expected 620") != NULL);
  CHECK(dragonn_exchange(handle, NULL, kElements) == DRAGONN_ERROR_USAGE);
  CHECK(dragonn_exchange(NULL, gradient, kElements) == DRAGONN_ERROR_USAGE);
  if (rank == 0) gradient[7] = NAN;
  CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_ERROR_NON_FINITE);
  CHECK(strstr(dragonn_last_error(), rank == 0 ? "of weight on rank 0" : "of another rank") != NULL);
  CHECK(gradient[8] == value_of(rank, 0, 8));
  for (int step = 0; step < 2; ++step) {
    fill(gradient, rank, step);
    fill(other, rank, step);
    CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_OK);
    CHECK(dragonn_exchange(untouched, other, kElements) == DRAGONN_OK);
    CHECK(memcmp(gradient, other, sizeof gradient) == 0);
  }
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
  CHECK(dragonn_destroy(untouched) == DRAGONN_OK);
}

static void states_come_back(void) {
  static const char* const kDgc =
      "[optimizer]\nmomentum = 0.9\n[compression]\nmethod = \"dgc\"\ndensity = 0.05\ndensity_schedule = \"constant\"\n";
  dragonn_exchange_handle* handle = create(kDgc);
  const int rank = dragonn_rank(handle);
  float gradient[kElements], resumed[kElements];
  for (int step = 0; step < 3; ++step) {
    fill(gradient, rank, step);
    CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_OK);
  }
  uint64_t size = 0;
  CHECK(dragonn_state_size(handle, &size) == DRAGONN_OK);
  unsigned char* const state = malloc(size);
  CHECK(dragonn_state_save(handle, state, size - 1) == DRAGONN_ERROR_USAGE);
  CHECK(dragonn_state_save(handle, state, size) == DRAGONN_OK);

  dragonn_exchange_handle* second = create(kDgc);
  CHECK(dragonn_state_load(second, state, size) == DRAGONN_OK);
  dragonn_tensor_info info;
  CHECK(dragonn_get_tensor_info(second, 0, &info, sizeof info) == DRAGONN_OK && info.momentum_applied == 1 && info.momentum == 0.9f);
  CHECK(dragonn_get_tensor_info(second, 1, &info, sizeof info) == DRAGONN_OK && info.momentum_applied == 0);
  for (int step = 3; step < 6; ++step) {
    fill(gradient, rank, step);
    fill(resumed, rank, step);
    CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_OK);
    CHECK(dragonn_exchange(second, resumed, kElements) == DRAGONN_OK);
    CHECK(memcmp(gradient, resumed, sizeof gradient) == 0);
  }
  dragonn_statistics statistics;
  CHECK(dragonn_get_statistics(second, &statistics, sizeof statistics) == DRAGONN_OK);
  CHECK(statistics.exchanges == 6);

  state[size / 2] ^= 1;
  CHECK(dragonn_state_load(second, state, size) == DRAGONN_ERROR_STATE);
  CHECK(strstr(dragonn_last_error(), "damaged") != NULL);
  state[size / 2] ^= 1;
  CHECK(dragonn_state_load(second, state, size - 3) == DRAGONN_ERROR_STATE);
  CHECK(dragonn_destroy(second) == DRAGONN_OK);
  dragonn_exchange_handle* another = create(kTopk);
  CHECK(dragonn_state_load(another, state, size) == DRAGONN_ERROR_STATE);
  CHECK(strstr(dragonn_last_error(), "of another config: ") != NULL);
  CHECK(dragonn_destroy(another) == DRAGONN_OK);
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
  free(state);
}

/// A forked child has no thread of the handle's: it gets errors instead of waiting, and its parent's handle stays as it is.
static void children_are_refused(void) {
  dragonn_exchange_handle* handle = create(kTopk);
  dragonn_exchange_handle* untouched = create(kTopk);
  const int rank = dragonn_rank(handle);
  float gradient[kElements], other[kElements];
  fill(gradient, rank, 0);
  fill(other, rank, 0);
  uint64_t size = 0;
  CHECK(dragonn_state_size(handle, &size) == DRAGONN_OK);
  unsigned char* const state = malloc(size);
  CHECK(dragonn_state_save(handle, state, size) == DRAGONN_OK);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);  // an end where a call waits
    float* const pointers[] = {gradient, gradient + kMatrix};
    dragonn_tensor_info info;
    dragonn_statistics statistics;
    CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_ERROR_USAGE);
    CHECK(strstr(dragonn_last_error(), "which forked this process") != NULL);
    CHECK(dragonn_exchange_tensors(handle, pointers, 2) == DRAGONN_ERROR_USAGE);
    CHECK(dragonn_get_tensor_info(handle, 0, &info, sizeof info) == DRAGONN_ERROR_USAGE);
    CHECK(dragonn_set_learning_rate(handle, 0.1) == DRAGONN_ERROR_USAGE);
    CHECK(dragonn_get_statistics(handle, &statistics, sizeof statistics) == DRAGONN_ERROR_USAGE);
    CHECK(dragonn_state_size(handle, &size) == DRAGONN_ERROR_USAGE);
    CHECK(dragonn_state_save(handle, state, size) == DRAGONN_ERROR_USAGE);
    CHECK(dragonn_state_load(handle, state, size) == DRAGONN_ERROR_USAGE);
    dragonn_abort(handle, "a child ends");
    CHECK(dragonn_destroy(handle) == DRAGONN_ERROR_USAGE);
    dragonn_exchange_handle* own = NULL;
    CHECK(create_of("[comm]\nbackend = \"local\"\n", kTensors, 2, &own) == DRAGONN_OK);
    CHECK(dragonn_exchange(own, gradient, kElements) == DRAGONN_OK);
    CHECK(dragonn_destroy(own) == DRAGONN_OK);
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL) {
      CHECK(create_of("comm.backend = \"mpi\"\n", kTensors, 2, &own) == DRAGONN_ERROR_CONFIG);
      CHECK(strstr(dragonn_last_error(), "which forked this process") != NULL);
    }
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_OK);
  CHECK(dragonn_exchange(untouched, other, kElements) == DRAGONN_OK);
  CHECK(memcmp(gradient, other, sizeof gradient) == 0);
  CHECK(dragonn_destroy(handle) == DRAGONN_OK);
  CHECK(dragonn_destroy(untouched) == DRAGONN_OK);
  free(state);
}

static void count_line(dragonn_log_level level, const char* line, void* user) {
  (void)level;
  (void)line;
  ++*(int*)user;
}

/// "exchange --late": rank 1 never exchanges, and rank 0 gets an error at its deadline instead of waiting for ever.
static int wait_for_nobody(void) {
  timeout_s = 5;
  dragonn_exchange_handle* handle = create("");
  float gradient[kElements] = {0};
  if (dragonn_rank(handle) == 1) {
    // Ends with rank 0's answer: its notice over TCP, or its process over MPI. Its own deadline is the later one.
    thrd_sleep(&(struct timespec){.tv_sec = 2}, NULL);
    const dragonn_status ended = dragonn_destroy(handle);
    return ended == DRAGONN_OK ? 1 : 0;
  }
  const dragonn_status late = dragonn_exchange(handle, gradient, kElements);
  CHECK(late == DRAGONN_ERROR_TIMEOUT || late == DRAGONN_ERROR_COMMUNICATION);
  CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_ERROR_COMMUNICATION);
  printf("late: %s\n", dragonn_last_error());
  dragonn_abort(handle, "the other rank was late");
  return 0;
}

/// "exchange --fault": an error of one rank in its exchange, which the environment injects, ends the group for all.
static int fail_on_a_rank(void) {
  dragonn_exchange_handle* handle = create(kTopk);
  float gradient[kElements] = {0};
  dragonn_status status = DRAGONN_OK;
  for (int step = 0; step < 3 && status == DRAGONN_OK; ++step) status = dragonn_exchange(handle, gradient, kElements);
  CHECK(status == DRAGONN_ERROR_COMMUNICATION);
  CHECK(strstr(dragonn_last_error(), "exchange 2 failed on rank 1: ") != NULL);
  CHECK(dragonn_exchange(handle, gradient, kElements) == DRAGONN_ERROR_COMMUNICATION);
  CHECK(dragonn_destroy(handle) == DRAGONN_ERROR_COMMUNICATION);
  printf("failed\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--late") == 0) return wait_for_nobody();
  if (argc > 1 && strcmp(argv[1], "--fault") == 0) return fail_on_a_rank();
  int lines = 0;
  CHECK(dragonn_version()[0] != '\0');
  CHECK(dragonn_set_log(count_line, &lines) == DRAGONN_OK);
  configs_are_checked();
  exchange_is_the_mean();
  nothing_is_lost();
  momentum_is_told();
  bad_gradients_change_nothing();
  states_come_back();
  children_are_refused();
  CHECK(dragonn_set_log(NULL, NULL) == DRAGONN_OK);
  CHECK(dragonn_destroy(NULL) == DRAGONN_OK);
  printf("ok\n");
  return 0;
}
