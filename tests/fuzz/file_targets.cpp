// SPDX-License-Identifier: MIT
/// The readers of files: data sets, arrays, archives, and the folders of runs that dragonn-compare reads.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/archive.h"
#include "core/hash.h"
#include "core/npy.h"
#include "core/printable.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "data/images/idx.h"
#include "data/images/image_cache.h"
#include "data/images/image_file.h"
#include "data/speech/audio.h"
#include "data/speech/transcripts.h"
#include "data/text/byte_pairs.h"
#include "data/text/squad_file.h"
#include "data/text/token_shard.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "data/xc_file.h"
#include "report/compare.h"
#include "report/outputs.h"
#include "report/run.h"
#include "tests/fuzz/target.h"

namespace dragonn::fuzz {
namespace {

/// Leaves out what is bad, so that readers go on behind it.
data::BadSamples skipping() {
  Settings settings({data::bad_samples_setting("samples")});
  settings.set("bad_samples", std::string("skip"));
  return data::BadSamples(settings);
}

/// A finding of the fuzzer's own: a reader broke its promise.
void require(bool holds) {
  if (!holds) std::abort();
}

void read_archive(Bytes bytes) {
  const Archive archive = Archive::read(write_file("archive.safetensors", bytes));
  require(archive.size_bytes() <= bytes.size());
}

void read_npy_file(Bytes bytes) {
  const std::filesystem::path path = write_file("array.npy", bytes);
  require(read_npy(path).values.size() * sizeof(float) <= bytes.size());
}

void read_gzip(Bytes bytes) {
  constexpr std::size_t kLimit = 1 << 20;
  require(data::read_maybe_gzip(write_file("file.gz", bytes), kLimit).size() <= std::max(kLimit, bytes.size()));
}

/// Images and labels, in two parts.
void read_idx_files(Bytes bytes) {
  const std::size_t labels = std::min<std::size_t>(bytes.size(), 40);
  const std::filesystem::path label_file = write_file("labels.idx", bytes.last(labels));
  data::read_idx_images(write_file("images.idx", bytes.first(bytes.size() - labels)), label_file, 4, 4, 10);
}

void read_cifar(Bytes bytes) {
  const data::DatasetEntry& entry = Registry<data::DatasetEntry>::instance().at("cifar10");
  const std::filesystem::path path = write_file("cifar/test_batch.bin", bytes);
  write_file("cifar/data_batch_1.bin", bytes);
  entry.load(Settings(entry.settings), path.parent_path().string(), 1);
}

void read_xc(Bytes bytes) {
  data::BadSamples bad = skipping();
  const data::SparsePoints points = data::read_xc_file(write_file("points.txt", bytes), bad);
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const data::SparseFeature& feature : points.features(i)) require(feature.index < points.feature_count());
    for (const std::int32_t label : points.labels(i)) require(label >= 0 && label < points.label_count());
  }
}

void read_manifest(Bytes bytes) {
  data::BadSamples bad = skipping();
  const data::Alphabet alphabet("abcdefghijklmnopqrstuvwxyz' ");
  write_file("speech/a.flac", {});
  for (const data::Utterance& utterance : data::read_manifest(write_file("speech/manifest.tsv", bytes), bad)) {
    bad.accept([&] { alphabet.encode(utterance.text, utterance.place); });
  }
}

void read_an4(Bytes bytes) {
  data::BadSamples bad = skipping();
  const std::vector<Bytes> parts = parts_of(bytes, 2);
  write_file("an4/wav/a.raw", {});
  write_file("an4/etc/train.fileids", parts[0]);
  const std::filesystem::path path = write_file("an4/etc/train.transcription", parts[1]);
  data::read_an4_transcripts(path.parent_path().parent_path(), "train", bad);
}

void read_audio_file(Bytes bytes) {
  data::read_audio(write_file("audio.flac", bytes), 16000, 16000 * 30);
}

void read_raw_audio(Bytes bytes) {
  require(data::read_audio(write_file("audio.raw", bytes), 16000, SIZE_MAX).size() <= bytes.size());
}

void read_text(Bytes bytes) {
  data::BadSamples bad = skipping();
  const std::string text = data::read_utf8_file(write_file("text.txt", bytes), bad);
  for (const data::TokenLevel level : {data::TokenLevel::kWord, data::TokenLevel::kCharacter}) {
    const data::Vocabulary vocabulary(text, {.level = level, .minimum_count = 2, .largest = 100});
    for (const std::int32_t number : vocabulary.encode(text)) {
      require(number >= 0 && static_cast<std::size_t>(number) < vocabulary.size());
    }
  }
}

