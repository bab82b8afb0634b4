// SPDX-License-Identifier: MIT
/// Tests of what a hostile or broken rank can do to the others: end them, with one line that names it.
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <sys/socket.h>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/tcp.h"
#include "core/rng.h"
#include "tests/comm/cases.h"
#include "tests/comm/hostile_rank.h"
#include "tests/comm/sparse_support.h"
#include "tests/comm/tcp_support.h"

namespace dragonn::comm::test {
namespace {

constexpr std::size_t kNumel = 660;
constexpr std::size_t kTarget = 20;
constexpr double kTimeout = 60;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kPerPlace = 1;
constexpr int kMutations = 60;
#else
constexpr std::size_t kPerPlace = 2;  // damages of raw lists for each collective and place of the hostile rank
constexpr int kMutations = 200;
#endif

/// Every registered collective with every choice of each of its settings, put-back modes among them.
std::vector<Variant> every_variant() {
  std::vector<Variant> all{{"dsa", {{"switch", 0.0}}},
                           {"dsa", {{"switch", 1.0}}},
                           {"oktopk", {{"balance", std::string("always")}, {"balance_above", 1.0}}}};
  for (const std::string& name : Registry<SparseCollectiveEntry>::instance().names()) {
    all.push_back({name});
    for (const SettingSpec& setting : Registry<SparseCollectiveEntry>::instance().at(name).settings) {
      for (const std::string& choice : setting.choices) {
        if (SettingValue(choice) != setting.default_value) all.push_back({name, {{setting.name, choice}}});
      }
    }
  }
  return all;
}

/// An exchange of a group of ranks, one of which is hostile.
struct Setting {
  Variant variant;
  const Selection* selection = nullptr;
  codec::CodecChoice coding;
  int world = 2;
  int hostile = 1;
  std::size_t buckets = 1;
};

std::string describe(const Setting& setting) {
  std::string text = setting.variant.collective;
  for (const auto& [key, value] : setting.variant.settings) text += " " + key + "=" + to_toml(value);
  return fmt::format("{}, {}, selection {}, rank {} of {}, {} bucket(s)", text, setting.coding.name(),
                     setting.selection - selections().data(), setting.hostile, setting.world, setting.buckets);
}

/// Whether the sums of a rank are what a caller may rely on.
void expect_usable(const SparseReduction& out) {
  const auto indices = out.sum.indices.host();
  expect(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end(), "indices ascend");
  expect(indices.empty() || indices.back() < kNumel, "indices are of the bucket");
  const auto returned = out.returned.indices.host();
  expect(std::ranges::adjacent_find(returned, std::greater_equal<>()) == returned.end(), "so do those that came back");
  expect(returned.empty() || returned.back() < kNumel, "and are of the bucket");
  expect(!out.is_dense || out.dense_sum.size() == kNumel, "a sum of all elements");
}

/// Three steps: each rank of up to three leads once, and thresholds of the first are used later.
void exchange_steps(Communicator& communicator, const Setting& setting) {
  GroupReduce group(communicator, setting.coding);
  std::vector<std::unique_ptr<SparseCollective>> collectives;
  for (std::size_t bucket = 0; bucket < setting.buckets; ++bucket)
    collectives.push_back(make_collective(setting.variant.collective, kNumel, setting.variant.settings));
  std::vector<SparseReduction> out(setting.buckets);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const ReduceContext context{.step = step,
                                .k = kTarget,
                                .density = 0.03,
                                .codes_dense = !setting.variant.settings.contains("algorithm"),
                                .selection = setting.selection->traits};
    std::vector<std::vector<float>> acc;
    std::vector<SparseVector> selected;
    for (std::size_t bucket = 0; bucket < setting.buckets; ++bucket) {
      acc.push_back(rounding_gradient(kNumel, step + 10 * bucket, unsigned_rank(communicator)));
      selected.push_back(setting.selection->select(communicator, step, acc.back(), kTarget));
    }
    std::vector<ReducePart> parts;
    for (std::size_t bucket = 0; bucket < setting.buckets; ++bucket) {
      parts.push_back(
          {collectives[bucket].get(), &context, std::span<const float>(acc[bucket]), &selected[bucket], &out[bucket]});
    }
    group.run(parts);
    for (const SparseReduction& reduction : out) expect_usable(reduction);
  }
}

/// Runs the exchange over TCP. Returns the errors by rank.
std::vector<std::string> errors_with(const Setting& setting, const HostileRank::Tamper& tamper,
                                     double timeout_s = kTimeout) {
  return tcp_errors(setting.world, timeout_s, [&](Communicator& communicator) {
    if (communicator.rank() != setting.hostile) return exchange_steps(communicator, setting);
    HostileRank hostile(communicator, tamper);
    exchange_steps(hostile, setting);
  });
}

/// Checks that every other rank has ended with one line that names the hostile one.
void check_named(const Setting& setting, const std::vector<std::string>& errors) {
  for (int rank = 0; rank < setting.world; ++rank) {
    if (rank == setting.hostile) continue;
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    CAPTURE(error);
    CHECK(contains(error, fmt::format("rank {}", setting.hostile)));
    CHECK(!contains(error, "\n"));
  }
}

/// A list that a message carries, and how it was read.
struct FoundList {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  bool has_values = true;
};

/// Reads a message as a list of the bucket; nothing if it is none.
std::optional<FoundList> list_in(const codec::ListCodec& codec, const Outgoing& message, const Bytes& bytes) {
  const bool may_be = message.phase == Phase::kExchange && message.tag != kTagAllreduce && bytes.size() >= 4;
  if (!may_be) return std::nullopt;
  for (const bool has_values : {false, true}) {
    try {
      SparseVector buffer;
      Bytes copy(bytes);
      const ListView list = codec.decode(copy, has_values, buffer);
      std::span<const std::uint32_t> indices = list.indices.host();
      while (!indices.empty() && indices.back() == kEmptySlot) indices = indices.first(indices.size() - 1);
      const bool ascends = std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end();
      if (indices.empty() || !ascends || indices.back() >= kNumel) continue;
      FoundList found{{indices.begin(), indices.end()}, {}, has_values};
      if (has_values) found.values.assign(list.values.data(), list.values.data() + indices.size());
      return found;
    } catch (const DataError&) {
      // It is something else.
    }
  }
  return std::nullopt;
}

/// Writes a list of any content, as no honest rank would. A raw one may have slots that are left.
Bytes code_of(const codec::ListCodec& codec, const FoundList& list, std::size_t slots) {
  const View<const float> values = list.has_values ? View<const float>(std::span(list.values)) : View<const float>();
  const ListView view{std::span(list.indices), values};
  if (codec.is_fixed_size()) {
    Bytes code(codec.max_bytes(std::max(slots, list.indices.size()), list.has_values));
    codec.encode(view, list.has_values, code);
    return code;
  }
  Bytes code(4 * codec.max_bytes(list.indices.size(), list.has_values) + 64);  // gaps below zero take more
  code.resize(codec.encode(view, list.has_values, code));
  return code;
}

/// A way to change a message that leaves nothing valid. Returns whether it applies to the message.
struct Damage {
  const char* name;
  bool (*apply)(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes);
};

template <class Change>
bool change_list(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes, const Change& change) {
  std::optional<FoundList> list = list_in(codec, message, bytes);
  if (!list || !change(*list)) return false;
  const std::size_t slots = codec.is_fixed_size() ? bytes.size() / codec.max_bytes(1, list->has_values) : 0;
  bytes = code_of(codec, *list, slots);
  return true;
}

/// Makes the last entry one that the bucket does not have, too small to reach a sum.
template <std::uint32_t kIndex>
bool ends_with(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes) {
  return change_list(codec, message, bytes, [](FoundList& list) {
    list.indices.back() = kIndex;
    if (list.has_values) list.values.back() = 1e-20f;
    return true;
  });
}

bool has_too_many(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes) {
  return change_list(codec, message, bytes, [](FoundList& list) {
    list.indices.resize(kNumel + 1);
    for (std::uint32_t i = 0; i <= kNumel; ++i) list.indices[i] = i;
    if (list.has_values) list.values.resize(kNumel + 1, 1.0f);
    return true;
  });
}

bool repeats_an_index(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes) {
  return change_list(codec, message, bytes, [](FoundList& list) {
    if (list.indices.size() < 2) return false;
    list.indices[1] = list.indices[0];
    return true;
  });
}

/// Swaps indices where they are sent as they are; most codes cannot say that.
bool descends(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes) {
  const std::optional<FoundList> list = list_in(codec, message, bytes);
  if (!list || list->indices.size() < 2) return false;
  const std::size_t begin = codec.is_fixed_size() ? 0 : sizeof(std::uint32_t);
  std::array<std::uint32_t, 2> first{};
  if (bytes.size() < begin + sizeof(first)) return false;
  std::memcpy(first.data(), bytes.data() + begin, sizeof(first));
  if (first[0] != list->indices[0] || first[1] != list->indices[1]) return false;
  std::swap(first[0], first[1]);
  std::memcpy(bytes.data() + begin, first.data(), sizeof(first));
  return true;
}

bool begins_with_an_empty_slot(const codec::ListCodec& codec, const Outgoing& message, Bytes& bytes) {
  if (!codec.is_fixed_size()) return false;
  return change_list(codec, message, bytes, [](FoundList& list) {
    list.indices.front() = kEmptySlot;
    return list.indices.size() > 1;
  });
}

bool lacks_a_byte(const codec::ListCodec&, const Outgoing& message, Bytes& bytes) {
  if (bytes.empty() || message.phase == Phase::kMetrics) return false;
  bytes.pop_back();
  return true;
}

template <std::size_t kMore>
bool has_more_bytes(const codec::ListCodec&, const Outgoing& message, Bytes& bytes) {
  if (bytes.empty() || message.phase == Phase::kMetrics) return false;
  bytes.resize(bytes.size() + kMore, std::byte{1});
  return true;
}

/// Announces a count, or proposes a boundary, that no bucket has.
template <std::uint64_t kCount>
bool counts(const codec::ListCodec&, const Outgoing& message, Bytes& bytes) {
  if (message.phase != Phase::kHeader || bytes.size() < sizeof(std::uint32_t)) return false;
  const std::uint64_t count = kCount;
  std::memcpy(bytes.data(), &count, std::min(bytes.size(), sizeof(count)));
  return true;
}

constexpr std::array kDamages{
    Damage{"ends with an index behind the bucket", ends_with<700>},
    Damage{"ends with an index far behind the bucket", ends_with<0x40000000>},
    Damage{"ends with the largest index", ends_with<kEmptySlot - 1>},
    Damage{"has more entries than the bucket", has_too_many},
    Damage{"repeats an index", repeats_an_index},
    Damage{"does not ascend", descends},
    Damage{"begins with an empty slot", begins_with_an_empty_slot},
    Damage{"lacks a byte", lacks_a_byte},
    Damage{"has a byte more", has_more_bytes<1>},
    Damage{"has a megabyte more", has_more_bytes<1 << 20>},
    Damage{"counts one entry more than the bucket", counts<kNumel + 1>},
    Damage{"counts 2^32 - 1 entries", counts<0xFFFFFFFF>},
    Damage{"counts 2^64 - 1 entries", counts<~std::uint64_t{0}>},
};

/// A damage to one message of the hostile rank.
struct Attack {
  std::size_t message;
  const Damage* damage;
};

/// Returns every damage that applies to a message of the exchange: the ranks run in this process, unharmed.
std::vector<Attack> attacks(const Setting& setting) {
  const auto codec = codec::make_list_codec(setting.coding);
  std::vector<Attack> found;
  const auto look = [&](const Outgoing& message, const Bytes& bytes) {
    for (const Damage& damage : kDamages) {
      Bytes copy(bytes);
      if (damage.apply(*codec, message, copy)) found.push_back({message.number, &damage});
    }
  };
  run_local(setting.world, {}, [&](Communicator& communicator) {
    if (communicator.rank() != setting.hostile) return exchange_steps(communicator, setting);
    HostileRank hostile(communicator, look);
    exchange_steps(hostile, setting);
  });
  return found;
}

void check_attack(const Setting& setting, const Attack& attack) {
  const std::string what = fmt::format("{}: message {} {}", describe(setting), attack.message, attack.damage->name);
  CAPTURE(what);
  const auto codec = codec::make_list_codec(setting.coding);
  check_named(setting, errors_with(setting, [&](const Outgoing& message, Bytes& bytes) {
                if (message.number == attack.message) attack.damage->apply(*codec, message, bytes);
              }));
}

/// Returns the selections that the variant takes, those with a bound for layouts that need one.
std::vector<const Selection*> selections_for(const Variant& variant) {
  const auto layout = variant.settings.find("layout");
  const bool is_fixed = layout != variant.settings.end() && layout->second == SettingValue(std::string("fixed"));
  std::vector<const Selection*> taken;
  for (const Selection& selection : selections()) {
    if (accepts(variant, selection.traits) && (!is_fixed || selection.traits.fits_k_slots()))
      taken.push_back(&selection);
  }
  return taken;
}

/// A group of ranks and the one that is hostile: the root or a leaf of trees, and a rank that passes on what others
/// sent.
constexpr std::array<std::pair<int, int>, 5> kPlaces{{{2, 1}, {2, 0}, {3, 1}, {3, 0}, {4, 2}}};

/// Returns raw lists, and pairs of codecs: every one of indices and every one of values that the collective can send.
std::vector<codec::CodecChoice> codings_for(const Variant& variant, std::size_t turn) {
  const auto& entry = Registry<SparseCollectiveEntry>::instance().at(variant.collective);
  const auto indices = Registry<codec::IndexCodecEntry>::instance().names();
  auto values = Registry<codec::ValueCodecEntry>::instance().names();
  std::erase_if(values, [&](const std::string& name) {
    return !entry.sends(Registry<codec::ValueCodecEntry>::instance().at(name));
  });
  std::vector<codec::CodecChoice> all{{}};
  for (std::size_t i = 0; i < std::max(indices.size(), values.size()); ++i)
    all.push_back(coding_of(indices[(i + turn) % indices.size()], values[i % values.size()]));
  return all;
}

/// The changes of a sender that is broken in any way.
void mutate(Bytes& bytes, Rng& rng) {
  for (std::uint64_t changes = 1 + rng.below(3); changes > 0 && !bytes.empty(); --changes) {
    const auto place = static_cast<std::size_t>(rng.below(bytes.size()));
    switch (rng.below(5)) {
      case 0:
        bytes[place] ^= static_cast<std::byte>(1u << rng.below(8));
        break;
      case 1:
        bytes[place] = static_cast<std::byte>(rng());
        break;
      case 2:
        bytes.resize(place);
        break;
      case 3:
        for (std::uint64_t more = 1 + rng.below(20); more > 0; --more) bytes.push_back(static_cast<std::byte>(rng()));
        break;
      default:  // a length, a count or an index
        for (std::size_t i = place / 4 * 4; i < std::min(place / 4 * 4 + 4, bytes.size()); ++i)
          bytes[i] = std::byte{static_cast<unsigned char>(rng.below(2) == 0 ? 0xFF : 0)};
    }
  }
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("hostile: an entry outside of the bucket that a merge drops ends the ranks, and writes nowhere") {
    for (const auto apply : {ends_with<0x40000000>, ends_with<700>}) {
      const Setting setting{.variant = {"gtopk", {{"put_back", std::string("merger")}}},
                            .selection = &selections().front(),
                            .coding = {}};
      const auto codec = codec::make_list_codec(setting.coding);
      bool done = false;
      const auto errors = errors_with(setting, [&](const Outgoing& message, Bytes& bytes) {
        if (!done) done = apply(*codec, message, bytes);
      });
      CHECK(done);
      check_named(setting, errors);
      CHECK(contains(errors[0], "rank 0, in gtopk, receiving from rank 1: "));
    }
  }

  TEST_CASE("hostile: a bad list or count or length ends every collective with its sender's name") {
    std::size_t turn = 0, made = 0;
    std::map<const Damage*, std::size_t> uses;
    for (const Variant& variant : every_variant()) {
      const auto taken = selections_for(variant);
      for (const codec::CodecChoice& coding : codings_for(variant, turn)) {
        // Raw lists meet several damages in every place, each other codec one.
        const std::size_t places = coding.is_raw() ? kPlaces.size() : 1;
        for (std::size_t i = 0; i < places; ++i) {
          const auto [world, hostile] = kPlaces[(turn + i) % kPlaces.size()];
          const Setting setting{variant, taken[turn % taken.size()], coding, world, hostile};
          const std::vector<Attack> all = attacks(setting);
          const std::size_t count = std::min(all.size(), coding.is_raw() ? kPerPlace : 1);
          for (std::size_t attack = 0; attack < count; ++attack) {
            const Attack& chosen = all[(turn + attack * all.size() / count) % all.size()];
            check_attack(setting, chosen);
            ++uses[chosen.damage];
            ++made;
          }
        }
        ++turn;
      }
    }
    CHECK(uses.size() == kDamages.size());
    MESSAGE(made, " attacks");
  }

  TEST_CASE("hostile: messages of any bytes end the ranks with their sender's name, or are data") {
    Rng rng(29, "hostile");
    const std::vector<Variant> variants = every_variant();
    for (int mutation = 0; mutation < kMutations; ++mutation) {
      const Variant& variant = variants[rng.below(variants.size())];
      const std::vector<codec::CodecChoice> codings = codings_for(variant, static_cast<std::size_t>(mutation));
      const codec::CodecChoice& coding = codings[mutation % 3 == 0 ? 0 : rng.below(codings.size())];
      const auto taken = selections_for(variant);
      const Setting setting{variant, taken[rng.below(taken.size())], coding,
                            2,       static_cast<int>(rng.below(2)), 1 + rng.below(3)};
      const std::string what = describe(setting);
      CAPTURE(mutation);
      CAPTURE(what);
      const std::size_t victim = rng.below(12);
      // A count that may be, and is not that of the list, can make both wait for each other until the deadline.
      const bool has_headers = mutation % 20 == 0;
      std::size_t seen = 0;
      const auto tamper = [&](const Outgoing& message, Bytes& bytes) {
        if ((has_headers || message.phase != Phase::kHeader) && seen++ == victim) mutate(bytes, rng);
      };
      const auto errors = errors_with(setting, tamper, /*timeout_s=*/1);
      // Other values of the right form are data: expect_usable has then looked at the sums.
      const bool ended = std::ranges::any_of(errors, [](const std::string& error) { return !error.empty(); });
      if (ended) check_named(setting, errors);
    }
  }

  TEST_CASE("hostile: a length of a text takes no memory that the text does not fill") {
    for (const int world : {2, 3}) {
      for (const std::uint64_t length :
           {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 40, std::uint64_t{1} << 25}) {
        CAPTURE(length);
        const Setting setting{.variant = {}, .coding = {}, .world = world, .hostile = 1};
        const auto errors = tcp_errors(world, kTimeout, [&](Communicator& communicator) {
          std::string text = "short";
          if (communicator.rank() != setting.hostile) return communicator.broadcast_text(setting.hostile, text);
          HostileRank hostile(communicator, [&](const Outgoing& message, Bytes& bytes) {
            const bool is_length = message.number < static_cast<std::size_t>(world - 1);
            if (is_length) std::memcpy(bytes.data(), &length, std::min(bytes.size(), sizeof(length)));
          });
          hostile.broadcast_text(hostile.rank(), text);
        });
        check_named(setting, errors);
      }
    }
  }

  TEST_CASE("hostile: headers of frames with lengths up to 2^64 end the rank that reads them") {
    constexpr std::uint64_t kMax = ~std::uint64_t{0};
    for (const FrameHeader& header :
         {FrameHeader{FrameKind::kMessage, kTagAllgather, kMax},
          FrameHeader{FrameKind::kMessage, kTagAllgather, kMax / 2},
          FrameHeader{FrameKind::kMessage, kTagAllgather, std::uint64_t{1} << 40},
          FrameHeader{FrameKind::kMessage, 0, std::uint64_t{1} << 36}, FrameHeader{FrameKind::kAbort, 0, kMax},
          FrameHeader{FrameKind::kHere, 0, std::uint64_t{1} << 40}, FrameHeader{FrameKind::kNotification, 0, 8},
          FrameHeader{static_cast<FrameKind>(99), 0, 8}}) {
      const TemporaryFolder folder;
      const auto errors = run_each(tcp_world(2, kTimeout, folder.path()), [&](const TcpOptions& options) {
        if (options.rank == 0) return run_tcp(options, [](Communicator& communicator) { communicator.barrier(); });
        const std::vector<Descriptor> connections = connect_ranks(options);
        ::send(connections[0].get(), &header, sizeof(header), MSG_NOSIGNAL);
        ::shutdown(connections[0].get(), SHUT_WR);
        std::byte byte{};
        while (::recv(connections[0].get(), &byte, 1, 0) > 0) {
        }
      });
      const std::string error = text_of(errors[0]);
      CAPTURE(error);
      CHECK(contains(error, "rank 1"));
      CHECK(!contains(error, "\n"));
    }
  }
}

}  // namespace dragonn::comm::test
