// SPDX-License-Identifier: MIT
#include "comm/machine.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "comm/launcher.h"
#include "core/hash.h"

namespace dragonn::comm {
namespace {

using HostName = std::array<char, 256>;

HostName own_name() {
  HostName name{};
  ::gethostname(name.data(), name.size() - 1);
  return name;
}

/// Identifies a process, also across machines and containers.
struct Identity {
  std::uint64_t machine = 0;  ///< 0: unknown
  std::int64_t process = 0;
};

/// Returns a hash that processes share if process ids mean the same to them: same boot, same pid namespace.
std::uint64_t hash_of_machine() {
  std::error_code failed;
  const std::string numbering = std::filesystem::read_symlink("/proc/self/ns/pid", failed).string();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (numbering.empty() || boot.empty()) return 0;
  const std::string both = boot + numbering;
  return hash_bytes(std::as_bytes(std::span(both)));
}

/// State of a process, as the kernel tells it.
struct Status {
  char state = 'X';  ///< its letter: 'R', 'S', 'T' for stopped, 'Z' for ended, ...; 'X' if there is no such process
  std::int64_t parent = 0;
};

Status status_of(std::int64_t process) {
  std::string text;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), text);
  const std::size_t name_end = text.rfind(") ");  // the name may hold anything
  if (name_end == std::string::npos) return {};
  Status status;
  std::istringstream(text.substr(name_end + 2)) >> status.state >> status.parent;
  return status;
}

bool is_stopped(const Status& status) {
  return status.state == 'T' || status.state == 't';
}

}  // namespace

std::string host_name() {
  return own_name().data();
}

Nodes find_nodes(Communicator& communicator) {
  const HostName mine = own_name();
  std::vector<HostName> names(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const HostName>(&mine, 1), std::span<HostName>(names));
  std::vector<int> node_of;
  for (const HostName& name : names) {
    node_of.push_back(static_cast<int>(std::ranges::find(names, name) - names.begin()));
  }
  return Nodes(node_of);
}

PlaceOnMachine place_on_machine(Communicator& communicator) {
  const Nodes nodes = find_nodes(communicator);
  const int rank = communicator.rank();
  return {.rank = nodes.place_of(rank), .ranks = static_cast<int>(nodes.ranks_of(nodes.node_of(rank)).size())};
}

int first_rank_elsewhere(Communicator& communicator) {
  const Nodes nodes = find_nodes(communicator);
  return nodes.count() == 1 ? 1 : nodes.ranks_of(1).front();
}

PeerProcesses::PeerProcesses(Communicator& communicator) {
  const Identity mine{hash_of_machine(), ::getpid()};
  std::vector<Identity> all(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const Identity>(&mine, 1), std::span<Identity>(all));
  if (mine.machine == 0) return;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const Identity& other = all[static_cast<std::size_t>(rank)];
    if (rank != communicator.rank() && other.machine == mine.machine) processes_.push_back({rank, other.process});
  }
}

std::string PeerProcesses::who_ended() const {
  for (const Process& process : processes_) {
    const char state = status_of(process.id).state;
    if (state == 'Z' || state == 'X') return name(process.rank) + " has ended";
  }
  return "";
}

std::string PeerProcesses::name(int rank) const {
  const auto process = std::ranges::find(processes_, rank, &Process::rank);
  return process == processes_.end() ? fmt::format("rank {}", rank)
                                     : fmt::format("process {} of rank {}", process->id, rank);
}

std::string PeerProcesses::who_is_gone() const {
  for (const Process& process : processes_) {
    if (is_stopped(status_of(process.id))) return name(process.rank) + " is stopped";
  }
  return who_ended();
}

std::string stopped_sibling() {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const Status status = status_of(std::stoll(name));
    if (status.parent != ::getppid() || !is_stopped(status)) continue;
    const auto rank = launched_rank(std::stoll(name));
    return rank ? fmt::format("process {} of rank {} is stopped", name, *rank)
                : fmt::format("process {} is stopped", name);
  }
  return "";
}

}  // namespace dragonn::comm