/// A vocabulary, and a text that it cuts into pieces.
void read_wordpiece(Bytes bytes) {
  const std::vector<Bytes> parts = parts_of(bytes, 2);
  const data::WordPiece pieces(write_file("vocab.txt", parts[0]), true);
  data::BadSamples bad = skipping();
  const std::string text = data::read_utf8_file(write_file("text.txt", parts[1]), bad);
  for (const data::Piece& piece : pieces.encode(text)) {
    require(piece.begin <= piece.end && piece.end <= text.size());
    require(piece.number >= 0 && static_cast<std::size_t>(piece.number) < pieces.size());
  }
}

/// Merges and numbers of tokens.
void read_merges(Bytes bytes) {
  const std::vector<Bytes> parts = parts_of(bytes, 2);
  const std::filesystem::path folder = write_file("merges/vocab.bpe", parts[0]).parent_path();
  write_file("merges/encoder.json", parts[1]);
  const data::BytePairs pairs = data::BytePairs::read(folder);
  for (const data::Merge& merge : pairs.merges()) require(pairs.rank(merge.left, merge.right) >= 0);
}

/// A text, of which a vocabulary is made: whatever its bytes are, tokens decode to them.
void read_byte_pairs(Bytes bytes) {
  const std::string text = text_of(bytes);
  std::unordered_map<std::string, std::uint64_t> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = data::word_end(text, begin);
    require(end > begin && end <= text.size());
    ++words[text.substr(begin, end - begin)];
    begin = end;
  }
  const data::BytePairs pairs(data::train_merges(words, 300));
  std::vector<std::int32_t> tokens;
  pairs.encoder()->encode(text, tokens);
  require(pairs.decode(tokens) == text);
  const std::string replaced = data::with_replacements(text);
  for (std::size_t at = 0; at < replaced.size();) {
    require(utf8_length(replaced, at) > 0);
    at += utf8_length(replaced, at);
  }
}

void read_token_shard(Bytes bytes) {
  const data::TokenShard shard(write_file("shard.bin", bytes));
  require(hash_bytes(std::as_bytes(shard.tokens())) != 1);  // reads all of them
}

void read_squad(Bytes bytes) {
  data::BadSamples bad = skipping();
  const data::SquadFile file = data::read_squad_file(write_file("squad.json", bytes), bad);
  for (const data::SquadQuestion& question : file.questions) require(question.paragraph < file.paragraphs.size());
}

void read_image(Bytes bytes) {
  const auto image = data::open_image(bytes, "image");
  constexpr std::int64_t kSide = 512;  // all of a small image, and the middle of a large one
  const data::ImageSize size = image->size();
  const data::Region region{std::max<std::int64_t>(0, (size.height - kSide) / 2),
                            std::max<std::int64_t>(0, (size.width - kSide) / 2), std::min(size.height, kSide),
                            std::min(size.width, kSide)};
  std::vector<std::uint8_t> rgb;
  image->decode(region, rgb);
}

void read_image_cache(Bytes bytes) {
  const data::ImageCacheRules rules{
      .images = 2, .shorter_side = 4, .fingerprint = 7, .threads = 1, .path = {}, .fault = {}};
  const data::ImageCache cache(write_file("images.cache", bytes), rules);
  for (std::size_t i = 0; i < rules.images; ++i) {
    const data::RgbView image = cache.image(i);
    const std::size_t used = image.stride * static_cast<std::size_t>(image.size.height);
    if (used > 0) require(hash_bytes(std::as_bytes(std::span(image.pixels, used))) != 1);  // reads all of them
  }
}

/// The folder of a run: config.toml, summary.json and metrics.jsonl; all outputs of dragonn-compare.
void read_run(Bytes bytes) {
  const std::vector<Bytes> parts = parts_of(bytes, 3);
  write_file("run/config.toml", parts[0]);
  write_file("run/summary.json", parts[1]);
  const std::filesystem::path folder = write_file("run/metrics.jsonl", parts[2]).parent_path();
  std::vector<report::Run> runs{report::load_run(folder)};
  const report::Comparison comparison = report::compare(std::move(runs));
  report::html_page(comparison, {}, "fuzz");
  report::runs_csv(comparison);
  report::curves_csv(comparison);
  report::svg_figure(comparison, "fuzz");
  report::terminal_summary(comparison);
}

void read_fits(Bytes bytes) {
  report::load_fits(write_file("fits.json", bytes));
}

constexpr Target kTargets[]{{"an4", read_an4},
                            {"archive", read_archive},
                            {"audio", read_audio_file},
                            {"byte_pairs", read_byte_pairs},
                            {"cifar", read_cifar},
                            {"fits", read_fits},
                            {"gzip", read_gzip},
                            {"idx", read_idx_files},
                            {"image", read_image},
                            {"image_cache", read_image_cache},
                            {"manifest", read_manifest},
                            {"merges", read_merges},
                            {"npy", read_npy_file},
                            {"raw_audio", read_raw_audio},
                            {"run", read_run},
                            {"squad", read_squad},
                            {"text", read_text},
                            {"token_shard", read_token_shard},
                            {"wordpiece", read_wordpiece},
                            {"xc", read_xc}};

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

}  // namespace dragonn::fuzz
