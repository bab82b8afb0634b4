// SPDX-License-Identifier: MIT
/// BadSamples: what becomes of samples that cannot be used.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/settings.h"

namespace dragonn::data {

/// The setting `bad_samples` of a data set. @param what can be wrong with a sample, for the help.
SettingSpec bad_samples_setting(const std::string& what);

/// The policy of that setting: the first bad sample is an error, or all are left out and counted.
class BadSamples {
 public:
  /// Errors.
  BadSamples() = default;
  /// As `settings` say.
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
  /// What was wrong with the first one left out.
  const std::string& first() const { return first_; }
  /// What a person should know. @param samples that were left out: "utterances".
  std::vector<std::string> notes(const std::string& samples) const;

 private:
  bool skips_ = false;
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace dragonn::data
