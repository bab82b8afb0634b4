// SPDX-License-Identifier: MIT
#include "data/text/tokenize.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/printable.h"
#include "data/share_items.h"
#include "data/text/token_shard.h"

namespace dragonn::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kProgressFile = "tokenize.progress.json";
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

/// A part of a file that goes to one split.
struct Section {
  std::filesystem::path path;
  std::size_t begin, end;  ///< bytes
  bool validates;
};

/// The place where tokenizing goes on: a section, and the bytes of it that are done.
struct Place {
  std::size_t section = 0;
  std::size_t done = 0;
};

std::size_t size_of(const std::filesystem::path& path) {
  return open_regular_file(path).bytes;
}

std::string read_part(const Section& section, std::size_t begin, std::size_t bytes) {
  const RegularFile file = open_regular_file(section.path);
  std::string text(bytes, '\0');
  for (std::size_t read = 0; read < bytes;) {
    const ssize_t count = ::pread(file.descriptor.get(), text.data() + read, bytes - read,
                                  static_cast<off_t>(section.begin + begin + read));
    if (count <= 0) throw DataError(fmt::format("{} became shorter while it was read", section.path.string()));
    read += static_cast<std::size_t>(count);
  }
  return text;
}

/// Returns the sections of a job: all texts to train on, then those to evaluate on.
std::vector<Section> sections_of(const TokenizeJob& job) {
  std::vector<Section> sections, held_out;
  std::size_t total = 0;
  for (const auto& path : job.texts) total += size_of(path);
  std::size_t left = total - static_cast<std::size_t>(job.held_out * static_cast<double>(total));
  for (const auto& path : job.texts) {
    Section section{path, 0, size_of(path), false};
    std::size_t cut = std::min(left, section.end);
    left -= cut;
    // A character is not cut.
    if (cut > 0 && cut < section.end) {
      const std::string next = read_part(section, cut, std::min<std::size_t>(4, section.end - cut));
      for (const char byte : next) {
        if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) break;
        ++cut;
      }
    }
    if (cut < section.end) held_out.push_back({path, cut, section.end, true});
    section.end = cut;
    if (cut > 0 || held_out.empty()) sections.push_back(section);
  }
  sections.insert(sections.end(), held_out.begin(), held_out.end());
  for (const auto& path : job.validation) sections.push_back({path, 0, size_of(path), true});
  return sections;
}

/// Returns the bytes from `done` on that are one piece: about kPieceBytes, up to a line feed between two characters
/// that are no white space. There a text can be cut without another word: the line feed is one either way.
std::string next_piece(const Section& section, std::size_t done) {
  const std::size_t left = section.end - section.begin - done;
  for (std::size_t bytes = kPieceBytes;; bytes *= 2) {
    if (bytes >= left) return read_part(section, done, left);
    std::string text = read_part(section, done, bytes);
    const auto is_ascii_graph = [&](std::size_t at) { return text[at] > ' ' && text[at] < 0x7F; };
    for (std::size_t at = text.size() - 2; at > 0; --at) {
      if (text[at] != '\n' || !is_ascii_graph(at - 1) || !is_ascii_graph(at + 1)) continue;
      text.resize(at + 1);
      return text;
    }
  }
}

/// A piece of text on its way to tokens.
struct Piece {
  Place place;
  std::string text;
  bool ends_section = false;
};

