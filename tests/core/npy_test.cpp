// SPDX-License-Identifier: MIT
#include "core/npy.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn {
namespace {

/// A file that is removed at the end of the test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name) : path(std::filesystem::temp_directory_path() / name) {}
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

std::string content(const TemporaryFile& file) {
  return read_text_file(file.path);
}

void replace(const TemporaryFile& file, std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  write_file_atomically(file.path, text);
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("an array comes back from its .npy file with shape and type") {
    const TemporaryFile file("dragonn_npy_test_roundtrip.npy");
    const std::vector<float> values{1, -2.5f, 3, 4, 5, 6};
    write_npy<float>(file.path, {2, 3}, values);
    const NpyArray array = read_npy(file.path);
    CHECK(array.shape == Shape{2, 3});
    CHECK(array.values == values);
    const std::vector<float> one{-7};
    write_npy<float>(file.path, {}, one);
    CHECK(read_npy(file.path).shape == Shape{});
    CHECK(read_npy(file.path).values == one);
    write_npy<float>(file.path, {0}, {});
    CHECK(read_npy(file.path).values.empty());
    CHECK_THROWS_AS(write_npy<float>(file.path, {4}, values), ShapeError);
  }

  TEST_CASE("a .npy header of any length is read or refused") {
    const TemporaryFile file("dragonn_npy_test_long.npy");
    write_npy<float>(file.path, {1}, std::vector<float>{1});
    std::string text = content(file);
    text.replace(text.find("<f4"), 3, std::string(60000, 'a'));
    text[8] = static_cast<char>(60110 & 0xff);
    text[9] = static_cast<char>(60110 >> 8);
    write_file_atomically(file.path, text);
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("should have at most 4096"), DataError);
  }

  TEST_CASE("a .npy header is as NumPy writes it") {
    const TemporaryFile file("dragonn_npy_test_header.npy");
    const std::vector<std::int32_t> values{1, 2, 3};
    write_npy<std::int32_t>(file.path, {3}, values);
    const std::string text = content(file);
    CHECK(text.substr(1, 5) == "NUMPY");
    CHECK(text.find("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }") == 10);
    CHECK(text.size() == 128 + 12);
    CHECK(text[127] == '\n');
  }

  TEST_CASE("damaged .npy files are refused by name") {
    const TemporaryFile file("dragonn_npy_test_damaged.npy");
    const std::vector<float> values{1, 2, 3};
    write_npy<float>(file.path, {3}, values);
    const std::string text = content(file);
    replace(file, text, "<f4", "<i4");
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("type <i4: <f4 is needed"), DataError);
    write_file_atomically(file.path, text.substr(0, text.size() - 1));
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("11 bytes of values"), DataError);
    write_file_atomically(file.path, text.substr(0, 60));
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("end in the .npy header"), DataError);
    write_file_atomically(file.path, std::string("PK"));
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("not a .npy file"), DataError);
    replace(file, text, "False", "True ");
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("Fortran order"), DataError);
    replace(file, text, "'shape'", "'shapo'");
    CHECK_THROWS_WITH_AS(read_npy(file.path), doctest::Contains("lacks"), DataError);
    replace(file, text, "(3,)", "(999999999999999,)");
    CHECK_THROWS_AS(read_npy(file.path), DataError);
    CHECK_THROWS_AS(read_npy(file.path.string() + ".missing"), ConfigError);
  }
}

}  // namespace dragonn
