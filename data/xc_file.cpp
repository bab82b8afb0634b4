// SPDX-License-Identifier: MIT
#include "data/xc_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"

namespace dragonn::data {
namespace {

/// Reads a line part by part.
class LineReader {
 public:
  LineReader(const std::filesystem::path& path, std::size_t number, std::string_view line)
      : path_(path), number_(number), line_(line), rest_(line) {}

  bool at_end() const { return rest_.empty(); }
  bool next_is(char character) const { return !rest_.empty() && rest_.front() == character; }
  bool skip(char character) {
    if (!next_is(character)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_blanks() {
    while (skip(' ') || skip('\t') || skip('\r')) {
    }
  }

  template <class T>
  T number(const char* what) {
    T value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) fail(fmt::format("no {} at column {}", what, column()));
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::size_t column() const { return line_.size() - rest_.size() + 1; }
  [[noreturn]] void fail(const std::string& why) const {
    throw DataError(fmt::format("{}:{}: {}", path_.string(), number_, why));
  }

 private:
  const std::filesystem::path& path_;
  std::size_t number_;
  std::string_view line_;
  std::string_view rest_;
};

struct Header {
  std::size_t points = 0;
  std::size_t features = 0;
  std::size_t labels = 0;
};

Header read_header(LineReader line) {
  Header header;
  header.points = line.number<std::size_t>("number of points");
  line.skip_blanks();
  header.features = line.number<std::size_t>("number of features");
  line.skip_blanks();
  header.labels = line.number<std::size_t>("number of labels");
  line.skip_blanks();
  if (!line.at_end()) line.fail("the first line should be: points features labels");
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  if (header.points == 0 || header.features == 0 || header.labels == 0) line.fail("a count of 0");
  if (header.features > kMax || header.labels > kMax) line.fail(fmt::format("a count above {}", kMax));
  return header;
}

void read_labels(LineReader& line, std::size_t count, std::vector<std::int32_t>& labels) {
  const std::size_t begin = labels.size();
  while (!line.at_end() && !line.next_is(' ') && !line.next_is('\t') && !line.next_is('\r')) {
    const auto label = line.number<std::int64_t>("label");
    if (line.next_is(':')) line.fail("features must come behind a blank where a point has no label");
    if (label < 0 || static_cast<std::size_t>(label) >= count) {
      line.fail(fmt::format("label {}: should be 0 to {}", label, count - 1));
    }
    labels.push_back(static_cast<std::int32_t>(label));
    if (!line.skip(',')) break;
  }
  std::sort(labels.begin() + static_cast<std::ptrdiff_t>(begin), labels.end());
  labels.erase(std::unique(labels.begin() + static_cast<std::ptrdiff_t>(begin), labels.end()), labels.end());
}

void read_features(LineReader& line, std::size_t count, std::vector<SparseFeature>& features) {
  for (line.skip_blanks(); !line.at_end(); line.skip_blanks()) {
    const auto index = line.number<std::int64_t>("feature");
    if (index < 0 || static_cast<std::size_t>(index) >= count) {
      line.fail(fmt::format("feature {}: should be 0 to {}", index, count - 1));
    }
    if (!line.skip(':')) line.fail(fmt::format("no ':' at column {}", line.column()));
    const auto value = line.number<float>("value");
    if (!std::isfinite(value)) line.fail(fmt::format("value {} of feature {}: should be finite", value, index));
    features.push_back({static_cast<std::uint32_t>(index), value});
  }
}

}  // namespace

void SparsePoints::keep_first(std::size_t limit) {
  if (limit == 0 || limit >= size()) return;
  feature_ends_.resize(limit);
  label_ends_.resize(limit);
  features_.resize(feature_ends_.back());
  labels_.resize(label_ends_.back());
}

SparsePoints read_xc_file(const std::filesystem::path& path, BadSamples& bad) {
  const std::string text = read_text_file(path);
  SparsePoints points;
  Header header;
  std::size_t number = 0;
  for_each_line(text, [&](std::string_view content) {
    LineReader line(path, ++number, content);
    if (number == 1) {
      header = read_header(line);
      return;
    }
    if (number > header.points + 1) line.fail(fmt::format("a point too many: the header says {}", header.points));
    const std::size_t labels = points.labels_.size(), features = points.features_.size();
    const bool is_good = bad.accept([&] {
      read_labels(line, header.labels, points.labels_);
      read_features(line, header.features, points.features_);
    });
    if (!is_good) {
      points.labels_.resize(labels);
      points.features_.resize(features);
      return;
    }
    points.label_ends_.push_back(points.labels_.size());
    points.feature_ends_.push_back(points.features_.size());
  });
  if (number == 0) throw DataError(fmt::format("{}: an empty file", path.string()));
  if (number < header.points + 1) {
    throw DataError(fmt::format("{}:{}: the file ends after {} points: the header says {}", path.string(), number,
                                number - 1, header.points));
  }
  if (points.size() == 0) throw DataError(fmt::format("no point is left; the first bad one: {}", bad.first()));
  points.feature_count_ = header.features;
  points.label_count_ = static_cast<int>(header.labels);
  return points;
}

}  // namespace dragonn::data
