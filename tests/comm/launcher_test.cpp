// SPDX-License-Identifier: MIT
#include "comm/launcher.h"

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "tests/comm/scoped_environment.h"

namespace dragonn::comm::test {

TEST_SUITE("comm") {
  TEST_CASE("a plain shell has no launcher") {
    const ScopedEnvironment environment({});
    CHECK_FALSE(launched_by_mpi());
  }

  TEST_CASE("mpirun, PMI and srun are recognized with rank and size") {
    struct Example {
      std::map<std::string, std::string> variables;
      std::string name;
    };
    const Example examples[] = {
        {{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "mpirun"},
        {{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}, "PMI"},
        {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}}, "srun"},
    };
    for (const Example& example : examples) {
      const ScopedEnvironment environment(example.variables);
      const auto launcher = detect_launcher();
      REQUIRE(launcher.has_value());
      CHECK(launcher->name == example.name);
      CHECK(launcher->rank == 2);
      CHECK(launcher->size == 4);
    }
  }

  TEST_CASE("a batch script of Slurm is not a launched worker") {
    CHECK_FALSE([] {
      const ScopedEnvironment environment({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
      return launched_by_mpi();
    }());
    CHECK_FALSE([] {
      const ScopedEnvironment environment(
          {{"SLURM_STEP_ID", "4294967291"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}});
      return launched_by_mpi();
    }());
  }
}

}  // namespace dragonn::comm::test
