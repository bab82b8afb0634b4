// SPDX-License-Identifier: MIT
/// BadSamples: the policy for samples that cannot be read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/settings.h"

namespace dragonn::data {

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
