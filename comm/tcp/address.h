// SPDX-License-Identifier: MIT
/// Address: where a socket listens, in IPv4 or IPv6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dragonn::comm {

/// Travels between ranks as it is.
struct Address {
  enum class Family : std::uint32_t { kNone, kIpv4, kIpv6 };

  Family family = Family::kNone;
  std::uint32_t scope = 0;                  ///< the interface of a link-local IPv6 address
  std::array<std::uint8_t, 16> bytes = {};  ///< as on the wire; of IPv4 the first four
  std::uint64_t port = 0;

  /// Whether only processes of the same machine reach it.
  bool is_loopback() const;
  /// "10.0.0.1:4000", "[fe80::1]:4000".
  std::string text() const;
  bool operator==(const Address&) const = default;
};
static_assert(std::has_unique_object_representations_v<Address>, "no padding that would be sent");

/// "HOST:PORT", "[IPV6]:PORT".
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;

  std::string text() const;
};
/// Empty if `text` is of another form.
std::optional<HostAndPort> parse_host_and_port(std::string_view text);

/// The addresses of a host, by name or number. Empty with `problem` set if there is none. May take seconds.
std::vector<Address> resolve(const HostAndPort& place, std::string& problem);
/// The inverse of Address::text(). Looks up no names.
std::optional<Address> parse_address(std::string_view text);

/// Those of this machine that others may reach, with `port`; where there is none, those of the loopback interface.
std::vector<Address> addresses_of_this_machine(std::uint16_t port);

}  // namespace dragonn::comm
