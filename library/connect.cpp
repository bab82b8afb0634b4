// SPDX-License-Identifier: MIT
#include "library/connect.h"

#include <cstdlib>
#include <limits>
#include <unistd.h>

#include <fmt/format.h>

#include "comm/launcher.h"
#include "comm/local/local.h"
#include "comm/mpi/mpi.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/tcp.h"
#include "core/error.h"

namespace dragonn::library {
namespace {

using trainer::Backend;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

bool in_torchrun() {
  return std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
}

Backend choose_backend(Backend wanted) {
  if (wanted != Backend::kAuto) return wanted;
  // torchrun comes first: mpirun or srun may have started it, once on each host.
  if (in_torchrun()) return Backend::kTcp;
  if (comm::launched_by_mpi()) return Backend::kMpi;
  return comm::detect_process() ? Backend::kTcp : Backend::kLocal;
}

/// Returns the rendezvous. Under torchrun MASTER_PORT is the port of torch's store, so the next one is taken.
std::string choose_rendezvous(const std::string& given) {
  const char* const host = std::getenv("MASTER_ADDR");
  const char* const port = std::getenv("MASTER_PORT");
  if (!given.empty() || !in_torchrun() || host == nullptr || port == nullptr) return given;
  constexpr int kLastPort = 65535, kFirstPort = 1024;
  const int taken = std::atoi(port);
  const bool bare_ipv6 = std::string(host).find(':') != std::string::npos && *host != '[';
  return fmt::format(fmt::runtime(bare_ipv6 ? "tcp:[{}]:{}" : "tcp:{}:{}"), host,
                     taken < kLastPort ? taken + 1 : kFirstPort);
}

/// Refuses MPI in a child of the process that has begun to use it.
void check_mpi_is_own() {
  static const ::pid_t first = ::getpid();
  if (first == ::getpid()) return;
  throw ConfigError(fmt::format(
      "comm.backend = \"mpi\": process {}, which forked this process, {}, uses MPI, and it cannot be shared: expected "
      "\"tcp\" or \"local\"",
      first, ::getpid()));
}

}  // namespace

Connection choose_connection(const trainer::CommConfig& config, const std::string& rendezvous) {
  if (!rendezvous.empty()) comm::parse_rendezvous(rendezvous);
  switch (choose_backend(config.backend)) {
    case Backend::kMpi: {
      check_mpi_is_own();
      const comm::MpiOptions options{.timeout_s = config.timeout_s, .start_timeout_s = config.start_timeout_s};
      return {[options](const RankThread::RankFunction& fn) { comm::run_hosted_mpi(options, fn); },
              config.start_timeout_s};
    }
    case Backend::kTcp: {
      const std::string& given = config.rendezvous.empty() ? rendezvous : config.rendezvous;
      const auto options = comm::tcp_options(choose_rendezvous(given), config.timeout_s, config.secret_file);
      return {[options](const RankThread::RankFunction& fn) { comm::run_tcp(options, fn); }, kUnlimited};
    }
    default: {
      const comm::LocalOptions options{.timeout_s = config.timeout_s};
      return {[options](const RankThread::RankFunction& fn) { comm::run_local(1, options, fn); }, kUnlimited};
    }
  }
}

}  // namespace dragonn::library
