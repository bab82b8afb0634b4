// SPDX-License-Identifier: MIT
#include "data/text/byte_pairs.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "data/text/utf8.h"

namespace dragonn::data {
namespace {

enum class CharacterClass : std::uint8_t { kOther, kLetter, kDigit, kSpace };

/// Unicode's property White_Space, which \s of regular expressions stands for.
bool is_white_space(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

CharacterClass class_of(std::uint32_t character) {
  static const std::vector<CharacterClass> classes = [] {
    std::vector<CharacterClass> table(0x110000);
    for (std::uint32_t c = 0; c < table.size(); ++c) {
      if (is_white_space(c)) {
        table[c] = CharacterClass::kSpace;
      } else if (is_letter(c)) {
        table[c] = CharacterClass::kLetter;
      } else if (is_digit(c)) {
        table[c] = CharacterClass::kDigit;
      }
    }
    return table;
  }();
  return classes[character];
}

/// A character of a text: its class, and the bytes that it takes.
struct Character {
  CharacterClass kind;
  std::size_t bytes;
};

Character character_at(std::string_view text, std::size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {class_of(byte), 1};
  char32_t character = 0;
  const std::size_t length = utf8_character(text, position, character);
  return length == 0 ? Character{CharacterClass::kOther, 1} : Character{class_of(character), length};
}

/// Returns the end of the run of characters of one class that begins at `position`.
std::size_t run_end(std::string_view text, std::size_t position, CharacterClass kind) {
  while (position < text.size()) {
    const Character next = character_at(text, position);
    if (next.kind != kind) break;
    position += next.bytes;
  }
  return position;
}

/// The code points that stand for bytes in GPT-2's files: a byte that prints stands for itself, the others are from
/// U+0100 on. Tokens 0 to 255 are the bytes in this order: those that print first.
struct ByteNames {
  std::array<unsigned char, 256> bytes;   ///< by token
  std::array<std::uint32_t, 256> points;  ///< by byte

  ByteNames() {
    const auto prints = [](unsigned byte) {
      return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    };
    std::size_t token = 0;
    std::uint32_t next = 0x100;
    for (const bool wanted : {true, false}) {
      for (unsigned byte = 0; byte < 256; ++byte) {
        if (prints(byte) != wanted) continue;
        bytes[token++] = static_cast<unsigned char>(byte);
        points[byte] = wanted ? byte : next++;
      }
    }
  }
};

const ByteNames& byte_names() {
  static const ByteNames names;
  return names;
}

/// Returns a token as GPT-2's files write it.
std::string written(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_character(byte_names().points[static_cast<unsigned char>(byte)], text);
  return text;
}

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::size_t slot_of(std::uint64_t pair, std::size_t slots) {
  pair *= 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(pair >> 32) & (slots - 1);
}

constexpr std::uint64_t kNoPair = std::numeric_limits<std::uint64_t>::max();

/// Reads the merges of a file, line by line.
std::vector<Merge> read_merges(const std::filesystem::path& path) {
  std::unordered_map<std::string, std::int32_t> tokens;
  for (std::size_t token = 0; token < byte_names().bytes.size(); ++token) {
    const char byte = static_cast<char>(byte_names().bytes[token]);
    tokens.emplace(written({&byte, 1}), static_cast<std::int32_t>(token));
  }
  const std::string text = read_text_file(path);
  std::vector<Merge> merges;
  std::size_t number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    const auto fault = [&](const std::string& what) {
      return DataError(fmt::format("{}:{}: {}", path.string(), number, what));
    };
    const std::size_t blank = line.find(' ');
    if (blank == 0 || blank == line.npos || blank + 1 == line.size() || line.find(' ', blank + 1) != line.npos) {
      throw fault(fmt::format("'{}' is no merge: expected two tokens with one blank between them", excerpt(line)));
    }
    const auto half = [&](std::string_view token) {
      const auto found = tokens.find(std::string(token));
      if (found != tokens.end()) return found->second;
      throw fault(fmt::format("no line before this one makes '{}'", excerpt(token)));
    };
    merges.push_back({half(line.substr(0, blank)), half(line.substr(blank + 1))});
    std::string made = std::string(line.substr(0, blank)) + std::string(line.substr(blank + 1));
    const auto token = static_cast<std::int32_t>(tokens.size());
    if (!tokens.emplace(std::move(made), token).second) throw fault("an earlier line makes the same token");
    if (merges.size() > BytePairs::kMaxMerges) {
      throw fault(fmt::format("more than {} merges: tokens have 16 bits", BytePairs::kMaxMerges));
    }
  });
  return merges;
}

/// Checks that a JSON object has the number of every token, and no others.
void check_numbers(const std::filesystem::path& path, const BytePairs& pairs) {
  nlohmann::json numbers;
  try {
    numbers = nlohmann::json::parse(read_text_file(path));
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format("{} is not JSON, or truncated", path.string()));
  }
  if (!numbers.is_object() || numbers.size() != pairs.size()) {
    throw DataError(fmt::format("{} should be an object with the numbers of {} tokens, as the merges have them",
                                path.string(), pairs.size()));
  }
  const auto check = [&](const std::string& token, std::int32_t number) {
    const auto found = numbers.find(token);
    if (found != numbers.end() && found->is_number_integer() && *found == number) return;
    throw DataError(fmt::format("{}: token '{}' should have number {}, as the merges count", path.string(),
                                excerpt(token), number));
  };
  for (std::int32_t token = 0; token < pairs.end_of_text(); ++token) check(written(pairs.bytes(token)), token);
  check(std::string(Tokenizer::kEndOfText), pairs.end_of_text());
}

