// SPDX-License-Identifier: MIT
/// Secret: knowledge that the processes of a run share, by which they tell each other from outsiders.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace dragonn::comm {

/// Random bytes that are used once. A proof for one connection is worth nothing for another.
using Nonce = std::array<std::byte, 32>;
Nonce random_nonce();

/// HMAC-SHA-256 of what both ends of a new connection know.
using Proof = std::array<std::byte, 32>;

/// The secret of a run. It proves that an end of a connection knows it, and never travels itself. What is sent
/// afterwards is neither encrypted nor signed: a secret keeps out who can connect, not who can read or change the
/// network's packets.
class Secret {
 public:
  /// The end of a connection that proves. The sides differ, so that nobody's proof can be sent back to them.
  enum class Side : unsigned char { kConnecting = 'c', kAccepting = 'a' };
  static constexpr std::size_t kMinBytes = 16;

  /// Reads a secret from a file, without a line break at its end.
  /// @throws ConfigError if it is missing, no regular file, shorter than kLeastBytes, longer than any secret, or
  /// readable by others than its owner.
  static Secret load(const std::filesystem::path& path);
  explicit Secret(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  /// Returns the proof of one side of a connection that began with `hello` and was answered with `challenge`.
  Proof prove(Side side, std::span<const std::byte> hello, const Nonce& challenge) const;
  /// Returns whether `proof` is that of `side`, in a time that does not depend on where it differs.
  bool accepts(const Proof& proof, Side side, std::span<const std::byte> hello, const Nonce& challenge) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace dragonn::comm
