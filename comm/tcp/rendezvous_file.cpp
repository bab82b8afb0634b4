// SPDX-License-Identifier: MIT
#include "comm/tcp/rendezvous_file.h"

#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"

namespace dragonn::comm {
namespace {

constexpr const char* kTitle = "dragonn rendezvous 1";
constexpr const char* kEnd = "end";

}  // namespace

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
