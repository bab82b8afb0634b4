// SPDX-License-Identifier: MIT
#include <filesystem>
#include <utility>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "tests/core/temporary_folder.h"

namespace dragonn {

TEST_SUITE("core") {
  TEST_CASE("folder lock: a folder has one holder at a time, and its name is in the error") {
    const test::TemporaryFolder folder;
    {
      const FolderLock held(folder.path());
      CHECK_THROWS_WITH_AS(
          FolderLock(folder.path()),
          (folder.path().string() + ": another process writes there; wait for its end, or choose another folder")
              .c_str(),
          ConfigError);
    }
    CHECK_NOTHROW(FolderLock(folder.path()));
    CHECK(std::filesystem::is_empty(folder.path()));
  }

  TEST_CASE("folder lock: it moves with its object") {
    const test::TemporaryFolder folder;
    FolderLock lock;
    lock = FolderLock(folder.path());
    FolderLock moved(std::move(lock));
    CHECK_THROWS_AS(FolderLock(folder.path()), ConfigError);
    moved = FolderLock();
    CHECK_NOTHROW(FolderLock(folder.path()));
  }

  TEST_CASE("folder lock: a folder that is not there is named") {
    const test::TemporaryFolder folder;
    CHECK_THROWS_AS(FolderLock(folder.path() / "nowhere"), SystemError);
  }
}

}  // namespace dragonn
