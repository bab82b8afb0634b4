// SPDX-License-Identifier: MIT
#include "comm/tcp/rendezvous.h"

#include <cstdlib>
#include <random>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "comm/launcher.h"
#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/printable.h"

namespace dragonn::comm {
namespace {

constexpr const char* kTitle = "dragonn rendezvous 1";
constexpr const char* kEnd = "end";

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::uint64_t hash_of(const std::string& text) {
  return hash_bytes(std::as_bytes(std::span(text)));
}

/// Returns a number for this run, derived from the launcher's name for it (a Slurm step, a torchrun id).
std::uint64_t run_of_launcher() {
  const std::string step = in_srun_step() ? variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID") : "";
  const std::string run = variable("TORCHELASTIC_RUN_ID");
  return step.empty() && run.empty() ? 0 : hash_of(step + "/" + run);
}

Rendezvous at(HostAndPort address) {
  return {.address = std::move(address), .run = run_of_launcher()};
}

std::optional<Rendezvous> from_master_variables() {
  const std::string host = variable("MASTER_ADDR");
  const std::string port = variable("MASTER_PORT");
  if (host.empty() && port.empty()) return std::nullopt;
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  const auto address =
      parse_host_and_port(fmt::format("{0}{1}{2}:{3}", bare_ipv6 ? "[" : "", host, bare_ipv6 ? "]" : "", port));
  if (!address)
    throw ConfigError(fmt::format(
        "MASTER_ADDR='{}' and MASTER_PORT='{}' name no rendezvous: expected a host and a port from 1 to 65535",
        excerpt(host), excerpt(port)));
  return at(*address);
}

std::optional<Rendezvous> from_slurm() {
  if (!in_srun_step()) return std::nullopt;
  const std::string list = variable("SLURM_STEP_NODELIST");
  const std::string host = first_host(list);
  if (host.empty())
    throw ConfigError(
        fmt::format("SLURM_STEP_NODELIST='{}' names no host for the rendezvous: set comm.rendezvous", excerpt(list)));
  return at({host, slurm_port(variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID"))});
}

}  // namespace

bool Rendezvous::is_loopback() const {
  if (by_file()) return false;
  const auto number = parse_address(address.text());
  return address.host == "localhost" || (number && number->is_loopback());
}

std::string Rendezvous::text() const {
  return by_file() ? fmt::format("the file {}", file.string()) : address.text();
}

std::uint64_t random_token() {
  std::random_device source;
  const std::uint64_t high = source();
  return (high << 32U | source()) | 1U;  // 0 is no token
}

SocketResult listen_at(const Rendezvous& place) {
  if (!place.is_loopback()) return listen_everywhere(place.by_file() ? std::uint16_t{0} : place.address.port);
  SocketResult door;
  const std::vector<Address> addresses = resolve(place.address, door.problem);
  return addresses.empty() ? std::move(door) : listen_on(addresses.front());
}

Rendezvous parse_rendezvous(const std::string& text) {
  constexpr std::string_view kTcp = "tcp:", kFile = "file:";
  if (text.starts_with(kTcp)) {
    if (auto address = parse_host_and_port(std::string_view(text).substr(kTcp.size()))) return at(std::move(*address));
  }
  if (text.starts_with(kFile) && text.size() > kFile.size()) {
    const std::filesystem::path path(text.substr(kFile.size()));
    std::error_code unknown;  // the rank that reads or writes there says why it cannot
    return {.file = std::filesystem::is_directory(path, unknown) ? path / "dragonn-rendezvous" : path,
            .run = run_of_launcher()};
  }
  throw ConfigError(
      fmt::format("comm.rendezvous = \"{}\": expected \"tcp:HOST:PORT\" with a port from 1 to 65535, or "
                  "\"file:PATH\" of a file that all ranks see",
                  excerpt(text)));
}

Rendezvous find_rendezvous(const std::string& text) {
  if (!text.empty()) return parse_rendezvous(text);
  if (auto rendezvous = from_master_variables()) return *rendezvous;
  if (auto rendezvous = from_slurm()) return *rendezvous;
  throw ConfigError(
      "the ranks have no rendezvous: set comm.rendezvous to \"tcp:HOST:PORT\" or \"file:PATH\", or MASTER_ADDR and "
      "MASTER_PORT in the environment");
}

std::uint16_t slurm_port(const std::string& job, const std::string& step) {
  constexpr std::uint64_t kFirst = 20000, kPorts = 10000;
  return static_cast<std::uint16_t>(kFirst + hash_of(job + "." + step) % kPorts);
}

std::string first_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() == ']') return "";
    if (list.front() != '[') {
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    const std::size_t end = list.find(']');
    if (end == std::string_view::npos) return "";
    const std::string_view ranges = list.substr(1, end - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of(",-"));
    if (first.empty() || first.find_first_not_of("0123456789") != std::string_view::npos) return "";
    host += first;
    list.remove_prefix(end + 1);
  }
  return host;
}

std::optional<RendezvousFile> RendezvousFile::read(const std::filesystem::path& path) {
  std::istringstream lines;
  try {
    constexpr std::size_t kMaxBytes = std::size_t{1} << 16;
    lines.str(read_text_file(path, kMaxBytes));
  } catch (const MissingFileError&) {
    return std::nullopt;
  } catch (const DataError&) {
    return std::nullopt;  // longer than any that this program writes
  }
  std::string line;
  if (!std::getline(lines, line) || line != kTitle) return std::nullopt;
  RendezvousFile file;
  std::string word;
  lines >> word >> std::hex >> file.token;
  if (word != "token" || !lines) return std::nullopt;
  while (lines >> word) {
    if (word == kEnd) return file;
    const auto address = parse_address(word);
    if (!address) return std::nullopt;
    file.addresses.push_back(*address);
  }
  return std::nullopt;
}

PublishedFile::PublishedFile(std::filesystem::path path, const RendezvousFile& file)
    : path_(std::move(path)), token_(file.token) {
  std::string text = fmt::format("{}\ntoken {}\n", kTitle, hash_text(file.token));
  for (const Address& address : file.addresses) text += address.text() + '\n';
  write_file_atomically(path_, fmt::format("{}{}\n", text, kEnd));
}

PublishedFile::~PublishedFile() {
  std::error_code ignored;  // a file that stays does no harm
  if (still_there()) std::filesystem::remove(path_, ignored);
}

bool PublishedFile::still_there() const {
  try {
    const auto found = RendezvousFile::read(path_);
    return found && found->token == token_;
  } catch (const Error&) {
    return false;  // something else is there
  }
}

}  // namespace dragonn::comm
