// SPDX-License-Identifier: MIT
/// Conversions between Address and the system's sockaddr.
#pragma once

#include <cstring>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

#include "comm/tcp/address.h"

namespace dragonn::comm {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

inline SocketAddress to_socket_address(const Address& address) {
  SocketAddress result;
  const auto port = htons(static_cast<std::uint16_t>(address.port));
  if (address.family == Address::Family::kIpv6) {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = port;
    ipv6.sin6_scope_id = address.scope;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof(ipv6.sin6_addr));
    std::memcpy(&result.storage, &ipv6, sizeof(ipv6));
    result.size = sizeof(ipv6);
  } else {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = port;
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), sizeof(ipv4.sin_addr));
    std::memcpy(&result.storage, &ipv4, sizeof(ipv4));
    result.size = sizeof(ipv4);
  }
  return result;
}

/// Returns nothing if the family is neither IPv4 nor IPv6.
inline std::optional<Address> from_socket_address(const sockaddr& given) {
  Address address;
  if (given.sa_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &given, sizeof(ipv6));
    address.family = Address::Family::kIpv6;
    address.port = ntohs(ipv6.sin6_port);
    address.scope = ipv6.sin6_scope_id;
    std::memcpy(address.bytes.data(), &ipv6.sin6_addr, sizeof(ipv6.sin6_addr));
    return address;
  }
  if (given.sa_family != AF_INET) return std::nullopt;
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &given, sizeof(ipv4));
  address.family = Address::Family::kIpv4;
  address.port = ntohs(ipv4.sin_port);
  std::memcpy(address.bytes.data(), &ipv4.sin_addr, sizeof(ipv4.sin_addr));
  return address;
}

}  // namespace dragonn::comm
