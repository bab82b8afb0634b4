// SPDX-License-Identifier: MIT
#include "data/transcripts.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "data/lines.h"
#include "data/utf8.h"

namespace dragonn::data {
namespace {

struct Line {
  std::string text;
  TextPlace place;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<Line> read_lines(const std::filesystem::path& path) {
  const std::string text = read_utf8_file(path);
  std::vector<Line> lines;
  for_each_line(text, [&](std::string_view line) {
    lines.push_back({std::string(trimmed(line)), {path, lines.size() + 1}});
    if (lines.back().text.empty()) throw DataError(fmt::format("{}: an empty line", lines.back().place.text()));
  });
  if (lines.empty()) throw DataError(fmt::format("{}: an empty file", path.string()));
  return lines;
}

/// The audio file of any known extension.
std::filesystem::path find_audio(const std::filesystem::path& stem, const TextPlace& place) {
  constexpr std::array kExtensions{".flac", ".wav", ".raw", ".ogg", ".sph"};
  for (const char* extension : kExtensions) {
    std::filesystem::path file = stem.string() + extension;
    if (std::filesystem::exists(file)) return file;
  }
  throw DataError(
      fmt::format("{}: no audio file {}.* ({})", place.text(), stem.string(), fmt::join(kExtensions, ", ")));
}

/// `TEXT (name)`, the text perhaps between <s> and </s>: the text and the name.
std::pair<std::string, std::string> split_transcription(const Line& line) {
  const std::size_t open = line.text.rfind('(');
  if (open == std::string::npos || line.text.back() != ')') {
    throw DataError(
        fmt::format("{}: '{}' does not end with the name of a file in parentheses", line.place.text(), line.text));
  }
  std::string_view text = trimmed(std::string_view(line.text).substr(0, open));
  if (text.starts_with("<s>")) text = trimmed(text.substr(3));
  if (text.ends_with("</s>")) text = trimmed(text.substr(0, text.size() - 4));
  return {std::string(text), line.text.substr(open + 1, line.text.size() - open - 2)};
}

}  // namespace

std::string TextPlace::text() const {
  return fmt::format("{}:{}", file.string(), line);
}

std::vector<Utterance> read_an4_transcripts(const std::filesystem::path& folder, const std::string& name) {
  const std::vector<Line> files = read_lines(folder / "etc" / (name + ".fileids"));
  const std::vector<Line> texts = read_lines(folder / "etc" / (name + ".transcription"));
  if (files.size() != texts.size()) {
    throw DataError(fmt::format("{}: {} files, but {} has {} lines", files.back().place.file.string(), files.size(),
                                texts.back().place.file.string(), texts.size()));
  }
  std::vector<Utterance> utterances;
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto [text, file] = split_transcription(texts[i]);
    const std::filesystem::path stem = folder / "wav" / files[i].text;
    if (stem.filename() != file) {
      throw DataError(fmt::format("{}: is about '{}', but {} names '{}'", texts[i].place.text(), file,
                                  files[i].place.text(), stem.filename().string()));
    }
    utterances.push_back({find_audio(stem, files[i].place), std::move(text), texts[i].place});
  }
  return utterances;
}

std::vector<Utterance> read_manifest(const std::filesystem::path& path) {
  std::vector<Utterance> utterances;
  for (const Line& line : read_lines(path)) {
    const std::size_t tab = line.text.find('\t');
    if (tab == std::string::npos) {
      throw DataError(fmt::format("{}: '{}' is not 'audio file <TAB> text'", line.place.text(), line.text));
    }
    const std::filesystem::path audio = path.parent_path() / std::string(trimmed(line.text.substr(0, tab)));
    if (!std::filesystem::exists(audio)) {
      throw DataError(fmt::format("{}: no audio file {}", line.place.text(), audio.string()));
    }
    utterances.push_back({audio, std::string(trimmed(line.text.substr(tab + 1))), line.place});
  }
  return utterances;
}

Alphabet::Alphabet(std::string characters) : characters_(std::move(characters)) {
  if (characters_.empty()) throw ConfigError("an alphabet without characters");
  for (std::size_t i = 0; i < characters_.size(); ++i) {
    if (characters_[i] < ' ' || characters_[i] > '~') {
      throw ConfigError(fmt::format("alphabet '{}': byte {} is not printable ASCII", characters_, i));
    }
    if (characters_.find(characters_[i]) != i) {
      throw ConfigError(fmt::format("alphabet '{}' has '{}' twice", characters_, characters_[i]));
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
                                  text.substr(i, std::max<std::size_t>(utf8_length(text, i), 1)), text, characters_));
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

}  // namespace dragonn::data
