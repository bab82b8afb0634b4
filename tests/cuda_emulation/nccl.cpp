// SPDX-License-Identifier: MIT
// NCCL's calls that this project makes, between threads of one process, each with a GPU of its own. As there, a group's
// operations are one piece of work on a stream: it ends when all that its operations need of other ranks is there, and
// until then the stream stands still. Sums are in rank order. A mistake ends the program: NCCL would hang.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/stream.h"

namespace {

using dragonn::emulation::device_mutex;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what);
  std::abort();
}

enum class Kind { kSum, kBroadcast, kSend, kReceive };

/// One rank's part of one call.
struct Operation {
  Kind kind;
  const std::byte* source;
  std::byte* target;
  std::size_t bytes;
  int peer;  ///< the other rank of a message, or the root
  bool posted = false;
  bool done = false;
};

/// The same call of all ranks.
struct Collective {
  std::vector<std::shared_ptr<Operation>> by_rank;
  int joined = 0;
};

/// The state that the ranks of one communicator share.
struct Group {
  explicit Group(int ranks) : size(ranks), collectives_asked(static_cast<std::size_t>(ranks)) {}

  int size;
  int joined = 0;
  std::vector<int> devices;
  std::map<std::uint64_t, Collective> collectives;                                 // by number
  std::vector<std::uint64_t> collectives_asked;                                    // by rank
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Operation>>> messages;  // sent, by source and destination
};

void add_up(Collective& collective) {
  std::vector<float> sum(collective.by_rank.front()->bytes / sizeof(float));
  for (const auto& own : collective.by_rank)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += reinterpret_cast<const float*>(own->source)[i];
  for (const auto& own : collective.by_rank) std::memcpy(own->target, sum.data(), own->bytes);
}

void complete(Collective& collective) {
  const Operation& first = *collective.by_rank.front();
  for (const auto& own : collective.by_rank)
    if (own->kind != first.kind || own->bytes != first.bytes || own->peer != first.peer)
      die("ranks call different collectives");
  if (first.kind == Kind::kSum) {
    add_up(collective);
  } else {
    const Operation& root = *collective.by_rank[static_cast<std::size_t>(first.peer)];
    for (const auto& own : collective.by_rank) std::memmove(own->target, root.source, own->bytes);
  }
  for (const auto& own : collective.by_rank) own->done = true;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank;
  bool aborted = false;

  void join(const std::shared_ptr<Operation>& operation) {
    const std::uint64_t number = group->collectives_asked[static_cast<std::size_t>(rank)]++;
    Collective& collective = group->collectives[number];
    collective.by_rank.resize(static_cast<std::size_t>(group->size));
    collective.by_rank[static_cast<std::size_t>(rank)] = operation;
    if (++collective.joined < group->size) return;
    complete(collective);
    group->collectives.erase(number);
  }
  void receive(const std::shared_ptr<Operation>& operation) {
    auto& queue = group->messages[{operation->peer, rank}];
    if (queue.empty()) return;
    if (queue.front()->bytes != operation->bytes) die("a message of another size than its receiver expects");
    std::memcpy(operation->target, queue.front()->source, operation->bytes);
    queue.front()->done = operation->done = true;
    queue.pop_front();
  }
};

namespace {

/// A group of calls, as work on a stream.
struct Call {
  std::shared_ptr<ncclComm> comm;
  std::vector<std::shared_ptr<Operation>> operations;

