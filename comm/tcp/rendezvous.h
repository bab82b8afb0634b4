// SPDX-License-Identifier: MIT
/// Rendezvous: the place where processes without MPI find each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/tcp/socket.h"

namespace dragonn::comm {

/// An address on which rank 0 listens, or a file in which rank 0 writes its address.
struct Rendezvous {
  HostAndPort address = {};         ///< used if there is no file
  std::filesystem::path file = {};  ///< a path that all ranks can read, or empty
  /// A number that tells apart runs with the same rendezvous; 0 if the launcher gives none.
  std::uint64_t run = 0;

  bool by_file() const { return !file.empty(); }
  /// Returns whether the address is a loopback address, so that all ranks are on one machine.
  bool is_loopback() const;
  /// Returns the place as text: "10.0.0.1:4000", "the file /home/me/rendezvous".
  std::string text() const;
};

/// Parses "tcp:HOST:PORT" or "file:PATH"; if PATH is a folder, the file is PATH/dragonn-rendezvous. Sets `run` from the
/// launcher's environment. @throws ConfigError saying what is expected.
Rendezvous parse_rendezvous(const std::string& text);

/// Parses `text`. If `text` is empty, the environment gives the rendezvous: MASTER_ADDR and MASTER_PORT, or in a Slurm
/// step its first host and slurm_port(). @throws ConfigError saying what to set if there is neither.
Rendezvous find_rendezvous(const std::string& text);

/// Returns the port of a Slurm step: 20000 to 29999, below the ports that the system assigns. Two steps on one host
/// seldom have the same port.
std::uint16_t slurm_port(const std::string& job, const std::string& step);

/// Returns the first host of a list in Slurm's compressed form: "n01" for "n[01-03,07],gpu2", "r1n08" for
/// "r[1-2]n[08-09]". Empty if the list is malformed.
std::string first_host(std::string_view list);

/// The content of a rendezvous file. docs/formats.md specifies the format.
struct RendezvousFile {
  std::uint64_t token = 0;  ///< drawn for this run: the coordinator recognizes ranks that read an older file
  std::vector<Address> addresses = {};

  /// Reads a file. Returns nothing if there is none, or an incomplete one. Never waits for what is there instead.
  /// @throws ConfigError if that is no regular file; SystemError if it cannot be read.
  static std::optional<RendezvousFile> read(const std::filesystem::path& path);
  bool operator==(const RendezvousFile&) const = default;
};

/// Draws a token, which is not 0.
std::uint64_t random_token();

/// Listens where the others look for this process: at the address, or at a free port that the file will name.
SocketResult listen_at(const Rendezvous& place);

/// A rendezvous file on disk; the destructor removes it.
class PublishedFile {
 public:
  /// Writes the file, over any that an earlier run left. @throws SystemError if it cannot be written,
  /// ConfigError if something else than a file is there.
  PublishedFile(std::filesystem::path path, const RendezvousFile& file);
  /// Removes the file if it still is this one.
  ~PublishedFile();
  PublishedFile(const PublishedFile&) = delete;
  PublishedFile& operator=(const PublishedFile&) = delete;

  /// Returns whether the file is still this one: nobody replaced or removed it.
  bool still_there() const;

 private:
  std::filesystem::path path_;
  std::uint64_t token_;
};

}  // namespace dragonn::comm
