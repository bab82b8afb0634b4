// SPDX-License-Identifier: MIT
#include "comm/measure_pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/agreement.h"
#include "comm/machine.h"
#include "comm/subgroup.h"
#include "core/error.h"

namespace dragonn::comm {
namespace {

constexpr std::size_t kAnswerBytes = 8;
constexpr std::size_t kFirstBytes = std::size_t{1} << 16;  // of which no token bucket lets much pass at once
constexpr std::size_t kLongestBytes = std::size_t{64} << 20;
constexpr double kMostPortBytes = 256.0 * (1 << 20);
/// A port's bytes to or from one peer are cut into messages of at most so many bytes, as MPI sends longer ones to
/// several ranks one after the other, and into at least so many messages, which reach all peers side by side.
constexpr double kLongestChunk = 1 << 20, kShortestChunk = 1 << 12, kFewestChunks = 16;
constexpr std::size_t kRuns = 3;
constexpr double kShortest = 1e-9;  // a clock may be coarse

double median(std::array<double, kRuns> values) {
  std::ranges::nth_element(values, values.begin() + kRuns / 2);
  return values[kRuns / 2];
}

/// The link of two ranks: the times of messages, by the order in which the ranks are named.
struct Link {
  double one_way = 0;          ///< seconds of kAnswerBytes, the mean of both directions
  double there = 0, back = 0;  ///< bytes per second

  /// The latency is the time of a message without the time of its bytes.
  double latency() const { return std::max(one_way - kAnswerBytes / 2.0 * (1 / there + 1 / back), 0.0); }
};

/// Measures the rate of long messages from rank `source` of a pair to the other; the result is the source's.
/// @param both_ways seconds of an answer and of an empty message.
double send_long_messages(Communicator& pair, double both_ways, double seconds) {
  const int receiver = 1 - pair.rank();
  std::vector<std::byte> memory;
  const auto announce = [&](std::uint64_t bytes) {
    pair.send(receiver, kTagPing, Communicator::as_bytes(std::span<const std::uint64_t>(&bytes, 1)));
  };
  const auto measure = [&](std::size_t bytes) {
    memory.resize(bytes);
    announce(bytes);
    std::array<std::byte, kAnswerBytes> answer{};
    const double start = pair.now();
    pair.send(receiver, kTagPing, View<const std::byte>(std::span<const std::byte>(memory)));
    pair.recv_exactly(receiver, kTagPing, View<std::byte>(std::span<std::byte>(answer)));
    return std::max(pair.now() - start - both_ways, kShortest);
  };
  std::size_t bytes = kFirstBytes;
  measure(bytes);  // a connection may have to get up to speed
  double took = measure(bytes);
  while (took < seconds / 2 && bytes < kLongestBytes) {
    // At most 64 times as long: the time of a short message says little.
    const double longer = std::clamp(seconds / took, 2.0, 64.0) * static_cast<double>(bytes);
    bytes = std::min(static_cast<std::size_t>(longer), kLongestBytes);
    took = measure(bytes);
  }
  std::array<double, kRuns> times{took};
  for (std::size_t run = 1; run < kRuns; ++run) times[run] = measure(bytes);
  announce(0);
  return static_cast<double>(bytes - kAnswerBytes) / median(times);
}

void answer_long_messages(Communicator& pair) {
  const int sender = 1 - pair.rank();
  std::vector<std::byte> memory;
  const std::array<std::byte, kAnswerBytes> answer{};
  for (;;) {
    std::uint64_t bytes = 0;
    pair.recv_exactly(sender, kTagPing, Communicator::as_writable_bytes(std::span(&bytes, 1)));
    if (bytes == 0) return;
    if (bytes > kLongestBytes) {
      throw pair.error("receiving from", sender, "it announces a message of more than 64 MiB to measure the network");
    }
    memory.resize(bytes);
    pair.recv_exactly(sender, kTagPing, View<std::byte>(std::span(memory)));
    pair.send(sender, kTagPing, View<const std::byte>(std::span<const std::byte>(answer)));
  }
}

/// Measures between two ranks, while the others wait. Returns the result on every rank.
Link measure_link(Communicator& communicator, int first, int second, double seconds) {
  Link link;
  if (communicator.rank() == first || communicator.rank() == second) {
    Subgroup pair(communicator, {first, second});
    link.one_way = ping_pong_seconds(pair, kAnswerBytes);
    for (const int source : {0, 1}) {
      double& rate = source == 0 ? link.there : link.back;
      if (pair.rank() == source)
        rate = send_long_messages(pair, 2 * link.one_way, seconds);
      else
        answer_long_messages(pair);
      pair.broadcast_value(source, rate);
    }
  }
  communicator.broadcast_value(first, link);
  return link;
}

/// Returns how many messages so many bytes of one peer are cut into.
std::size_t chunks_of(double bytes) {
  return static_cast<std::size_t>(
      std::ceil(std::max(bytes / kLongestChunk, std::min(bytes / kShortestChunk, kFewestChunks))));
}

/// A node, and the others that send to it or receive from it at once: for each the ranks, the rate of the pair, and
/// the bytes of one of its messages.
class Port {
 public:
  struct Peer {
    int rank;
    double rate;
    double both_ways;  ///< seconds of two short messages, there and back
    std::size_t chunk_bytes = 0;
  };

