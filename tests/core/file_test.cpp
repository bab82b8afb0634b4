// SPDX-License-Identifier: MIT
#include "core/file.h"

#include <csignal>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utility>

#include <doctest/doctest.h>

#include "core/archive.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace dragonn {
namespace {

/// Makes a write beyond `bytes` of any file fail while it lives, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : previous_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limit{bytes, previous_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*previous_handler_)(int);
  rlimit previous_{};
};

std::size_t entries_of(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST_SUITE("core") {
  TEST_CASE("a file reads back as it was written, replaces the old one and leaves no neighbour") {
    const test::TemporaryFolder folder;
    const auto path = folder / "file";
    write_file_atomically(path, std::string_view("a longer first text"));
    const std::string second("zero \0 inside", 13);
    write_file_atomically(path, std::string_view(second));
    CHECK(read_text_file(path) == second);
    write_file_atomically(path, std::string_view());
    CHECK(read_file(path).empty());
    CHECK(entries_of(folder.path()) == 1);
  }

  TEST_CASE("a write that the disk refuses keeps the old file and leaves no neighbour") {
    const test::TemporaryFolder folder;
    const auto path = folder / "file";
    write_file_atomically(path, std::string_view("old"));
    Archive archive;
    archive.put_text("field", std::string(1 << 16, 'x'));
    {
      const FileSizeLimit full_disk(4096);
      CHECK_THROWS_AS(write_file_atomically(path, std::string_view(std::string(1 << 16, 'x'))), SystemError);
      CHECK_THROWS_AS(archive.write(path), SystemError);
    }
    CHECK(read_text_file(path) == "old");
    CHECK(entries_of(folder.path()) == 1);
  }

  TEST_CASE("a refused write's error names the file and the reason") {
    const test::TemporaryFolder folder;
    const auto path = folder / "no such folder/file";
    CHECK_THROWS_WITH_AS(write_file_atomically(path, std::string_view("text")),
                         ("cannot create " + path.string() + ".tmp: No such file or directory").c_str(), SystemError);
  }

  TEST_CASE("a missing file and a folder in its place are config errors that name them") {
    const test::TemporaryFolder folder;
    CHECK_THROWS_WITH_AS(read_file(folder / "missing"), ("no such file: " + (folder / "missing").string()).c_str(),
                         ConfigError);
    CHECK_THROWS_AS(read_file(folder.path()), ConfigError);
    write_file_atomically(folder / "file", std::string_view("text"));
    CHECK_THROWS_AS(read_file(folder / "file/below"), ConfigError);
  }

  TEST_CASE("a pipe, a socket, a device and a folder are refused at once, and named, in place of a file") {
    const test::TemporaryFolder folder;
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    (folder / "socket").string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    const std::pair<std::filesystem::path, const char*> others[] = {
        {folder / "pipe", "FIFO"}, {folder / "socket", "socket"}, {"/dev/zero", "device"}, {folder.path(), "folder"}};
    for (const auto& [path, kind] : others) {
      const std::string message = path.string() + " is no regular file, but a " + kind;
      CHECK_THROWS_WITH_AS(read_file(path), message.c_str(), ConfigError);
      CHECK_THROWS_WITH_AS(write_file_atomically(path, std::string_view("text")), message.c_str(), ConfigError);
      CHECK(std::filesystem::exists(path));
    }
  }

  TEST_CASE("a file beyond its limit, or beyond the memory of the machine, is refused before memory is reserved") {
    const test::TemporaryFolder folder;
    const auto path = folder / "file";
    write_file_atomically(path, std::string_view("eight..."));
    CHECK(read_text_file(path, 8) == "eight...");
    CHECK_THROWS_WITH_AS(read_file(path, 7), (path.string() + ": 8 bytes: should be at most 7").c_str(), DataError);
    std::filesystem::resize_file(path, std::uintmax_t{1} << 42);  // without a block on the disk
    CHECK_THROWS_WITH_AS(read_file(path), doctest::Contains(": 4398046511104 bytes, and this machine has "),
                         SystemError);
  }
}

}  // namespace
}  // namespace dragonn
