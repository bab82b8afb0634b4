// SPDX-License-Identifier: MIT
/// Launcher: what mpirun or srun says of this process, before MPI is initialized.
#pragma once

#include <optional>
#include <string>

namespace dragonn::comm {

/// A process that a launcher started as one of several.
struct Launcher {
  std::string name;  ///< "mpirun", "PMIx", "PMI", "srun"
  int rank = 0;
  int size = 0;  ///< 0 where the launcher does not say
};

/// Reads the environment: OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK, or a step of srun (SLURM_STEP_ID and
/// SLURM_STEP_NUM_TASKS). Empty in a plain shell, also in a batch script outside of srun.
std::optional<Launcher> detect_launcher();

/// Whether the processes of this run are workers that talk by MPI.
inline bool launched_by_mpi() {
  return detect_launcher().has_value();
}

}  // namespace dragonn::comm
