// SPDX-License-Identifier: MIT
/// The MPI backend of a build without MPI (DRAGONN_MPI=OFF).
#include "comm/mpi/mpi.h"
#include "core/error.h"

namespace dragonn::comm {
namespace {

[[noreturn]] void refuse() {
  throw ConfigError("comm.backend = \"mpi\": this build has no MPI (DRAGONN_MPI=OFF): expected \"tcp\" or \"local\"");
}

}  // namespace

void run_mpi(const MpiOptions&, const std::function<void(Communicator&)>&) {
  refuse();
}

void run_hosted_mpi(const MpiOptions&, const std::function<void(Communicator&)>&) {
  refuse();
}

bool has_mpi() {
  return false;
}

}  // namespace dragonn::comm
