// SPDX-License-Identifier: MIT
/// Transcripts: the text of each audio file, and the alphabet of the texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/folder.h"
#include "data/text/utf8.h"

namespace dragonn::data {

struct Utterance {
  std::filesystem::path audio;
  std::string text;
  TextPlace place;
};

/// Reads CMU AN4's layout: `folder`/etc/`name`.fileids lists the audio files below `folder`/wav without their
/// extension; `folder`/etc/`name`.transcription has one line for each: `TEXT (file-name)`, where the text may stand
/// between <s> and </s>. @param bad leaves out utterances whose line in either list is bad.
/// @throws ConfigError for a missing file, DataError for lists that do not fit together, naming file and line.
std::vector<Utterance> read_an4_transcripts(const std::filesystem::path& folder, const std::string& name,
                                            BadSamples& bad);

/// Reads a manifest: one utterance a line, `audio file <TAB> text`, the file relative to the manifest's folder.
/// @throws ConfigError for a missing file, DataError naming file and line.
std::vector<Utterance> read_manifest(const std::filesystem::path& path, BadSamples& bad);

/// Characters and their labels. Label 0 is CTC's blank, character i has label i + 1.
class Alphabet {
 public:
  static constexpr std::int32_t kBlank = 0;

  /// @throws ConfigError if `characters` is empty, has a character twice, or one that is not printable ASCII.
  explicit Alphabet(std::string characters);

  /// Returns the number of labels, with the blank.
  int labels() const { return static_cast<int>(characters_.size()) + 1; }
  /// Returns the labels of a text. @throws DataError naming the place, the character that is not in the alphabet, and
  /// the alphabet.
  std::vector<std::int32_t> encode(std::string_view text, const TextPlace& place) const;
  /// Returns the text of labels. @param labels without blanks.
  std::string decode(const std::vector<std::int32_t>& labels) const;

 private:
  std::string characters_;
};

/// The errors in a text, the fewest insertions, deletions and substitutions that make it the true one (Levenshtein),
/// and its length. An error rate is the sum of errors over the sum of units; it may exceed 1.
struct TextErrors {
  std::size_t errors = 0;
  std::size_t units = 0;  ///< characters or words of the true texts

  TextErrors& operator+=(const TextErrors& other) {
    errors += other.errors;
    units += other.units;
    return *this;
  }
};

/// Counts errors by bytes: alphabets of transcripts are single-byte.
TextErrors character_errors(std::string_view truth, std::string_view recognized);
/// Counts errors by words between blanks.
TextErrors word_errors(std::string_view truth, std::string_view recognized);

}  // namespace dragonn::data