  Port(int rank, std::vector<Peer> peers, double seconds) : rank_(rank), peers_(std::move(peers)) {
    // The order in which answers are awaited: the answer of a peer that is near does not wait for one from afar.
    std::ranges::stable_sort(peers_, {}, &Peer::both_ways);
    double all = 0, largest = 0;
    for (const Peer& peer : peers_) {
      all += peer.rate;
      largest = std::max(largest, peer.rate);
    }
    // A port as fast as its fastest pair takes `seconds`, unless pairs are many; then one as fast as all takes a part.
    const double each = std::min(seconds * std::max(largest / all, 0.25), kMostPortBytes / all);
    chunks_ = chunks_of(largest * each);
    for (Peer& peer : peers_) {
      const double chunk = peer.rate * each / static_cast<double>(chunks_);
      peer.chunk_bytes = std::max(static_cast<std::size_t>(chunk), kAnswerBytes);
      bytes_ += static_cast<double>(peer.chunk_bytes * chunks_);
    }
  }

  /// Sends to all peers at once. Returns the rate, on every rank.
  double rate_out(Communicator& communicator) const {
    return rate(communicator, [&](const auto& note_end) {
      if (communicator.rank() == rank_) {
        send_all(communicator, peers_);
        for (const Peer& peer : peers_) {
          receive_signal(communicator, peer.rank);
          note_end(peer);
        }
      } else if (const Peer* const self = peer_of(communicator)) {
        receive_all(communicator, {{rank_, 0, 0, self->chunk_bytes}}, [](const Peer&) {});
        signal(communicator, rank_);
      }
    });
  }
  /// Receives from all peers at once. Returns the rate, on every rank.
  double rate_in(Communicator& communicator) const {
    return rate(communicator, [&](const auto& note_end) {
      if (communicator.rank() == rank_) {
        for (const Peer& peer : peers_) signal(communicator, peer.rank);
        receive_all(communicator, peers_, note_end);
      } else if (const Peer* const self = peer_of(communicator)) {
        receive_signal(communicator, rank_);
        send_all(communicator, {{rank_, 0, 0, self->chunk_bytes}});
      }
    });
  }

 private:
  /// @param transfer is called with what to call when a peer's part has come to its end: that takes as long as its
  /// bytes, and two messages that have none.
  template <class Transfer>
  double rate(Communicator& communicator, const Transfer& transfer) const {
    std::array<double, kRuns> times{};
    for (double& time : times) {
      align(communicator);
      const double start = communicator.now();
      time = kShortest;
      transfer([&](const Peer& peer) { time = std::max(time, communicator.now() - start - peer.both_ways); });
    }
    double rate = bytes_ / median(times);
    communicator.broadcast_value(rank_, rate);
    return rate;
  }

  const Peer* peer_of(Communicator& communicator) const {
    const auto found = std::ranges::find(peers_, communicator.rank(), &Peer::rank);
    return found == peers_.end() ? nullptr : &*found;
  }
  static void signal(Communicator& communicator, int to) {
    const std::array<std::byte, kAnswerBytes> word{};
    communicator.send(to, kTagPing, View<const std::byte>(std::span<const std::byte>(word)));
  }
  static void receive_signal(Communicator& communicator, int from) {
    std::array<std::byte, kAnswerBytes> word{};
    communicator.recv_exactly(from, kTagPing, View<std::byte>(std::span<std::byte>(word)));
  }
  void send_all(Communicator& communicator, const std::vector<Peer>& peers) const {
    std::vector<std::byte> memory(std::ranges::max(peers, {}, &Peer::chunk_bytes).chunk_bytes);
    const View<const std::byte> message{std::span<const std::byte>(memory)};
    std::vector<Request> requests;
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      for (const Peer& peer : peers)
        requests.push_back(communicator.isend(peer.rank, kTagPing, message.subview(0, peer.chunk_bytes)));
    }
    for (Request& request : requests) communicator.wait(request);
  }
  template <class Note>
  void receive_all(Communicator& communicator, const std::vector<Peer>& peers, const Note& note_end) const {
    std::vector<std::vector<std::byte>> memory;
    for (const Peer& peer : peers) memory.emplace_back(peer.chunk_bytes);
    std::vector<Request> requests(peers.size());
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      for (std::size_t i = 0; i < peers.size(); ++i)
        requests[i] = communicator.irecv(peers[i].rank, kTagPing, View<std::byte>(std::span(memory[i])));
      for (std::size_t i = 0; i < peers.size(); ++i) {
        communicator.wait_exactly(requests[i], peers[i].chunk_bytes);
        if (chunk + 1 == chunks_) note_end(peers[i]);
      }
    }
  }

