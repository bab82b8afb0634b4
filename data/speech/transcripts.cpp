// SPDX-License-Identifier: MIT
#include "data/speech/transcripts.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"

namespace dragonn::data {
namespace {

/// Bytes of a file's name that an error shows: most are shorter, and a list may hold anything.
constexpr std::size_t kLongestName = 500;

struct Line {
  std::string text;
  TextPlace place;
  std::size_t offset = 0;  // in the file
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<Line> read_lines(const std::filesystem::path& path) {
  const std::string all = read_text_file(path);
  std::vector<Line> lines;
  for_each_line(all, [&](std::string_view line) {
    const std::string_view text = trimmed(line);
    const std::string_view begin = text.empty() ? line : text;
    lines.push_back({std::string(text), {path, lines.size() + 1}, static_cast<std::size_t>(begin.data() - all.data())});
  });
  if (lines.empty()) throw DataError(fmt::format("{}: an empty file", path.string()));
  return lines;
}

void check(const Line& line) {
  if (line.text.empty()) throw DataError(fmt::format("{}: an empty line", line.place.text()));
  require_utf8(line.text, line.place, line.offset);
}

void drop_bad(std::vector<Line>& lines, BadSamples& bad) {
  std::erase_if(lines, [&](const Line& line) { return !bad.accept([&] { check(line); }); });
}

/// Returns the audio file with any known extension.
std::filesystem::path find_audio(const std::filesystem::path& stem, const TextPlace& place) {
  constexpr std::array kExtensions{".flac", ".wav", ".raw", ".ogg", ".sph"};
  for (const char* extension : kExtensions) {
    std::filesystem::path file = stem.string() + extension;
    if (is_there(file)) return file;
  }
  throw DataError(fmt::format("{}: no audio file {}.* ({})", place.text(), excerpt(stem.string(), kLongestName),
                              fmt::join(kExtensions, ", ")));
}

/// Splits `TEXT (name)`, whose text may stand between <s> and </s>, into text and name.
std::pair<std::string, std::string> split_transcription(const Line& line) {
  const std::size_t open = line.text.rfind('(');
  if (open == std::string::npos || line.text.back() != ')') {
    throw DataError(fmt::format("{}: '{}' does not end with the name of a file in parentheses", line.place.text(),
                                excerpt(line.text)));
  }
  std::string_view text = trimmed(std::string_view(line.text).substr(0, open));
  if (text.starts_with("<s>")) text = trimmed(text.substr(3));
  if (text.ends_with("</s>")) text = trimmed(text.substr(0, text.size() - 4));
  return {std::string(text), line.text.substr(open + 1, line.text.size() - open - 2)};
}

Utterance pair(const Line& file, const Line& transcription, const std::filesystem::path& folder) {
  check(file);
  check(transcription);
  auto [text, name] = split_transcription(transcription);
  const std::filesystem::path stem = folder / file.text;
  if (stem.filename() != name) {
    throw DataError(fmt::format("{}: is about '{}', but {} names '{}'", transcription.place.text(), excerpt(name),
                                file.place.text(), excerpt(stem.filename().string())));
  }
  return {find_audio(stem, file.place), std::move(text), transcription.place};
}

Utterance split_manifest(const Line& line) {
  check(line);
  const std::size_t tab = line.text.find('\t');
  if (tab == std::string::npos) {
    throw DataError(fmt::format("{}: '{}' is not 'audio file <TAB> text'", line.place.text(), excerpt(line.text)));
  }
  const std::filesystem::path audio =
      line.place.file.parent_path() / std::string(trimmed(std::string_view(line.text).substr(0, tab)));
  if (!is_there(audio)) {
    throw DataError(fmt::format("{}: no audio file {}", line.place.text(), excerpt(audio.string(), kLongestName)));
  }
  return {audio, std::string(trimmed(std::string_view(line.text).substr(tab + 1))), line.place};
}

/// Computes the table of distances between prefixes row by row; only one row is kept.
template <class Sequence>
std::size_t distance(const Sequence& a, const Sequence& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<Utterance> read_an4_transcripts(const std::filesystem::path& folder, const std::string& name,
                                            BadSamples& bad) {
  std::vector<Line> files = read_lines(folder / "etc" / (name + ".fileids"));
  std::vector<Line> texts = read_lines(folder / "etc" / (name + ".transcription"));
  const TextPlace last_file = files.back().place, last_text = texts.back().place;
  if (files.size() != texts.size()) {  // perhaps for a line too many that says nothing
    drop_bad(files, bad);
    drop_bad(texts, bad);
  }
  if (files.size() != texts.size()) {
    throw DataError(fmt::format("{}: {} files, but {} has {} lines", last_file.file.string(), files.size(),
                                last_text.file.string(), texts.size()));
  }
  std::vector<Utterance> utterances;
  for (std::size_t i = 0; i < files.size(); ++i) {
    bad.accept([&] { utterances.push_back(pair(files[i], texts[i], folder / "wav")); });
  }
  return utterances;
}

std::vector<Utterance> read_manifest(const std::filesystem::path& path, BadSamples& bad) {
  std::vector<Utterance> utterances;
  for (const Line& line : read_lines(path)) {
    bad.accept([&] { utterances.push_back(split_manifest(line)); });
  }
  return utterances;
}

Alphabet::Alphabet(std::string characters) : characters_(std::move(characters)) {
  if (characters_.empty()) throw ConfigError("an alphabet without characters");
  for (std::size_t i = 0; i < characters_.size(); ++i) {
    if (characters_[i] < ' ' || characters_[i] > '~') {
      throw ConfigError(fmt::format("alphabet '{}': byte {} is not printable ASCII", excerpt(characters_), i));
    }
    if (characters_.find(characters_[i]) != i) {
      throw ConfigError(fmt::format("alphabet '{}' has '{}' twice", excerpt(characters_), characters_[i]));
    }
  }
}

std::vector<std::int32_t> Alphabet::encode(std::string_view text, const TextPlace& place) const {
  std::vector<std::int32_t> labels;
  labels.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t found = characters_.find(text[i]);
    if (found == std::string::npos) {
      throw DataError(fmt::format("{}: '{}' in '{}' is not in the alphabet '{}'", place.text(),
                                  text.substr(i, std::max<std::size_t>(utf8_length(text, i), 1)), excerpt(text),
                                  characters_));
    }
    labels.push_back(static_cast<std::int32_t>(found) + 1);
  }
  return labels;
}

std::string Alphabet::decode(const std::vector<std::int32_t>& labels) const {
  std::string text;
  for (const std::int32_t label : labels) {
    DRAGONN_CHECK(label > kBlank && label < this->labels(), "label {} is not of an alphabet of {}", label,
                  characters_.size());
    text += characters_[static_cast<std::size_t>(label) - 1];
  }
  return text;
}

TextErrors character_errors(std::string_view truth, std::string_view recognized) {
  return {distance(truth, recognized), truth.size()};
}

TextErrors word_errors(std::string_view truth, std::string_view recognized) {
  const std::vector<std::string_view> words = words_of(truth);
  return {distance(words, words_of(recognized)), words.size()};
}

}  // namespace dragonn::data
