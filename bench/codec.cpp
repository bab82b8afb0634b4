// SPDX-License-Identifier: MIT
/// `dragonn-bench codec`: bits that a selected entry takes in a message, against the least that its index can take, and
/// the rates of encoding and decoding lists on one thread.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/codec_peers.h"
#include "bench/device_timer.h"
#include "bench/options.h"
#include "codec/list_codec.h"
#include "core/rng.h"

namespace dragonn::bench {
namespace {

using codec::IndexCodecEntry;
using codec::ValueCodecEntry;

constexpr const char* kRandom = "random";
constexpr const char* kClustered = "clustered";

/// Draws about density * numel indices: each element with the same probability, or runs of elements of which half are
/// taken, of 32 elements in the mean.
std::vector<std::uint32_t> draw_indices(const std::string& pattern, std::size_t numel, double density) {
  Rng rng(1, "codec benchmark");
  const auto geometric = [&](double mean) {
    return mean <= 0 ? 0.0 : std::floor(std::log1p(-rng.uniform_double()) / std::log(mean / (mean + 1)));
  };
  constexpr double kRun = 16;  // indices of a run
  const bool is_clustered = pattern == kClustered;
  const double mean_gap = 1 / density - 1;
  // A run of 16 indices with gaps of 1 in the mean leaves the rest of the gaps between two runs.
  const double far_gap = std::max(0.0, kRun * mean_gap - (kRun - 1));
  std::vector<std::uint32_t> indices;
  double next = 0;
  for (std::size_t taken = 0;; ++taken) {
    const bool is_near = is_clustered && taken % static_cast<std::size_t>(kRun) != 0;
    next += geometric(is_clustered ? (is_near ? std::min(1.0, mean_gap) : far_gap) : mean_gap);
    if (next >= static_cast<double>(numel)) return indices;
    indices.push_back(static_cast<std::uint32_t>(next));
    next += 1;
  }
}

/// Returns log2 of the number of ways to choose k of n elements, per element chosen.
double bound_bits(std::size_t numel, std::size_t entries) {
  const auto n = static_cast<double>(numel), k = static_cast<double>(entries);
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0) / k;
}

class CodecBenchmark final : public Benchmark {
 public:
  void declare_options(CLI::App& command) override {
    command.add_option("--indices", indices_, "Codecs of indices to measure, or all")->delimiter(',');
    command.add_option("--values", values_, "Codecs of values to measure, or all")->delimiter(',');
    command.add_flag("--alone", alone_,
                     "Indices without values, compared with the codecs of streamvbyte and zstd if they are built in");
    command.add_option("--set", assignments_, "Override a setting of a codec (repeatable)")
        ->type_name("CODEC.KEY=VALUE")
        ->default_str("");
    command.add_option("--numel", numel_, "Elements of the bucket")
        ->check(CLI::Range(std::size_t{1}, std::size_t{kEmptySlot} - 1));
    command.add_option("--density", densities_, "Shares of the elements that are selected")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 1.0));
    command.add_option("--pattern", patterns_, "Where the selected elements are")
        ->delimiter(',')
        ->check(CLI::IsMember({kRandom, kClustered}));
    command.add_option("--rounds", rounds_, "Measurements of each row; the table shows medians")
        ->check(CLI::Range(1, 100000));
  }

  Rows run(Progress& progress) override {
    const MethodSettings of_indices = chosen<IndexCodecEntry>(indices_), of_values = chosen<ValueCodecEntry>(values_);
    progress.plan(static_cast<double>(indices_.size() * values_.size() * densities_.size() * patterns_.size()));
    Rows rows;
    for (const std::string& pattern : patterns_) {
      for (const double density : densities_) {
        const std::vector<std::uint32_t> indices = draw_indices(pattern, numel_, density);
        for (const std::string& name : indices_) {
          for (const std::string& value_name : values_) {
            const codec::CodecChoice coding{{name, of_indices.at(name)}, {value_name, of_values.at(value_name)}};
            rows.push_back(measure(coding, {indices, pattern, density}));
            progress.advance(1, fmt::format("{}, density {}, {}", coding.name(), density, pattern));
          }
        }
        if (!alone_) continue;
        for (const PeerCodec& peer : peer_codecs()) rows.push_back(measure(peer, {indices, pattern, density}));
      }
    }
    return rows;
  }

 private:
  /// Returns the settings of the chosen codecs of one kind, with those assignments that are theirs.
  template <class Entry>
  MethodSettings chosen(std::vector<std::string>& names) const {
    if (names == std::vector<std::string>{"all"}) names = Registry<Entry>::instance().names();
    std::vector<std::string> own;
    for (const std::string& assignment : assignments_) {
      if (Registry<Entry>::instance().contains(assignment.substr(0, assignment.find('.')))) own.push_back(assignment);
    }
    return method_settings<Entry>(names, own);
  }

  /// Drawn indices.
  struct Drawn {
    const std::vector<std::uint32_t>& indices;
    const std::string& pattern;
    double density;
  };

  nlohmann::ordered_json measure(const codec::CodecChoice& coding, const Drawn& drawn) const {
    const std::size_t entries = drawn.indices.size();
    Rng rng(1, "codec benchmark values");
    std::vector<float> values(alone_ ? 0 : entries);
    for (float& value : values) value = rng.normal();
    const ListView list{std::span(drawn.indices), std::span<const float>(values)};
    const auto codec = codec::make_list_codec(coding);
    Buffer<std::byte> code(codec->max_bytes(entries, !alone_));
    SparseVector scratch;
    std::size_t bytes = 0;
    const auto encode = [&] { return bytes = codec->encode(list, !alone_, code.host()); };
    const auto decode = [&] { codec->decode(code.host().first(bytes), !alone_, scratch); };
    // What papers send is read in place: there is no time to measure.
    const bool decodes = !coding.is_raw();
    const std::size_t of_values = alone_ ? 0
                                         : Registry<ValueCodecEntry>::instance()
                                               .at(coding.values.name)
                                               .make(coding.values.settings)
                                               ->code_bytes(entries);
    return row(coding.indices.name, alone_ ? "none" : coding.values.name, drawn, of_values, encode, decode, decodes);
  }

  nlohmann::ordered_json measure(const PeerCodec& peer, const Drawn& drawn) const {
    std::vector<std::byte> code(peer.max_bytes(drawn.indices.size()));
    std::vector<std::uint32_t> decoded(drawn.indices.size());
    std::size_t bytes = 0;
    const auto encode = [&] { return bytes = peer.encode(drawn.indices, code); };
    const auto decode = [&] { peer.decode(std::span(code).first(bytes), decoded); };
    nlohmann::ordered_json measured = row(peer.name, "none", drawn, 0, encode, decode);
    DRAGONN_CHECK(decoded == drawn.indices, "{} decodes to other indices", peer.name);
    return measured;
  }

  /// Times encode(), which returns the bytes of the code, and decode(). @param decodes whether decoding does work.
  template <class Encode, class Decode>
  nlohmann::ordered_json row(const std::string& name, const std::string& values, const Drawn& drawn,
                             std::size_t value_bytes, const Encode& encode, const Decode& decode,
                             bool decodes = true) const {
    std::size_t bytes = 0;
    std::vector<double> encoding, decoding;
    for (int round = -1; round < rounds_; ++round) {  // the first touches the memory
      const double encoded = seconds_of([&] { bytes = encode(); });
      const double decoded = seconds_of(decode);
      if (round < 0) continue;
      encoding.push_back(encoded);
      decoding.push_back(decoded);
    }
    const std::size_t entries = drawn.indices.size();
    const auto per_entry = [&](std::size_t count) {
      return 8.0 * static_cast<double>(count) / static_cast<double>(entries);
    };
    const double million = static_cast<double>(entries) / 1e6;
    const auto if_decodes = [&](double number) { return decodes ? nlohmann::ordered_json(number) : nullptr; };
    return {{"indices", name},
            {"values", values},
            {"numel", numel_},
            {"density", drawn.density},
            {"pattern", drawn.pattern},
            {"entries", entries},
            {"bits_per_entry", per_entry(bytes)},
            {"index_bits", per_entry(bytes - value_bytes)},
            {"bound_bits", bound_bits(numel_, entries)},
            {"encode_seconds_median", percentile(encoding, 0.5)},
            {"decode_seconds_median", if_decodes(percentile(decoding, 0.5))},
            {"encode_per_us", million / percentile(encoding, 0.5)},
            {"decode_per_us", if_decodes(million / percentile(decoding, 0.5))}};
  }

  std::vector<std::string> indices_{"all"};
  std::vector<std::string> values_{codec::kRawValues};
  std::vector<std::string> assignments_;
  std::size_t numel_ = std::size_t{1} << 24;
  std::vector<double> densities_{0.1, 0.01, 0.001};
  std::vector<std::string> patterns_{kRandom, kClustered};
  int rounds_ = 15;
  bool alone_ = false;
};

const Registration<BenchmarkEntry> registration{
    {{"codec", "Measures codecs of lists: bits per entry, and rates of encoding and decoding"},
     [] { return std::make_unique<CodecBenchmark>(); },
     {.conditions = {"values", "numel", "pattern", "density"},
      .results = {"indices", "bits_per_entry", "index_bits", "bound_bits", "encode_per_us", "decode_per_us"}},
     {"codec --alone", "codec --indices rice --values all --density 0.01",
      "codec --numel 1000000 --pattern clustered --wide"}}};

}  // namespace
}  // namespace dragonn::bench