  int rank_;
  std::vector<Peer> peers_;
  std::size_t chunks_ = 0;  // messages of each peer
  double bytes_ = 0;        // of all of them
};

/// A ring of ranks that send to the next one, all at once.
class Ring {
 public:
  /// @param rates of each rank's messages to the next, alone.
  Ring(Communicator& ring, std::vector<double> rates, double seconds) : ring_(ring), rates_(std::move(rates)) {
    const auto [slowest, fastest] = std::ranges::minmax(rates_);
    const double each = std::min(seconds, kMostPortBytes / fastest);
    // As in exchanges all send as much as the slowest, but take no less than a part of its time.
    const auto bytes_at = [&](double rate) { return std::max(slowest, kShortestPart * rate) * each; };
    chunks_ = std::max<std::size_t>(chunks_of(bytes_at(fastest)), 2);
    for (const double rate : rates_) {
      const double chunk = bytes_at(rate) / static_cast<double>(chunks_);
      chunk_bytes_.push_back(std::max(static_cast<std::size_t>(chunk), kAnswerBytes));
    }
  }

  /// Returns the share of its own rate that each rank's messages reach, at most 1, on every rank.
  std::vector<double> shares() {
    for (std::size_t round = 0; round < kRoundsAhead; ++round) round_seconds();
    std::array<double, kRuns> times{};
    for (double& time : times) time = round_seconds();
    const std::size_t size = rates_.size(), source = index(previous());
    const double rate = static_cast<double>(chunk_bytes_[source] * (chunks_ - 1)) / median(times);
    const double share = std::min(1.0, rate / rates_[source]);
    std::vector<double> shares(size);
    for (std::size_t receiver = 0; receiver < size; ++receiver) {
      double value = share;
      ring_.broadcast_value(static_cast<int>(receiver), value);
      shares[(receiver + size - 1) % size] = value;
    }
    return shares;
  }

 private:
  /// Windows of connections grow while others are busy, too.
  static constexpr std::size_t kRoundsAhead = 4;
  static constexpr double kShortestPart = 0.25;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int next() const { return ring_.rank() + 1 == ring_.size() ? 0 : ring_.rank() + 1; }
  int previous() const { return ring_.rank() == 0 ? ring_.size() - 1 : ring_.rank() - 1; }

  /// Returns the time from the first message of the previous rank to its last: ranks begin at unlike times.
  double round_seconds() {
    const std::vector<std::byte> outgoing(chunk_bytes_[index(ring_.rank())]);
    std::vector<std::byte> incoming(chunk_bytes_[index(previous())]);
    std::vector<Request> requests;
    align(ring_);
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk)
      requests.push_back(ring_.isend(next(), kTagPing, View<const std::byte>(std::span<const std::byte>(outgoing))));
    const auto receive = [&] { ring_.recv_exactly(previous(), kTagPing, View<std::byte>(std::span(incoming))); };
    receive();
    const double start = ring_.now();
    for (std::size_t chunk = 1; chunk < chunks_; ++chunk) receive();
    const double seconds = std::max(ring_.now() - start, kShortest);
    for (Request& request : requests) ring_.wait(request);
    return seconds;
  }

  Communicator& ring_;
  std::vector<double> rates_;             // by sender, as all below
  std::vector<std::size_t> chunk_bytes_;  // of one message
  std::size_t chunks_ = 0;                // messages of each rank
};

class Measurement {
 public:
  Measurement(Communicator& communicator, const Nodes& nodes, const PairsMeasurement& how)
      : communicator_(communicator), nodes_(nodes), how_(how), count_(static_cast<std::size_t>(nodes.count())) {
    const double none = 0;
    links_.pairs.resize(count_ * count_);
    links_.up.assign(count_, none);
    links_.down.assign(count_, none);
    links_.inside.resize(count_);
    one_way_.resize(count_ * count_);
    for (std::size_t node = 0; node < count_; ++node)
      links_.workers.push_back(static_cast<int>(nodes.ranks_of(static_cast<int>(node)).size()));
  }

