// SPDX-License-Identifier: MIT
/// The readers of what begins and joins a run: configs, profiles, checkpoints, messages, lines and codes of others.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

#include "codec/list_codec.h"
#include "codec/values/value_codec.h"
#include "comm/elastic/protocol.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/listener.h"
#include "comm/tcp/rendezvous.h"
#include "core/error.h"
#include "core/safetensors.h"
#include "tests/fuzz/target.h"
#include "trainer/config/config.h"
#include "trainer/cost_model/tensor_selection.h"
#include "trainer/metrics/metrics.h"
#include "trainer/run/checkpoint.h"
#include "trainer/update/schemes/round_length.h"

namespace dragonn::fuzz {
namespace {

/// A finding of the fuzzer's own: a reader broke its promise.
void require(bool holds) {
  if (!holds) std::abort();
}

constexpr const char* kRun = R"(
[model]
name = "mlp"
[data]
name = "synthetic_images"
[train]
epochs = 1
batch_size = 4
[optimizer]
name = "sgd"
learning_rate = 0.05
)";

/// A config that is valid is one again when it is printed.
void check(const trainer::RunSpec& spec) {
  trainer::config_warnings(spec);
  trainer::parse_config(trainer::to_toml(spec), "printed");
}

void read_config(Bytes bytes) {
  check(trainer::parse_config(text_of(bytes), "config.toml"));
}

/// Values of --set, on top of a small config.
void read_overrides(Bytes bytes) {
  std::vector<std::string> overrides;
  for (const Bytes part : parts_of(bytes, 1 + static_cast<std::size_t>(std::ranges::count(bytes, std::byte{0})))) {
    overrides.push_back(text_of(part));
  }
  check(trainer::parse_config(kRun, "config.toml", overrides));
}

void read_profile(Bytes bytes) {
  const std::string text = text_of(bytes);
  try {
    const trainer::Profile profile = trainer::parse_profile(text, "profile.json");
    if (!profile.rows.empty()) {
      trainer::CostCurve(trainer::rows_of(profile, profile.rows.front().key)).encode_seconds(1000);
    }
  } catch (const Error&) {
    // It may be a selection.
  }
  trainer::to_json(trainer::parse_selection(text, "profile.json"));
}

/// DONE and rank 0's archive of a checkpoint; that of the model has the right checksums.
void read_checkpoint(Bytes bytes) {
  const std::vector<Bytes> parts = parts_of(bytes, 2);
  const std::filesystem::path folder = write_file("checkpoints/step-00000001/DONE", parts[0]).parent_path();
  Archive model;
  model.put_text("checkpoint/save", text_of(parts[0]));
  model.put("progress/world_size", std::int64_t{1});
  write_file("checkpoints/step-00000001/rank-0000.safetensors", parts[1]);
  model.write(folder / "model.safetensors");
  const trainer::CheckpointStore store(folder.parent_path());
  store.list();
  store.newest();
  trainer::CheckpointStore::read_model(folder);
  trainer::CheckpointStore::read_rank(folder, 0);
}

void read_safetensors(Bytes bytes) {
  const SafetensorsFile file(write_file("weights.safetensors", bytes));
  std::size_t total = 0;
  for (const FileTensor& tensor : file.tensors()) total += tensor.bytes.size();
  require(total <= bytes.size());
}

/// The lines that an earlier part of the run wrote, and its rounds of local steps.
void read_metrics(Bytes bytes) {
  trainer::MetricsWriter(write_file("metrics.jsonl", bytes), 10, trainer::TimeKind::kWall);
  const trainer::InnerStepsRecord record(write_file("metrics.jsonl", bytes));
}

/// Two connected sockets.
struct Connection {
  Connection() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
    ours = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
  }
  Descriptor ours, theirs;
};

/// Sends what fits into the socket, and no more.
void send_and_end(const Descriptor& socket, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  ::shutdown(socket.get(), SHUT_WR);
}

/// The frames of a rank: messages for three receives, and for none.
void read_frames(Bytes bytes) {
  const Connection connection;
  comm::Incoming incoming(connection.ours.get());
  std::array<std::array<std::byte, 64>, 3> capacities{};
  std::array<std::size_t, 3> receives{};
  for (std::size_t i = 0; i < capacities.size(); ++i)
    receives[i] = incoming.start(static_cast<int>(i / 2), capacities[i]);
  send_and_end(connection.theirs, bytes);
  incoming.read();
  for (const std::size_t receive : receives) {
    if (incoming.is_done(receive)) require(incoming.capacity(receive) == sizeof(capacities[0]));
  }
  for (int tag = 0; tag < 3 && !incoming.is_closed(); ++tag) incoming.start(tag, capacities[0]);
  incoming.take_question();
  incoming.take_answer();
  while (incoming.take_notification()) {
  }
  incoming.drop();
  incoming.read();
  require(incoming.is_closed());
}

/// A listener whose connections need no network, and a connection to it.
class Door {
 public:
  Door() : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    // An address without a name: the system gives one.
    require(::bind(listener_.get(), pointer(), sizeof(sa_family_t)) == 0 && ::listen(listener_.get(), 1) == 0);
    require(::getsockname(listener_.get(), pointer(), &size_) == 0);
  }
  Descriptor connect() {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    require(::connect(socket.get(), pointer(), size_) == 0);
    return socket;
  }
  Descriptor take_listener() { return std::move(listener_); }

 private:
  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_un address_{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size_ = sizeof(address_);
  Descriptor listener_;
};

