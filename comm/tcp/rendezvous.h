// SPDX-License-Identifier: MIT
/// Rendezvous: where the processes of a run meet that no MPI brings together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "comm/tcp/address.h"

namespace dragonn::comm {

/// An address that rank 0 listens on, or a file in which it says where.
struct Rendezvous {
  HostAndPort address = {};         ///< used where there is no file
  std::filesystem::path file = {};  ///< seen by all ranks, or empty
  /// Tells the runs apart that may meet at one place; 0 if nobody says.
  std::uint64_t run = 0;

  bool by_file() const { return !file.empty(); }
  /// Whether all ranks are on one machine.
  bool is_loopback() const;
  /// "10.0.0.1:4000", "the file /home/me/meet".
  std::string text() const;
};

/// "tcp:HOST:PORT", or "file:PATH"; in a folder the file is PATH/dragonn-rendezvous. The run is that of the launcher.
/// @throws ConfigError saying what is expected.
Rendezvous parse_rendezvous(const std::string& text);

/// As parse_rendezvous; "" takes it from the environment: MASTER_ADDR and MASTER_PORT, or in a step of srun its first
/// host and the port slurm_port(). @throws ConfigError saying what to set if there is neither.
Rendezvous find_rendezvous(const std::string& text);

/// The port of a step of Slurm: 20000 to 29999, below those that the system gives away. Two steps that share a host
/// seldom have the same one.
std::uint16_t slurm_port(const std::string& job, const std::string& step);

}  // namespace dragonn::comm