  NodeLinks run() {
    name_nodes();
    for (std::size_t first = 0; first < count_; ++first) {
      for (std::size_t second = first + 1; second < count_; ++second) measure_pair(first, second);
    }
    for (std::size_t node = 0; node < count_ && count_ > 1; ++node) {
      links_.up[node] = measure_port(node, /*out=*/true);
      links_.down[node] = measure_port(node, /*out=*/false);
    }
    if (count_ > 1) measure_load();
    for (std::size_t node = 0; node < count_; ++node) {
      if (links_.workers[node] > 1) measure_inside(node);
    }
    if (count_ == 1) links_.up = links_.down = {links_.inside[0].bytes_per_second};  // which nothing uses
    return std::move(links_);
  }

 private:
  int head(std::size_t node) const { return nodes_.ranks_of(static_cast<int>(node)).front(); }
  std::size_t place(std::size_t from, std::size_t to) const { return from * count_ + to; }
  void count_part() {
    ++done_;
    if (how_.on_part) how_.on_part(done_, parts_of_measurement(nodes_));
  }

  void name_nodes() {
    for (std::size_t node = 0; node < count_; ++node) {
      std::string name = communicator_.rank() == head(node) ? host_name() : "";
      communicator_.broadcast_text(head(node), name);
      links_.names.push_back(std::move(name));
    }
  }
  void measure_pair(std::size_t first, std::size_t second) {
    const Link link = measure_link(communicator_, head(first), head(second), how_.seconds);
    links_.pairs[place(first, second)] = {link.latency(), link.there};
    links_.pairs[place(second, first)] = {link.latency(), link.back};
    one_way_[place(first, second)] = one_way_[place(second, first)] = link.one_way;
    count_part();
  }
  double measure_port(std::size_t node, bool out) {
    std::vector<Port::Peer> peers;
    double fastest = 0;
    for (std::size_t other = 0; other < count_; ++other) {
      if (other == node) continue;
      const double rate = links_.pairs[out ? place(node, other) : place(other, node)].bytes_per_second;
      peers.push_back({head(other), rate, 2 * one_way_[place(node, other)]});
      fastest = std::max(fastest, rate);
    }
    const Port port(head(node), std::move(peers), how_.seconds);
    const double rate = out ? port.rate_out(communicator_) : port.rate_in(communicator_);
    count_part();
    return std::max(rate, fastest);
  }
  /// Lowers the rates of ports to what they carry while all nodes send.
  void measure_load() {
    std::vector<int> heads;
    std::vector<double> rates, shares(count_);
    for (std::size_t node = 0; node < count_; ++node) {
      heads.push_back(head(node));
      rates.push_back(links_.pairs[place(node, (node + 1) % count_)].bytes_per_second);
    }
    if (std::ranges::count(heads, communicator_.rank()) > 0) {
      Subgroup group(communicator_, heads);
      shares = Ring(group, rates, how_.seconds).shares();
    }
    for (std::size_t node = 0; node < count_; ++node) {
      communicator_.broadcast_value(heads[0], shares[node]);
      links_.up[node] *= shares[node];
      links_.down[(node + 1) % count_] *= shares[node];
    }
    count_part();
  }
  void measure_inside(std::size_t node) {
    const std::vector<int>& ranks = nodes_.ranks_of(static_cast<int>(node));
    const Link link = measure_link(communicator_, ranks[0], ranks[1], how_.seconds);
    links_.inside[node] = {link.latency(), std::min(link.there, link.back)};
    count_part();
  }

  Communicator& communicator_;
  const Nodes& nodes_;
  const PairsMeasurement& how_;
  std::size_t count_;
  NodeLinks links_;
  std::vector<double> one_way_;  // seconds of a short message, by pair
  std::size_t done_ = 0;
};

}  // namespace

std::size_t parts_of_measurement(const Nodes& nodes) {
  const auto count = static_cast<std::size_t>(nodes.count());
  std::size_t shared = 0;
  for (int node = 0; node < nodes.count(); ++node) shared += nodes.ranks_of(node).size() > 1 ? 1 : 0;
  return count * (count - 1) / 2 + (count > 1 ? 2 * count + 1 : 0) + shared;
}

NodeLinks measure_pairs(Communicator& communicator, const Nodes& nodes, const PairsMeasurement& how) {
  DRAGONN_CHECK(communicator.size() > 1, "a network is measured between ranks, and there is one only");
  DRAGONN_CHECK(how.seconds > 0, "long messages of {} seconds", how.seconds);
  const ScopedOperation operation = communicator.operation("measure_pairs");
  return Measurement(communicator, nodes, how).run();
}

}  // namespace dragonn::comm