/// Returns how many bytes from `position` on begin a character and lack its end: a maximal part, at least 1.
std::size_t broken_length(std::string_view text, std::size_t position) {
  const auto at = [&](std::size_t i) {
    return position + i < text.size() ? static_cast<unsigned char>(text[position + i]) : 0u;
  };
  const unsigned first = at(0);
  const bool three = first >= 0xE0 && first <= 0xEF, four = first >= 0xF0 && first <= 0xF4;
  if (!three && !four) return 1;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) return 1;
  return four && at(2) >= 0x80 && at(2) <= 0xBF ? 3 : 2;
}

/// Returns how many bytes at the end of a text begin a character and lack its end.
std::size_t cut_bytes(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()); ++bytes) {
    const std::size_t begin = text.size() - bytes;
    const auto first = static_cast<unsigned char>(text[begin]);
    if (first >= 0x80 && first < 0xC0) continue;
    return first >= 0xC2 && first <= 0xF4 && utf8_length(text, begin) == 0 && broken_length(text, begin) == bytes
               ? bytes
               : 0;
  }
  return 0;
}

/// Remembers the words that it has seen.
class BytePairEncoder final : public TextEncoder {
 public:
  explicit BytePairEncoder(const BytePairs& pairs) : pairs_(pairs) {}

  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override;

 private:
  struct Known {
    std::uint32_t begin, count;  ///< in known_tokens_
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };

  /// Merges the pieces of word_ until no pair has a merge.
  void merge_short();
  void merge_long();

  const BytePairs& pairs_;
  std::unordered_map<std::string, Known, Hash, std::equal_to<>> known_;
  std::vector<std::int32_t> known_tokens_;
  std::vector<std::int32_t> word_;
};

void BytePairEncoder::encode(std::string_view text, std::vector<std::int32_t>& tokens) {
  constexpr std::size_t kMaxKnown = std::size_t{1} << 18, kLongestKnown = 64, kLongestShort = 32;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    if (const auto found = known_.find(word); found != known_.end()) {
      const auto first = known_tokens_.begin() + found->second.begin;
      tokens.insert(tokens.end(), first, first + found->second.count);
      continue;
    }
    word_.clear();
    for (const char byte : word) word_.push_back(pairs_.token_of_byte(static_cast<unsigned char>(byte)));
    word.size() <= kLongestShort ? merge_short() : merge_long();
    tokens.insert(tokens.end(), word_.begin(), word_.end());
    if (word.size() > kLongestKnown) continue;
    if (known_.size() == kMaxKnown) {
      known_.clear();
      known_tokens_.clear();
    }
    known_.emplace(word,
                   Known{static_cast<std::uint32_t>(known_tokens_.size()), static_cast<std::uint32_t>(word_.size())});
    known_tokens_.insert(known_tokens_.end(), word_.begin(), word_.end());
  }
}

