// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <zlib.h>

#include "core/error.h"
#include "data/images/idx.h"
#include "tests/core/temporary_folder.h"
#include "tests/data/dataset_fixture.h"

namespace dragonn::data {
namespace {

using test::TemporaryFolder;

constexpr std::size_t kPixels = 28 * 28;

void append_word(Bytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
}

/// Images whose every pixel is their number.
Bytes image_file(std::uint32_t count) {
  Bytes bytes;
  for (const std::uint32_t word : {0x00000803u, count, 28u, 28u}) append_word(bytes, word);
  for (std::uint32_t i = 0; i < count; ++i) bytes.insert(bytes.end(), kPixels, static_cast<std::uint8_t>(i));
  return bytes;
}

Bytes label_file(const Bytes& labels) {
  Bytes bytes;
  append_word(bytes, 0x00000801u);
  append_word(bytes, static_cast<std::uint32_t>(labels.size()));
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  return bytes;
}

void write_gzip(const std::filesystem::path& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
  gzclose(file);
}

void write_mnist(const TemporaryFolder& folder) {
  write_bytes(folder / "train-images-idx3-ubyte", image_file(3));
  write_bytes(folder / "train-labels-idx1-ubyte", label_file({7, 0, 9}));
  write_gzip(folder / "t10k-images-idx3-ubyte.gz", image_file(2));
  write_gzip(folder / "t10k-labels-idx1-ubyte.gz", label_file({1, 2}));
}

Bytes file_content(const std::filesystem::path& path) {
  Bytes bytes;
  for (const std::byte byte : read_maybe_gzip(path, 1 << 20)) bytes.push_back(std::to_integer<std::uint8_t>(byte));
  return bytes;
}

TEST_SUITE("data") {
  TEST_CASE("mnist reads plain and compressed files") {
    const TemporaryFolder folder;
    write_mnist(folder);
    for (const char* name : {"mnist", "fashion_mnist"}) {
      const DatasetSplits splits = load_dataset(name, folder.path(), {{"normalize", false}});
      REQUIRE(splits.train->size() == 3);
      REQUIRE(splits.test->size() == 2);
      CHECK(splits.train->sample_shape() == Shape{28, 28, 1});
      CHECK(read_label(*splits.train, 2) == 9);
      CHECK(read_label(*splits.test, 1) == 2);
      CHECK(read_sample(*splits.train, 2) == std::vector<float>(kPixels, 2.0f / 255.0f));
    }
  }

  TEST_CASE("gzip data of any size comes back whole") {
    const TemporaryFolder folder;
    for (const std::size_t size : {0, 1, 1000, 100'000}) {
      Bytes bytes(size);
      for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i / 1000);
      write_gzip(folder / "file.gz", bytes);
      CHECK(file_content(folder / "file.gz") == bytes);
    }
    CHECK(read_maybe_gzip(folder / "file.gz", 100'000).size() == 100'000);
    CHECK(contains(error_of<DataError>([&] { read_maybe_gzip(folder / "file.gz", 99'999); }), "more than 99999 bytes"));
  }

  TEST_CASE("damaged gzip files are refused with file and offset") {
    const TemporaryFolder folder;
    write_gzip(folder / "file.gz", image_file(20));
    std::ifstream in(folder / "file.gz", std::ios::binary);
    const Bytes compressed{std::istreambuf_iterator<char>(in), {}};
    const auto error_with = [&](const Bytes& bytes) {
      write_bytes(folder / "bad.gz", bytes);
      return error_of<DataError>([&] { read_maybe_gzip(folder / "bad.gz", 1 << 20); });
    };
    for (const std::size_t size : {2, 5, 10, 30}) {
      CHECK(contains(error_with({compressed.begin(), compressed.begin() + static_cast<std::ptrdiff_t>(size)}),
                     "bad.gz: damaged or truncated gzip data at byte"));
    }
    Bytes longer = compressed, flipped = compressed;
    longer.push_back(0);
    CHECK(contains(error_with(longer), "data after the end of the gzip stream"));
    flipped[flipped.size() - 6] ^= 1;  // its checksum
    CHECK(contains(error_with(flipped), "incorrect data check"));
  }

  TEST_CASE("damaged idx files are refused with file and offset") {
    const TemporaryFolder folder;
    write_mnist(folder);
    const auto error = [&] { return error_of<DataError>([&] { load_dataset("mnist", folder.path()); }); };
    const auto images = folder / "train-images-idx3-ubyte", labels = folder / "train-labels-idx1-ubyte";

    write_bytes(labels, label_file({7, 0, 10}));
    CHECK(contains(error(), "train-labels-idx1-ubyte: label 10 at byte 10: should be 0 to 9"));
    write_bytes(labels, label_file({7, 0}));
    CHECK(contains(error(), "2 labels at byte 4"));
    write_bytes(labels, image_file(3));
    CHECK(contains(error(), "magic number 0x00000803 at byte 0: should be 0x00000801"));
    write_bytes(labels, {0, 0, 8, 1, 0});
    CHECK(contains(error(), "truncated at byte 5"));
    write_bytes(labels, {});
    CHECK(contains(error(), "truncated at byte 0"));
    write_bytes(labels, label_file({7, 0, 9}));

    Bytes bytes = image_file(3);
    bytes.pop_back();
    write_bytes(images, bytes);
    CHECK(contains(error(), "train-images-idx3-ubyte: ends at byte 2367"));
    bytes = image_file(3);
    bytes[11] = 27;
    write_bytes(images, bytes);
    CHECK(contains(error(), "ends at byte 2368"));
    bytes = {};
    for (const std::uint32_t word : {0x00000803u, 0xffffffffu, 0xffffffffu, 0xffffffffu}) append_word(bytes, word);
    write_bytes(images, bytes);
    CHECK(contains(error(), "more than any such file has"));
    bytes = {};
    for (const std::uint32_t word : {0x00000803u, 3u, 1u, 784u}) append_word(bytes, word);
    bytes.resize(bytes.size() + 3 * kPixels);
    write_bytes(images, bytes);
    CHECK(contains(error(), "images of 1 x 784 at byte 8: should be 28 x 28"));
  }

  TEST_CASE("missing mnist files are named") {
    const TemporaryFolder folder;
    write_mnist(folder);
    std::filesystem::remove(folder / "t10k-labels-idx1-ubyte.gz");
    const std::string error = error_of<ConfigError>([&] { load_dataset("mnist", folder.path()); });
    CHECK(contains(error, "t10k-labels-idx1-ubyte[.gz]: no such file"));
    CHECK(contains(error, "scripts/get_data.sh mnist"));
  }
}

}  // namespace
}  // namespace dragonn::data