const comm::Secret& secret() {
  static const comm::Secret kept(std::vector<std::byte>(comm::Secret::kMinBytes, std::byte{7}));
  return kept;
}

/// A greeting, for a listener with a secret and for one without.
void read_greeting(Bytes bytes) {
  for (const comm::Secret* expected : {static_cast<const comm::Secret*>(nullptr), &secret()}) {
    Door door;
    const Descriptor other = door.connect();
    send_and_end(other, bytes);
    comm::Listener listener(door.take_listener(), expected);
    std::string problem;
    // This accepts the connection, reads what has come, and then waits in vain: briefly, or a million runs take hours.
    for (const comm::AcceptedConnection& accepted : listener.wait(comm::deadline_after(5e-4), problem)) {
      require(expected == nullptr);
      comm::version_of(accepted.hello);
      accepted.hello.listener.text();
    }
  }
}

/// The reply to a greeting of a rank that has a secret.
void read_reply(Bytes bytes) {
  const Connection connection;
  send_and_end(connection.theirs, bytes);
  const comm::Obstacle obstacle =
      comm::greet(connection.ours, comm::hello_of(1, 2), &secret(), comm::deadline_after(1), [] { return true; });
  require(!obstacle.empty());
}

void read_rendezvous(Bytes bytes) {
  const auto file = comm::RendezvousFile::read(write_file("rendezvous", bytes));
  if (!file) return;
  for (const comm::Address& address : file->addresses) require(comm::parse_address(address.text()).has_value());
}

/// A line that is one is one again when it is sent on.
template <class Line>
void check_line(const std::string& text) {
  const auto line = Line::parse(text);
  if (!line) return;
  const auto sent = Line::parse(line->text());  // a long reason is cut there
  require(sent && Line::parse(sent->text()) == sent);
}

/// A line of a member of an elastic run, of its coordinator, or of that one's journal.
void read_elastic_line(Bytes bytes) {
  const std::string text = text_of(bytes);
  check_line<comm::MemberLine>(text);
  check_line<comm::CoordinatorLine>(text);
  check_line<comm::JournalEntry>(text);
}

/// Returns the codecs of lists; that which DRAGONN_FUZZ_CODEC names, as "rice x float32", if it is set.
std::vector<std::unique_ptr<codec::ListCodec>> chosen_codecs() {
  const char* only = std::getenv("DRAGONN_FUZZ_CODEC");
  std::vector<std::unique_ptr<codec::ListCodec>> codecs;
  for (const std::string& indices : Registry<codec::IndexCodecEntry>::instance().names()) {
    for (const std::string& values : Registry<codec::ValueCodecEntry>::instance().names()) {
      const codec::CodecChoice coding{
          {indices, Settings(Registry<codec::IndexCodecEntry>::instance().at(indices).settings)},
          {values, Settings(Registry<codec::ValueCodecEntry>::instance().at(values).settings)}};
      if (!coding.is_raw() && (only == nullptr || coding.name() == only)) codecs.push_back(make_list_codec(coding));
    }
  }
  const codec::CodecChoice raw;  // the last: seeds choose by number
  if (only == nullptr || raw.name() == only) codecs.push_back(make_list_codec(raw));
  require(!codecs.empty());
  return codecs;
}

/// The code of a list, or a list as it is; its indices ascend. The first byte chooses the codecs.
void read_list_code(Bytes bytes) {
  static const auto codecs = chosen_codecs();
  if (bytes.empty()) return;
  const auto choice = std::to_integer<std::size_t>(bytes[0]);
  const bool has_values = choice % 2 == 0;
  const std::vector<std::byte> code(bytes.begin() + 1, bytes.end());
  SparseVector buffer;
  const ListView list = codecs[choice / 2 % codecs.size()]->decode(code, has_values, buffer);
  const auto indices = list.indices.host();
  require(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end());
  require(indices.empty() || indices.back() < kEmptySlot);
  require(!has_values || list.values.size() == indices.size());
}

/// The code of all values of a bucket. The first byte chooses the codec.
void read_value_code(Bytes bytes) {
  const std::vector<std::string> names = Registry<codec::QuantizerEntry>::instance().names();
  if (bytes.empty()) return;
  const std::string& name = names[std::to_integer<std::size_t>(bytes[0]) % names.size()];
  const codec::QuantizerEntry& entry = Registry<codec::QuantizerEntry>::instance().at(name);
  constexpr std::size_t kNumel = 700;
  const auto codec = entry.make(Settings(entry.settings));
  std::vector<float> sum(kNumel);
  codec->sum(View<const std::byte>(bytes.subspan(1)), {}, View<float>(sum));
  codec->sum(View<const std::byte>(bytes.subspan(1)), {.keep = true, .factor = -1}, View<float>(sum));
}

constexpr Target kTargets[]{
    {"checkpoint", read_checkpoint}, {"config", read_config},           {"elastic_line", read_elastic_line},
    {"frames", read_frames},         {"greeting", read_greeting},       {"list_codec", read_list_code},
    {"metrics", read_metrics},       {"profile", read_profile},         {"rendezvous", read_rendezvous},
    {"reply", read_reply},           {"safetensors", read_safetensors}, {"set", read_overrides},
    {"value_codec", read_value_code}};

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

}  // namespace dragonn::fuzz
