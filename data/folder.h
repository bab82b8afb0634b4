// SPDX-License-Identifier: MIT
/// Parts that readers of data sets share: folders, the lines of files, and the policy for samples that cannot be read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/settings.h"

namespace dragonn::data {

/// Returns whether a path can be reached and something is there; no name is too long to ask.
bool is_there(const std::filesystem::path& path);

/// Makes the error for missing data that scripts/get_data.sh fetches. It names `missing` and the command.
ConfigError missing_data(const std::string& missing, const std::string& name, const std::string& folder);
/// Checks that `folder` exists. @throws ConfigError (missing_data).
void require_folder(const std::string& folder, const std::string& name);
/// Checks the folder of a data set that users provide: the error names no command.
void require_own_folder(const std::string& folder, const std::string& name);

/// Calls take(line) for each line, without its newline, which the last line need not have.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Calls take(word) for each word, as blanks separate them.
template <class Take>
void for_each_word(std::string_view text, const Take& take) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    take(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
}

inline std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for_each_word(text, [&](std::string_view word) { words.push_back(word); });
  return words;
}

/// Declares the setting `bad_samples` of a data set. @param what the possible faults of a sample, for the help.
inline SettingSpec bad_samples_setting(const std::string& what) {
  return SettingSpec::text("bad_samples", "error",
                           "treatment of " + what + "; error: the run stops; skip: they are left out and counted",
                           {"error", "skip"});
}

/// Applies the setting: the first bad sample is an error, or all bad samples are left out and counted.
class BadSamples {
 public:
  /// Makes the first bad sample an error.
  BadSamples() = default;
  /// Takes the policy from `settings`.
  explicit BadSamples(const Settings& settings) : skips_(settings.text("bad_samples") == "skip") {}

  /// Calls read(). @return false if it threw a DataError and the sample is to be left out.
  template <class Read>
  bool accept(const Read& read) {
    try {
      read();
      return true;
    } catch (const DataError& error) {
      if (!skips_) throw;
      if (count_++ == 0) first_ = error.what();
      return false;
    }
  }

  std::size_t count() const { return count_; }
  /// Returns the fault of the first sample that was left out.
  const std::string& first() const { return first_; }
  /// Returns a note for the log, if samples were left out. @param samples the word for them: "utterances".
  std::vector<std::string> notes(const std::string& samples) const {
    if (count_ == 0) return {};
    return {fmt::format("{} {} left out (data.bad_samples); the first: {}", count_, samples, first_)};
  }

 private:
  bool skips_ = false;
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace dragonn::data