void BytePairEncoder::merge_short() {
  while (word_.size() > 1) {
    std::int32_t best = std::numeric_limits<std::int32_t>::max();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < word_.size(); ++i) {
      const std::int32_t rank = pairs_.rank(word_[i], word_[i + 1]);
      if (rank >= 0 && rank < best) std::tie(best, place) = std::pair(rank, i);
    }
    if (best == std::numeric_limits<std::int32_t>::max()) return;
    word_[place] = BytePairs::kBytes + best;
    word_.erase(word_.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

void BytePairEncoder::merge_long() {
  struct Candidate {
    std::int32_t rank;
    std::uint32_t place;
    std::int32_t left, right;
    bool operator>(const Candidate& other) const { return std::tie(rank, place) > std::tie(other.rank, other.place); }
  };
  const auto size = static_cast<std::uint32_t>(word_.size());
  constexpr std::int32_t kGone = -1;
  std::vector<std::uint32_t> next(size), previous(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps at 0, which is then `size` or more
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto offer = [&](std::uint32_t place) {
    if (place >= size || next[place] >= size) return;
    const std::int32_t left = word_[place], right = word_[next[place]];
    if (const std::int32_t rank = pairs_.rank(left, right); rank >= 0) candidates.push({rank, place, left, right});
  };
  for (std::uint32_t i = 0; i < size; ++i) offer(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (word_[best.place] != best.left || next[best.place] >= size || word_[next[best.place]] != best.right) continue;
    const std::uint32_t gone = next[best.place];
    word_[best.place] = BytePairs::kBytes + best.rank;
    word_[gone] = kGone;
    next[best.place] = next[gone];
    if (next[gone] < size) previous[next[gone]] = best.place;
    offer(previous[best.place]);
    offer(best.place);
  }
  std::erase(word_, kGone);
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t position) {
  if (text[position] == '\'') {
    for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text.substr(position, contraction.size()) == contraction) return position + contraction.size();
    }
  }
  const std::size_t begin = position + (text[position] == ' ' && position + 1 < text.size() ? 1 : 0);
  const Character first = character_at(text, begin);
  if (first.kind != CharacterClass::kSpace) return run_end(text, begin + first.bytes, first.kind);
  std::size_t last = position, end = position;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    // The last white space before something else is left for that.
    if (next.kind != CharacterClass::kSpace) return last > position ? last : end;
    last = end;
    end += next.bytes;
  }
  return end;
}

std::string with_replacements(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    if (const std::size_t length = utf8_length(text, position); length > 0) {
      result += text.substr(position, length);
      position += length;
    } else {
      result += "\xEF\xBF\xBD";
      position += broken_length(text, position);
    }
  }
  return result;
}

std::string CharacterStream::add(std::string_view bytes) {
  cut_ += bytes;
  const std::size_t whole = cut_.size() - cut_bytes(cut_);
  std::string text = with_replacements(std::string_view(cut_).substr(0, whole));
  cut_.erase(0, whole);
  return text;
}

BytePairs::BytePairs(std::vector<Merge> merges) : merges_(std::move(merges)) {
  DRAGONN_CHECK(merges_.size() <= kMaxMerges, "{} merges: at most {} have numbers of 16 bits", merges_.size(),
                kMaxMerges);
  tokens_.reserve(kBytes + merges_.size());
  for (std::int32_t token = 0; token < kBytes; ++token) {
    const unsigned char byte = byte_names().bytes[static_cast<std::size_t>(token)];
    byte_tokens_[byte] = token;
    tokens_.emplace_back(1, static_cast<char>(byte));
  }
  std::size_t slots = 512;
  while (slots < 2 * merges_.size()) slots *= 2;
  ranks_.assign(slots, {kNoPair, -1});
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right] = merges_[i];
    const auto made = static_cast<std::int32_t>(tokens_.size());
    DRAGONN_CHECK(left >= 0 && left < made && right >= 0 && right < made, "merge {} is of tokens that do not exist", i);
    tokens_.push_back(tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)]);
    std::size_t slot = slot_of(pair_of(left, right), slots);
    while (ranks_[slot].pair != kNoPair) slot = (slot + 1) & (slots - 1);
    ranks_[slot] = {pair_of(left, right), static_cast<std::int32_t>(i)};
  }
}

BytePairs BytePairs::read(const std::filesystem::path& folder) {
  const bool has_other_names =
      !std::filesystem::exists(folder / "vocab.bpe") && std::filesystem::exists(folder / "merges.txt");
  BytePairs pairs(read_merges(folder / (has_other_names ? "merges.txt" : "vocab.bpe")));
  check_numbers(folder / (has_other_names ? "vocab.json" : "encoder.json"), pairs);
  return pairs;
}

