// SPDX-License-Identifier: MIT
#include "comm/tcp/secret.h"

#include <sodium.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::comm {
namespace {

static_assert(sizeof(Proof) == crypto_auth_hmacsha256_BYTES);

const unsigned char* pointer(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

void require_private(const std::filesystem::path& path) {
  struct stat status {};
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (::stat(path.c_str(), &status) != 0 || (status.st_mode & kOthers) == 0) return;
  throw ConfigError(fmt::format("comm.secret_file {}: others than its owner have access (mode {:04o}): chmod 600 it",
                                path.string(), status.st_mode & 07777U));
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  DRAGONN_CHECK(sodium_init() >= 0, "libsodium cannot be initialized");
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Secret Secret::load(const std::filesystem::path& path) {
  constexpr std::size_t kMaxBytes = 4096;
  std::vector<std::byte> bytes;
  try {
    bytes = read_file(path, kMaxBytes);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("comm.secret_file: {}", error.what()));
  } catch (const Error& error) {
    throw ConfigError(fmt::format("comm.secret_file: {}", error.what()));
  }
  require_private(path);
  while (!bytes.empty() && (bytes.back() == std::byte{'\n'} || bytes.back() == std::byte{'\r'})) bytes.pop_back();
  if (bytes.size() < kMinBytes) {
    throw ConfigError(fmt::format("comm.secret_file {}: {} bytes: a secret has at least {} (openssl rand -hex 32)",
                                  path.string(), bytes.size(), kMinBytes));
  }
  return Secret(std::move(bytes));
}

Proof Secret::prove(Side side, std::span<const std::byte> hello, const Nonce& challenge) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, pointer(bytes_), bytes_.size());
  const auto letter = static_cast<unsigned char>(side);
  crypto_auth_hmacsha256_update(&state, &letter, 1);
  crypto_auth_hmacsha256_update(&state, pointer(hello), hello.size());
  crypto_auth_hmacsha256_update(&state, pointer(challenge), challenge.size());
  Proof proof;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

bool Secret::accepts(const Proof& proof, Side side, std::span<const std::byte> hello, const Nonce& challenge) const {
  const Proof expected = prove(side, hello, challenge);
  return sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

}  // namespace dragonn::comm