/// Reads the next pieces of a job's sections, one per thread, and moves `place` behind them.
std::vector<Piece> next_pieces(const std::vector<Section>& sections, Place& place, std::size_t count, bool one_split) {
  std::vector<Piece> pieces;
  while (pieces.size() < count && place.section < sections.size()) {
    const Section& section = sections[place.section];
    if (one_split && !pieces.empty() && section.validates != sections[pieces.back().place.section].validates) break;
    Piece piece{place, next_piece(section, place.done)};
    place.done += piece.text.size();
    piece.ends_section = place.done == section.end - section.begin;
    if (piece.ends_section) place = {place.section + 1, 0};
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

/// Applies the rule for bytes that are not UTF-8.
void check_utf8(Piece& piece, const Section& section, InvalidUtf8 rule) {
  if (rule == InvalidUtf8::kBytes) return;
  for (std::size_t at = 0; at < piece.text.size();) {
    const std::size_t length = utf8_length(piece.text, at);
    if (length > 0) {
      at += length;
      continue;
    }
    if (rule == InvalidUtf8::kReplace) {
      piece.text = with_replacements(piece.text);
      return;
    }
    throw DataError(fmt::format("{}: byte {:#04x} at offset {} is not UTF-8", section.path.string(),
                                static_cast<unsigned char>(piece.text[at]), section.begin + piece.place.done + at));
  }
}

/// Returns what a job is recognized by.
std::string fingerprint(const TokenizeJob& job, const std::vector<Section>& sections, const Tokenizer& tokenizer) {
  std::string text = fmt::format("{} {}", job.shard_tokens, static_cast<int>(job.invalid));
  for (const auto& section : sections) {
    const auto time = std::filesystem::last_write_time(section.path).time_since_epoch().count();
    text += fmt::format("\n{} {} {} {} {}", std::filesystem::absolute(section.path).string(), section.begin,
                        section.end, section.validates, time);
  }
  for (std::int32_t token = 0; token < tokenizer.end_of_text(); ++token) {
    text += '\n';
    text += tokenizer.bytes(token);
  }
  return hash_text(hash_bytes(std::as_bytes(std::span(text))));
}

/// The shards of a job on the disk, and the file that says how far it is.
class Output {
 public:
  Output(const TokenizeJob& job, std::string fingerprint) : job_(job), fingerprint_(std::move(fingerprint)) {
    std::filesystem::create_directories(job.output);
    lock_ = FolderLock(job.output);
    for (const char* name : {kTokensFile, kProgressFile}) {
      const std::filesystem::path path = job.output / name;
      if (!std::filesystem::exists(path)) continue;
      state_ = Json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
      if (!state_.is_object() || state_.value("job", "") != fingerprint_) {
        throw ConfigError(
            fmt::format("{} has token shards of other texts, or by other rules: choose another folder, or "
                        "remove it",
                        job.output.string()));
      }
      is_done_ = name == kTokensFile;
      return;
    }
    state_ = {{"job", fingerprint_}, {"section", 0}, {"byte", 0}};
    for (const char* split : {"train", "validation"}) state_[split] = {{"shards", 0}, {"tokens", 0}};
  }

  bool is_done() const { return is_done_; }
  Place place() const { return {state_.at("section"), state_.at("byte")}; }
  std::uint64_t tokens(const char* split) const { return state_.at(split).at("tokens"); }

  /// Adds the tokens of a piece; `next` is where the texts go on.
  void add(std::span<const std::int32_t> tokens, bool validates, const Place& next) {
    if (validates != validates_) close_shard(next);
    validates_ = validates;
    for (const std::int32_t token : tokens) shard_.push_back(static_cast<std::uint16_t>(token));
    if (shard_.size() >= job_.shard_tokens) close_shard(next);
  }
  void finish(const Place& end, std::size_t vocabulary) {
    close_shard(end);
    state_["vocabulary"] = vocabulary;
    write_file_atomically(job_.output / kTokensFile, state_.dump(2) + "\n");
    std::filesystem::remove(job_.output / kProgressFile);
  }
  /// Writes the open shard, if there is one. @param next the first byte behind its text.
  void close_shard(const Place& next) {
    if (shard_.empty()) return;
    Json& split = state_[validates_ ? "validation" : "train"];
    const std::uint64_t number = split["shards"];
    const std::string name = fmt::format("{}_{:06}.bin", validates_ ? "validation" : "train", number);
    write_token_shard(job_.output / name, shard_);
    split["shards"] = number + 1;
    split["tokens"] = split["tokens"].get<std::uint64_t>() + shard_.size();
    state_["section"] = next.section;
    state_["byte"] = next.done;
    write_file_atomically(job_.output / kProgressFile, state_.dump(2) + "\n");
    shard_.clear();
  }

 private:
  const TokenizeJob& job_;
  std::string fingerprint_;
  FolderLock lock_;
  Json state_;
  bool is_done_ = false;
  bool validates_ = false;
  std::vector<std::uint16_t> shard_;
};

std::uint64_t bytes_before(const std::vector<Section>& sections, const Place& place) {
  std::uint64_t bytes = place.done;
  for (std::size_t i = 0; i < place.section; ++i) bytes += sections[i].end - sections[i].begin;
  return bytes;
}

}  // namespace

TokenizeResult tokenize(const TokenizeJob& job, const Tokenizer& tokenizer,
                        const std::function<void(std::uint64_t, std::uint64_t)>& report) {
  const std::vector<Section> sections = sections_of(job);
  Output output(job, fingerprint(job, sections, tokenizer));
  const Place end{sections.size(), 0};
  TokenizeResult result{.bytes = bytes_before(sections, end)};
  Place place = output.is_done() ? end : output.place();
  result.resumed_bytes = bytes_before(sections, place);
  std::vector<std::unique_ptr<TextEncoder>> encoders;
  for (std::size_t i = 0; i < job.threads; ++i) encoders.push_back(tokenizer.encoder());
  std::vector<std::vector<std::int32_t>> tokens(job.threads);
  while (place.section < sections.size()) {
    std::vector<Piece> pieces = next_pieces(sections, place, job.threads, /*one_split=*/true);
    share_items(job.threads, pieces.size(), [&](std::size_t item, std::size_t thread) {
      check_utf8(pieces[item], sections[pieces[item].place.section], job.invalid);
      tokens[item].clear();
      encoders[thread]->encode(pieces[item].text, tokens[item]);
      if (pieces[item].ends_section) tokens[item].push_back(tokenizer.end_of_text());
    });
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Place next = i + 1 < pieces.size() ? pieces[i + 1].place : place;
      output.add(tokens[i], sections[pieces[i].place.section].validates, next);
    }
    report(bytes_before(sections, place), result.bytes);
  }
  if (!output.is_done()) {
    tokenizer.write(job.output);
    output.finish(end, tokenizer.size());
  }
  result.train_tokens = output.tokens("train");
  result.validation_tokens = output.tokens("validation");
  return result;
}