  /// Returns whether all of it is done.
  bool operator()() {
    if (comm->aborted) return true;
    for (const auto& operation : operations) {
      if (operation->done) continue;
      if (operation->kind == Kind::kReceive) comm->receive(operation);
      if (std::exchange(operation->posted, true)) continue;
      if (operation->kind == Kind::kSend) comm->group->messages[{comm->rank, operation->peer}].push_back(operation);
      if (operation->kind == Kind::kSum || operation->kind == Kind::kBroadcast) comm->join(operation);
    }
    return std::ranges::all_of(operations, [](const auto& operation) { return operation->done; });
  }
};

std::map<ncclComm_t, std::shared_ptr<ncclComm>>& communicators() {
  static std::map<ncclComm_t, std::shared_ptr<ncclComm>> all;
  return all;
}
std::map<std::string, std::shared_ptr<Group>>& groups() {
  static std::map<std::string, std::shared_ptr<Group>> all;
  return all;
}

std::shared_ptr<ncclComm> handle_of(ncclComm_t comm) {
  const std::scoped_lock lock(device_mutex());
  return communicators().at(comm);
}

thread_local int open_groups = 0;
thread_local bool open_group_failed = false;  // one of its calls did: none of them starts
thread_local Call waiting;
thread_local cudaStream_t waiting_stream = nullptr;

void submit() {
  if (waiting.operations.empty()) return;
  dragonn::emulation::enqueue(waiting_stream, std::exchange(waiting, {}));
}

ncclResult_t ask(ncclComm_t comm, cudaStream_t stream, const Operation& operation) {
  waiting.comm = handle_of(comm);
  if (operation.peer < 0 || operation.peer >= waiting.comm->group->size) {
    open_group_failed = open_groups > 0;
    return ncclInvalidArgument;
  }
  waiting_stream = stream;
  waiting.operations.push_back(std::make_shared<Operation>(operation));
  if (open_groups == 0) submit();
  return ncclSuccess;
}

std::size_t bytes_of(std::size_t count, ncclDataType_t type) {
  if (type == ncclUint8) return count;
  if (type == ncclFloat32) return count * sizeof(float);
  die("a type that this project does not use");
}

const std::byte* bytes(const void* memory) {
  return static_cast<const std::byte*>(memory);
}
std::byte* bytes(void* memory) {
  return static_cast<std::byte*>(memory);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int count = 0;
  const std::scoped_lock lock(device_mutex());
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "group %d", ++count);
  return ncclSuccess;
}

// The communicator does not block: the others may join later.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  if (open_groups > 0) die("a communicator that is made inside of a group");
  int device = 0;
  cudaGetDevice(&device);
  const std::scoped_lock lock(device_mutex());
  std::shared_ptr<Group>& group = groups()[id.internal];
  if (group == nullptr) group = std::make_shared<Group>(size);
  if (std::ranges::count(group->devices, device) > 0) return ncclInvalidUsage;
  group->devices.push_back(device);
  auto own = std::make_shared<ncclComm>(ncclComm{group, rank});
  *comm = own.get();
  communicators()[*comm] = own;
  if (++group->joined == size) groups().erase(id.internal);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::shared_ptr<ncclComm> own = handle_of(comm);
  const std::scoped_lock lock(device_mutex());
  *state = own->group->joined < own->group->size ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::scoped_lock lock(device_mutex());
  communicators().erase(comm);
  return ncclSuccess;
}
// This rank's waits end; the others wait on.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (open_groups > 0) die("a communicator that is aborted inside of a group");
  const std::scoped_lock lock(device_mutex());
  communicators().at(comm)->aborted = true;
  communicators().erase(comm);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "an error of the emulation";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--open_groups > 0) return ncclSuccess;
  if (std::exchange(open_group_failed, false)) {
    waiting = {};
    return ncclInvalidArgument;
  }
  submit();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* source, void* target, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {Kind::kSum, bytes(source), bytes(target), bytes_of(count, type), 0});
}
ncclResult_t ncclBroadcast(const void* source, void* target, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {Kind::kBroadcast, bytes(source), bytes(target), bytes_of(count, type), root});
}
ncclResult_t ncclSend(const void* source, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return ask(comm, stream, {Kind::kSend, bytes(source), nullptr, bytes_of(count, type), peer});
}
ncclResult_t ncclRecv(void* target, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return ask(comm, stream, {Kind::kReceive, nullptr, bytes(target), bytes_of(count, type), peer});
}
}
