// SPDX-License-Identifier: MIT
#include "core/archive.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/archive_view.h"
#include "core/error.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "tests/core/temporary_folder.h"

namespace dragonn {
namespace {

Archive example() {
  Archive archive;
  archive.put("step", std::uint64_t{41});
  archive.put("rate", -0.0f);
  const std::vector<float> residual{1.5f, -2.0f, std::numeric_limits<float>::denorm_min()};
  archive.put_array("bucket0/residual", std::span<const float>(residual));
  archive.put_array("bucket1/residual", std::span<const float>());
  archive.put_text("config", "seed = 1\n");
  return archive;
}

/// The message of the DataError that reading `bytes` as an archive throws; empty if it throws none.
std::string read_error(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, bytes);
  try {
    Archive::read(path);
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

TEST_SUITE("core") {
  TEST_CASE("an archive reads back as it was written") {
    const test::TemporaryFolder folder;
    const Archive written = example();
    written.write(folder / "archive");
    const Archive read = Archive::read(folder / "archive");
    CHECK(read.fields() == written.fields());
    CHECK(read.get<std::uint64_t>("step") == 41);
    CHECK(std::signbit(read.get<float>("rate")));
    CHECK(read.get_vector<float>("bucket0/residual") ==
          std::vector<float>{1.5f, -2.0f, std::numeric_limits<float>::denorm_min()});
    CHECK(read.get_vector<float>("bucket1/residual").empty());
    CHECK(read.get_text("config") == "seed = 1\n");
    CHECK(read.size_bytes() == 8 + 4 + 3 * 4 + 9);
  }

  TEST_CASE("an archive without fields reads back") {
    const test::TemporaryFolder folder;
    Archive().write(folder / "archive");
    CHECK(Archive::read(folder / "archive").fields().empty());
  }

  TEST_CASE("a change of any single byte of an archive is an error that names the file") {
    const test::TemporaryFolder folder;
    const auto path = folder / "archive";
    example().write(path);
    const std::vector<std::byte> intact = read_file(path);
    for (std::size_t position = 0; position < intact.size(); ++position) {
      for (const std::byte flip : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
        std::vector<std::byte> damaged = intact;
        damaged[position] ^= flip;
        CAPTURE(position);
        const std::string message = read_error(path, damaged);
        CHECK(message.find(path.string()) != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
      }
    }
  }

  TEST_CASE("an archive cut anywhere, or with bytes behind it, is an error that names the file") {
    const test::TemporaryFolder folder;
    const auto path = folder / "archive";
    example().write(path);
    std::vector<std::byte> bytes = read_file(path);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size);
      CHECK(read_error(path, std::span(bytes).first(size)).find(path.string()) != std::string::npos);
    }
    bytes.push_back(std::byte{0});
    CHECK(read_error(path, bytes).find(path.string()) != std::string::npos);
  }

  TEST_CASE("a damaged field's error gives its name and place") {
    const test::TemporaryFolder folder;
    const auto path = folder / "archive";
    Archive archive;
    archive.put("step", std::uint32_t{1});
    archive.write(path);
    std::vector<std::byte> bytes = read_file(path);
    const std::size_t value = bytes.size() - sizeof(std::uint32_t);
    bytes[value] ^= std::byte{1};
    CHECK(read_error(path, bytes) == path.string() + ": checksum mismatch in field 'step' at bytes " +
                                         std::to_string(value) + " to " + std::to_string(value + 3) +
                                         ": the file is damaged");
  }

  TEST_CASE("an archive is a safetensors file, whose fields are aligned and have types and shapes") {
    const std::vector<std::byte> bytes = to_bytes(example());
    const SafetensorsFile file(bytes, "archive");
    REQUIRE(file.tensors().size() == 5);
    const auto check = [&](std::size_t i, const char* name, const char* type, const std::vector<std::uint64_t>& shape) {
      const FileTensor& tensor = file.tensors()[i];
      CAPTURE(name);
      CHECK(tensor.name == name);
      CHECK(tensor.type == type);
      CHECK(tensor.shape == shape);
      CHECK((tensor.bytes.data() - bytes.data()) % static_cast<std::ptrdiff_t>(element_bytes(type)) == 0);
      CHECK(file.metadata().at(std::string("xxh3 ") + name).size() == 16);
    };
    check(0, "step", "U64", {});
    check(1, "bucket0/residual", "F32", {3});
    check(2, "bucket1/residual", "F32", {0});
    check(3, "rate", "F32", {});
    check(4, "config", "U8", {9});
  }

  TEST_CASE("files of other formats are refused with their names") {
    const test::TemporaryFolder folder;
    const auto path = folder / "archive";
    const auto error_of = [&](std::string_view text) { return read_error(path, std::as_bytes(std::span(text))); };
    CHECK(error_of(std::string_view("DRAGONN\n\1\0\0\0\0\0\0\0\0\0\0\0", 20)) ==
          path.string() + ": an archive in the format before safetensors: dragonn up to commit 60c1661 reads it");
    const float weight = 1;
    const FileTensor tensor{"weight", "F32", {1}, std::as_bytes(std::span(&weight, 1))};
    CHECK(read_error(path, safetensors_bytes(std::span(&tensor, 1), {{"format", "pt"}})) ==
          path.string() + ": a safetensors file, but no dragonn archive");
    CHECK(read_error(path, safetensors_bytes(std::span(&tensor, 1), {{"format", "dragonn archive 2"}}))
              .starts_with(path.string() + ": checksum mismatch in field 'weight'"));
    FileMetadata metadata = SafetensorsFile(to_bytes(Archive()), "archive").metadata();
    metadata["note"] = "added";
    CHECK(read_error(path, safetensors_bytes({}, metadata)) ==
          path.string() + ": the header is not as a save writes it: the file is damaged");
  }

  TEST_CASE("fields that are absent, of another size or written twice are errors") {
    Archive archive = example();
    CHECK_THROWS_WITH_AS(archive.get<float>("missing"), "the checkpoint has no field 'missing'", DataError);
    CHECK_THROWS_AS(archive.get<std::uint32_t>("step"), DataError);
    std::vector<float> four(4);
    CHECK_THROWS_AS(archive.get_array("bucket0/residual", std::span<float>(four)), DataError);
    CHECK_THROWS_AS(archive.get_vector<float>("config"), DataError);  // 9 bytes are no whole number of floats
    CHECK_THROWS_AS(archive.put("step", 1), Error);
    CHECK(archive.get<std::uint64_t>("step") == 41);
  }

  TEST_CASE("a file with a field twice is an error that names both") {
    const test::TemporaryFolder folder;
    const std::uint64_t step = 41;
    const auto bytes = std::as_bytes(std::span(&step, 1));
    const std::vector<FileTensor> twice{{"step", "U64", {}, bytes}, {"stop", "U64", {}, bytes}};
    std::vector<std::byte> file = safetensors_bytes(twice, {{"format", "dragonn archive 2"}});
    const std::string_view letters(reinterpret_cast<const char*>(file.data()), file.size());
    file[letters.find("stop") + 2] = std::byte{'e'};
    const auto path = folder / "archive";
    CHECK(read_error(path, file) == path.string() + ": the header names 'step' twice");
  }

  TEST_CASE("an archive that does not exist is a config error") {
    const test::TemporaryFolder folder;
    CHECK_THROWS_AS(Archive::read(folder / "nothing"), ConfigError);
  }

  TEST_CASE("archive view: fields of several places are written as one archive of them") {
    const Archive archive = example();
    const std::vector<float> values{0.5f, -3.0f};
    ArchiveView view;
    for (const auto& [name, field] : archive.fields()) view.put_field(name, ArchiveView::Field(field));
    view.put_field("values", ArchiveView::Field(std::span<const float>(values)));
    Archive whole = example();
    whole.put_array<float>("values", values);
    CHECK(view.pieces().bytes() == to_bytes(whole));
    CHECK_THROWS_AS(view.put_field("step", ArchiveView::Field(std::span<const float>())), Error);
  }
}

}  // namespace
}  // namespace dragonn
