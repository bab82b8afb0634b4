// SPDX-License-Identifier: MIT
/// Launcher: what mpirun, srun or the environment says about this process, before it has contacted any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dragonn::comm {

/// A process that a launcher started as one of several.
struct Launcher {
  std::string name;  ///< "mpirun", "PMIx", "PMI", "srun"; "the environment"
  int rank = 0;
  int size = 0;                    ///< 0 if the launcher does not say
  std::string rank_variable = {};  ///< the environment variable that gives the rank
};

/// Reads the environment: OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK, or a step of srun (SLURM_STEP_ID and
/// SLURM_STEP_NUM_TASKS). Returns nothing in a plain shell, nor in a batch script outside of srun.
std::optional<Launcher> detect_launcher();

/// Detects rank and size for backends that need no MPI. RANK and WORLD_SIZE, as torchrun or a shell sets them, take
/// precedence over the launcher's variables, since the launcher then started what set them.
std::optional<Launcher> detect_process();

/// Returns the rank that this process's launcher gave another process of this machine; nothing if it started none such.
std::optional<int> launched_rank(std::int64_t process);

/// Returns whether srun started this process (and not a batch script of Slurm).
bool in_srun_step();

/// Returns whether the processes of this run are ranks that communicate by MPI.
inline bool launched_by_mpi() {
  return detect_launcher().has_value();
}

}  // namespace dragonn::comm