namespace {

/// Calls take(text) with every piece of some sections.
template <class Take>
void for_each_piece(const TokenizeJob& job, const std::vector<Section>& sections,
                    const std::function<void(std::uint64_t, std::uint64_t)>& report, Take take) {
  const std::uint64_t total = bytes_before(sections, {sections.size(), 0});
  for (Place place; place.section < sections.size(); report(bytes_before(sections, place), total)) {
    for (Piece& piece : next_pieces(sections, place, 1, /*one_split=*/true)) {
      check_utf8(piece, sections[piece.place.section], job.invalid);
      take(piece.text);
    }
  }
}

}  // namespace

Characters find_characters(const TokenizeJob& job, const std::function<void(std::uint64_t, std::uint64_t)>& report) {
  std::set<std::string, std::less<>> found;
  for_each_piece(job, sections_of(job), report, [&](std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = std::max<std::size_t>(utf8_length(text, at), 1);
      if (const auto character = text.substr(at, length); !found.contains(character)) found.emplace(character);
      at += length;
    }
  });
  return Characters({found.begin(), found.end()});
}

BytePairs train_byte_pairs(const TokenizeJob& job, std::size_t size,
                           const std::function<void(std::uint64_t, std::uint64_t)>& report) {
  std::vector<Section> sections = sections_of(job);
  std::erase_if(sections, [](const Section& section) { return section.validates; });
  std::unordered_map<std::string, std::uint64_t> words;
  for_each_piece(job, sections, report, [&](std::string_view text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = word_end(text, begin);
      ++words[std::string(text.substr(begin, end - begin))];
      begin = end;
    }
  });
  return BytePairs(train_merges(words, size));
}

}  // namespace dragonn::data
