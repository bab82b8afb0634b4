// SPDX-License-Identifier: MIT
#include "comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace dragonn::comm {
namespace {

std::optional<std::int64_t> number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> environment_number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : number(text);
}

std::optional<Launcher> launcher_from(const char* name, const char* rank_variable, const char* size_variable) {
  const auto rank = environment_number(rank_variable);
  const auto size = environment_number(size_variable);
  if (!rank) return std::nullopt;
  return Launcher{name, static_cast<int>(*rank), static_cast<int>(size.value_or(0)), rank_variable};
}

/// Slurm's own steps have numbers from here on: the batch script, an interactive allocation.
constexpr std::int64_t kFirstSpecialSlurmStep = 0xfffffff0;

}  // namespace

bool in_srun_step() {
  const auto step = environment_number("SLURM_STEP_ID");
  return step && *step < kFirstSpecialSlurmStep && environment_number("SLURM_STEP_NUM_TASKS");
}

std::optional<Launcher> detect_launcher() {
  if (auto launcher = launcher_from("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) return launcher;
  if (in_srun_step()) return launcher_from("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  if (auto launcher = launcher_from("PMI", "PMI_RANK", "PMI_SIZE")) return launcher;
  return launcher_from("PMIx", "PMIX_RANK", "PMIX_SIZE");
}

std::optional<int> launched_rank(std::int64_t process) {
  const auto launcher = detect_launcher();
  if (!launcher) return std::nullopt;
  std::ifstream environment("/proc/" + std::to_string(process) + "/environ");
  for (std::string entry; std::getline(environment, entry, '\0');) {
    if (!entry.starts_with(launcher->rank_variable + "=")) continue;
    const auto rank = number(std::string_view(entry).substr(launcher->rank_variable.size() + 1));
    return rank ? std::optional(static_cast<int>(*rank)) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Launcher> detect_process() {
  const auto process = launcher_from("the environment", "RANK", "WORLD_SIZE");
  return process && process->size > 0 ? process : detect_launcher();
}

}  // namespace dragonn::comm
