// SPDX-License-Identifier: MIT
#include "data/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "data/text/byte_pairs.h"

namespace dragonn::data {
namespace {

class CharacterEncoder final : public TextEncoder {
 public:
  explicit CharacterEncoder(const std::vector<std::string>& characters) : characters_(characters) {}

  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t length = std::max<std::size_t>(utf8_length(text, position), 1);
      const std::string_view character = text.substr(position, length);
      const auto found = std::ranges::lower_bound(characters_, character);
      if (found == characters_.end() || *found != character) {
        throw DataError(fmt::format("the vocabulary has no character '{}'", excerpt(character)));
      }
      tokens.push_back(static_cast<std::int32_t>(found - characters_.begin()));
      position += length;
    }
  }

 private:
  const std::vector<std::string>& characters_;
};

}  // namespace

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) text += bytes(token);
  return text;
}

std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / Characters::kFile)) {
    return std::make_unique<Characters>(Characters::read(folder / Characters::kFile));
  }
  return std::make_unique<BytePairs>(BytePairs::read(folder));
}

Characters::Characters(std::vector<std::string> characters) : characters_(std::move(characters)) {
  DRAGONN_CHECK(std::ranges::is_sorted(characters_), "the characters of a vocabulary ascend");
}

Characters Characters::read(const std::filesystem::path& path) {
  constexpr std::size_t kMaxCharacters = 65535;
  try {
    auto characters = nlohmann::json::parse(read_text_file(path)).get<std::vector<std::string>>();
    const bool ascend = std::ranges::adjacent_find(characters, std::ranges::greater_equal()) == characters.end();
    const bool are_single = std::ranges::all_of(
        characters, [](const std::string& text) { return !text.empty() && utf8_length(text, 0) == text.size(); });
    if (ascend && are_single && characters.size() <= kMaxCharacters) return Characters(std::move(characters));
  } catch (const nlohmann::json::exception&) {  // the same message
  }
  throw DataError(fmt::format("{} should be a list of at most {} characters, in the order of their code points",
                              path.string(), kMaxCharacters));
}

std::string_view Characters::bytes(std::int32_t token) const {
  return token == end_of_text() ? std::string_view() : characters_.at(static_cast<std::size_t>(token));
}

std::unique_ptr<TextEncoder> Characters::encoder() const {
  return std::make_unique<CharacterEncoder>(characters_);
}

void Characters::write(const std::filesystem::path& folder) const {
  write_file_atomically(folder / kFile, nlohmann::json(characters_).dump() + "\n");
}

}  // namespace dragonn::data
