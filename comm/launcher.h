// SPDX-License-Identifier: MIT
/// Launcher: what mpirun, srun or the environment says of this process, before any rank was met.
#pragma once

#include <optional>
#include <string>

namespace dragonn::comm {

/// A process that a launcher started as one of several.
struct Launcher {
  std::string name;  ///< "mpirun", "PMIx", "PMI", "srun"; "the environment"
  int rank = 0;
  int size = 0;  ///< 0 where the launcher does not say
};

/// Reads the environment: OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK, or a step of srun (SLURM_STEP_ID and
/// SLURM_STEP_NUM_TASKS). Empty in a plain shell, also in a batch script outside of srun.
std::optional<Launcher> detect_launcher();

/// As detect_launcher for ranks that need no MPI: also RANK and WORLD_SIZE, as torchrun or a shell set them, which come
/// first where both are set, since the launcher then started what set them.
std::optional<Launcher> detect_process();

/// Whether srun started this process (and not a batch script of Slurm).
bool in_srun_step();

/// Whether the processes of this run are workers that talk by MPI.
inline bool launched_by_mpi() {
  return detect_launcher().has_value();
}

}  // namespace dragonn::comm
