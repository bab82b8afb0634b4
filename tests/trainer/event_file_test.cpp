// SPDX-License-Identifier: MIT
#include "trainer/metrics/event_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

template <class T>
T number_at(std::string_view bytes, std::size_t place) {
  T number{};
  std::memcpy(&number, bytes.substr(place, sizeof number).data(), sizeof number);
  return number;
}

/// Returns the records of a file without their frames, each of which must be whole.
std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string bytes = read_text_file(path);
  std::vector<std::string> records;
  for (std::size_t place = 0; place < bytes.size();) {
    REQUIRE(bytes.size() - place >= 16);
    const auto size = static_cast<std::size_t>(number_at<std::uint64_t>(bytes, place));
    REQUIRE(bytes.size() - place - 16 >= size);
    records.push_back(bytes.substr(place + 12, size));
    CHECK(bytes.substr(place, size + 16) == framed(records.back()));
    place += size + 16;
  }
  return records;
}

bool has(const std::string& record, std::string_view part) {
  return record.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("crc32c gives the values of RFC 3720") {
    CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAu);
    CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43u);
    CHECK(crc32c("123456789") == 0xE3069283u);
    CHECK(crc32c("") == 0);
  }

  TEST_CASE("a record has its length, its bytes and the masked CRC of both") {
    // The first 12 bytes of every file that TensorFlow writes: the length 24 and its CRC.
    const std::string record = framed(std::string(24, 'x'));
    CHECK(record.size() == 24 + 16);
    CHECK(record.substr(0, 12) == std::string("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12));
  }

  TEST_CASE("an event file begins with its version and a start, and its fields are in protobuf's format") {
    const TemporaryFolder folder;
    EventFile file(folder.path(), 300);
    file.write_scalars(300, std::vector<Scalar>{{"a/b", 0.5}});
    const std::vector<std::string> records = records_of(file.path());
    REQUIRE(records.size() == 3);
    CHECK(has(records[0],
              "\x1A\x0D"
              "brain.Event:2"));
    CHECK(records[1].substr(9) == std::string("\x10\xAC\x02\x3A\x02\x08\x01"));  // step 300, session_log {START}
    CHECK(records[2].substr(9) == std::string("\x10\xAC\x02\x2A\x0C\x0A\x0A\x0A\x03"
                                              "a/b\x15\0\0\0\x3F",
                                              17));
  }

  TEST_CASE("a later event file sorts behind the earlier ones, also within a second") {
    const TemporaryFolder folder;
    std::vector<std::filesystem::path> made;
    for (int i = 0; i < 3; ++i) made.push_back(EventFile(folder.path(), 1).path());
    CHECK(event_files(folder.path()) == made);
  }

  TEST_CASE("a removed event file and a missing folder are errors that name the file") {
    const TemporaryFolder folder;
    EventFile file(folder.path(), 1);
    std::filesystem::remove(file.path());
    CHECK_THROWS_WITH_AS(file.write_text(1, "config", ""),
                         doctest::Contains("was removed while the run was writing to it"), SystemError);
    CHECK_THROWS_WITH_AS(EventFile(folder.path() / "absent", 1), doctest::Contains("cannot open"), SystemError);
  }

  TEST_CASE("magnitudes are counted by powers of two") {
    MagnitudeCounts magnitudes;
    CHECK(magnitudes.bars_of_logarithms().empty());
    magnitudes.add(std::vector<float>{0.0f, -0.0f, 1.0f, -1.5f, 0.25f, 0.3f, INFINITY, std::nanf("")});
    const std::vector<HistogramBar> bars = magnitudes.bars_of_logarithms();
    REQUIRE(bars.size() == 3);
    CHECK(bars[0].left == doctest::Approx(std::log10(0.25)));
    CHECK(bars[2].right == doctest::Approx(std::log10(2.0)));
    CHECK(bars[0].count == 2);
    CHECK(bars[1].count == 0);
    CHECK(bars[2].count == 2);
  }

  TEST_CASE("a run writes events on request, a resumed run a further file, and a new run moves them away") {
    const TemporaryFolder folder;
    const std::vector<std::string> overrides{"logging.tensorboard=true", "compression.method=topk"};
    quick_run(quick_config(), 2, folder.path());
    CHECK(event_files(folder.path()).empty());
    quick_run(quick_config(overrides), 2, folder.path());
    std::vector<std::string> longer = overrides;
    longer.emplace_back("train.max_steps=8");
    quick_run(quick_config(longer), 2, folder.path(), "auto");
    const std::vector<std::filesystem::path> files = event_files(folder.path());
    REQUIRE(files.size() == 2);
    // Version, start, config; a record for each step and for the evaluation at the end, with its histogram.
    CHECK(records_of(files[0]).size() == 3 + 6 + 2);
    CHECK(records_of(files[1]).size() == 3 + 2 + 2);
    quick_run(quick_config(), 2, folder.path());
    CHECK(event_files(folder.path()).empty());
    CHECK(event_files(folder.path() / "earlier-2").size() == 2);
  }
}

}  // namespace dragonn::trainer::testing
