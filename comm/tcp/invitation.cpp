// SPDX-License-Identifier: MIT
#include "comm/tcp/invitation.h"

#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "core/file.h"
#include "core/hash.h"

namespace dragonn::comm {
namespace {

constexpr const char* kTitle = "dragonn rendezvous 1";
constexpr const char* kEnd = "end";

}  // namespace

std::optional<Invitation> Invitation::read(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string line;
  if (!std::getline(lines, line) || line != kTitle) return std::nullopt;
  Invitation invitation;
  std::string word;
  lines >> word >> std::hex >> invitation.token;
  if (word != "token" || !lines) return std::nullopt;
  while (lines >> word) {
    if (word == kEnd) return invitation;
    const auto address = parse_address(word);
    if (!address) return std::nullopt;
    invitation.addresses.push_back(*address);
  }
  return std::nullopt;
}

PostedInvitation::PostedInvitation(std::filesystem::path file, const Invitation& invitation)
    : file_(std::move(file)), token_(invitation.token) {
  std::string text = fmt::format("{}\ntoken {}\n", kTitle, hash_text(invitation.token));
  for (const Address& address : invitation.addresses) text += address.text() + '\n';
  write_file_atomically(file_, fmt::format("{}{}\n", text, kEnd));
}

PostedInvitation::~PostedInvitation() {
  std::error_code ignored;  // a file that stays is of no harm
  if (still_there()) std::filesystem::remove(file_, ignored);
}

bool PostedInvitation::still_there() const {
  const auto found = Invitation::read(file_);
  return found && found->token == token_;
}

}  // namespace dragonn::comm
