// SPDX-License-Identifier: MIT
/// The functions that libFuzzer calls. They give its bytes to the target that DRAGONN_FUZZ_TARGET of the environment
/// names: libFuzzer's own child processes inherit the environment, and not the command line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "tests/fuzz/target.h"

namespace dragonn::fuzz {
namespace {

const Target& chosen_target() {
  const char* const name = std::getenv("DRAGONN_FUZZ_TARGET");
  const auto wanted = [&](const Target& target) { return name != nullptr && std::string_view(target.name) == name; };
  const auto found = std::ranges::find_if(targets(), wanted);
  if (found != targets().end()) return *found;
  std::fprintf(stderr, "DRAGONN_FUZZ_TARGET names no target of this program; it has:\n");
  for (const Target& target : targets()) std::printf("%s\n", target.name);
  std::fflush(stdout);
  std::_Exit(2);
}

}  // namespace

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<Bytes> parts_of(Bytes bytes, std::size_t count) {
  std::vector<Bytes> parts;
  while (parts.size() + 1 < count) {
    const auto end = static_cast<std::size_t>(std::ranges::find(bytes, std::byte{0}) - bytes.begin());
    parts.push_back(bytes.first(end));
    bytes = bytes.subspan(std::min(end + 1, bytes.size()));
  }
  parts.push_back(bytes);
  return parts;
}

std::filesystem::path write_file(const std::string& name, Bytes bytes) {
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("dragonn-fuzz-{}", ::getpid());
  const std::filesystem::path path = folder / name;
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.valid()) {
    std::filesystem::create_directories(path.parent_path());
    file = Descriptor(path, O_WRONLY | O_CREAT | O_TRUNC);
  }
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0) std::abort();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return path;
}

}  // namespace dragonn::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  dragonn::fuzz::chosen_target();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dragonn::fuzz::Target& target = dragonn::fuzz::chosen_target();
  try {
    target.read({reinterpret_cast<const std::byte*>(data), size});
  } catch (const dragonn::Error&) {
    return 0;
  }
  return 0;
}