void BytePairs::write(const std::filesystem::path& folder) const {
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : merges_)
    lines += fmt::format("{} {}\n", written(bytes(left)), written(bytes(right)));
  nlohmann::ordered_json::object_t numbers;  // appended to: numbers[...] would search all of them
  for (std::int32_t token = 0; token < end_of_text(); ++token) numbers.emplace_back(written(bytes(token)), token);
  numbers.emplace_back(kEndOfText, end_of_text());
  write_file_atomically(folder / "vocab.bpe", lines);
  write_file_atomically(folder / "encoder.json", nlohmann::ordered_json(std::move(numbers)).dump() + "\n");
}

std::unique_ptr<TextEncoder> BytePairs::encoder() const {
  return std::make_unique<BytePairEncoder>(*this);
}

std::int32_t BytePairs::rank(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t slot = slot_of(pair, ranks_.size());; slot = (slot + 1) & (ranks_.size() - 1)) {
    if (ranks_[slot].pair == pair || ranks_[slot].pair == kNoPair) return ranks_[slot].rank;
  }
}

std::vector<Merge> train_merges(const std::unordered_map<std::string, std::uint64_t>& words, std::size_t size) {
  struct Word {
    std::vector<std::int32_t> tokens;
    std::uint64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words = {};  // that had it when they were last looked at
  };
  struct Candidate {
    std::int64_t count;
    std::uint64_t pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  const BytePairs single(std::vector<Merge>{});
  std::vector<Word> all;
  std::unordered_map<std::uint64_t, Pair> pairs;
  for (const auto& [text, count] : words) {
    Word word{{}, count};
    for (const char byte : text) word.tokens.push_back(single.token_of_byte(static_cast<unsigned char>(byte)));
    const auto number = static_cast<std::uint32_t>(all.size());
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      Pair& pair = pairs[pair_of(word.tokens[i], word.tokens[i + 1])];
      pair.count += static_cast<std::int64_t>(count);
      if (pair.words.empty() || pair.words.back() != number) pair.words.push_back(number);
    }
    all.push_back(std::move(word));
  }
  std::priority_queue<Candidate> queue;
  for (const auto& [pair, found] : pairs) queue.push({found.count, pair});
  std::vector<Merge> merges;
  std::vector<std::string> texts;  // by token
  for (std::int32_t token = 0; token < BytePairs::kBytes; ++token) texts.emplace_back(single.bytes(token));
  std::unordered_set<std::string> made_texts;
  std::vector<std::uint64_t> changed;
  while (!queue.empty() && BytePairs::kBytes + merges.size() + 1 < size) {
    const Candidate best = queue.top();
    queue.pop();
    const std::int64_t now = pairs[best.pair].count;
    if (now != best.count) {  // an old offer: counts that fell are offered anew
      if (now >= 2 && now < best.count) queue.push({now, best.pair});
      continue;
    }
    if (now < 2) break;
    const auto left = static_cast<std::int32_t>(best.pair >> 32);
    const auto right = static_cast<std::int32_t>(best.pair & 0xFFFFFFFFu);
    std::string text = texts[best.pair >> 32] + texts[best.pair & 0xFFFFFFFFu];
    if (!made_texts.insert(text).second) continue;  // other tokens make the same bytes already
    texts.push_back(std::move(text));
    const auto made = static_cast<std::int32_t>(BytePairs::kBytes + merges.size());
    merges.push_back({left, right});
    changed.clear();
    for (const std::uint32_t number : std::exchange(pairs[best.pair].words, {})) {
      Word& word = all[number];
      const auto count = static_cast<std::int64_t>(word.count);
      const auto add = [&](std::size_t place, std::int64_t change) {
        const std::uint64_t key = pair_of(word.tokens[place], word.tokens[place + 1]);
        Pair& pair = pairs[key];
        pair.count += change;
        if (change < 0) return;
        if (pair.words.empty() || pair.words.back() != number) pair.words.push_back(number);
        changed.push_back(key);
      };
      for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
        if (word.tokens[i] != left || word.tokens[i + 1] != right) continue;
        if (i > 0) add(i - 1, -count);
        add(i, -count);
        if (i + 2 < word.tokens.size()) add(i + 1, -count);
        word.tokens[i] = made;
        word.tokens.erase(word.tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        if (i > 0) add(i - 1, count);
        if (i + 1 < word.tokens.size()) add(i, count);
      }
    }
    std::ranges::sort(changed);
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const std::uint64_t pair : changed) queue.push({pairs[pair].count, pair});
  }
  return merges;
}

}  // namespace dragonn::data
