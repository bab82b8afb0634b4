// SPDX-License-Identifier: MIT
#include "comm/allreduce.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "comm/blocks.h"

namespace dragonn::comm {
namespace {

/// Blocks [first, first + count) of `total`.
struct Window {
  std::size_t total = 1;
  std::size_t first = 0;
  std::size_t count = 1;
};
constexpr Window kAll{};

constexpr auto kAdd = [](float& own, const float& received) { own += received; };
constexpr auto kReplace = [](float& own, const float& received) { own = received; };

/// Several vectors that are summed together. Each is cut into blocks by itself,
/// and the blocks with one number travel in one message. So every element is
/// added up in the order in which it would be alone.
class Vectors {
 public:
  Vectors(Communicator& communicator, std::span<const std::span<float>> vectors)
      : communicator_(communicator), vectors_(vectors) {}

 protected:
  template <class T>
  static std::span<T> slice(std::span<T> vector, const Window& window) {
    const std::size_t begin = block_begin(vector.size(), window.total, window.first);
    return vector.subspan(begin, block_begin(vector.size(), window.total, window.first + window.count) - begin);
  }
  std::size_t size(const Window& window) const {
    std::size_t count = 0;
    for (const std::span<float> vector : vectors_) count += slice(vector, window).size();
    return count;
  }
  /// Calls visit(element, value) with the elements of a window and the values
  /// of its message, one after the other.
  template <class Value, class Visit>
  void each(const Window& window, Value* values, const Visit& visit) const {
    if (communicator_.is_size_only()) return;
    for (const std::span<float> vector : vectors_) {
      const std::span<float> own = slice(vector, window);
      for (std::size_t i = 0; i < own.size(); ++i) visit(own[i], values[i]);
      values += own.size();
    }
  }
  void copy_to(const Window& window, float* values) const {
    each(window, values, [](const float& own, float& value) { value = own; });
  }

  Communicator& communicator_;
  std::span<const std::span<float>> vectors_;
};

/// Vectors whose messages are float32.
class PlainMessages : public Vectors {
 public:
  PlainMessages(Communicator& communicator, std::span<const std::span<float>> vectors, AllreduceScratch& scratch)
      : Vectors(communicator, vectors), scratch_(scratch) {}

  /// Sends one window and adds the received values to another.
  void send_and_add(int destination, const Window& given, int source, const Window& kept) {
    const std::span<float> received = floats(scratch_.incoming, size(kept));
    send_recv(destination, given, source, received);
    each(kept, received.data(), kAdd);
  }
  void complete(const Window&) {}  // its sum is what everybody gets
  /// Sends one window and replaces another by the received values.
  void send_and_replace(int destination, const Window& given, int source, const Window& replaced) {
    if (vectors_.size() == 1) return send_recv(destination, given, source, slice(vectors_.front(), replaced));
    const std::span<float> received = floats(scratch_.incoming, size(replaced));
    send_recv(destination, given, source, received);
    each(replaced, received.data(), kReplace);
  }
  void send_all(int destination) {
    communicator_.send(destination, kTagAllreduce, Communicator::as_bytes(packed(kAll)));
  }
  void receive_all(int source) { each(kAll, receive(source), kReplace); }
  void add_all(int source) { each(kAll, receive(source), kAdd); }

 private:
  static std::span<float> floats(Buffer<std::byte>& buffer, std::size_t count) {
    resize_with_slack(buffer,
                      count * sizeof(float));  // sparse sums of varying size pass through here too
    return {reinterpret_cast<float*>(buffer.data()), count};
  }
  void send_recv(int destination, const Window& given, int source, std::span<float> received) {
    communicator_.send_recv(destination, Communicator::as_bytes(packed(given)), source,
                            Communicator::as_writable_bytes(received), kTagAllreduce);
  }
  /// Returns the window of all vectors as one message: in place if there is one
  /// vector.
  std::span<const float> packed(const Window& window) {
    if (vectors_.size() == 1) return slice(vectors_.front(), window);
    const std::span<float> message = floats(scratch_.outgoing, size(window));
    copy_to(window, message.data());
    return message;
  }
  const float* receive(int source) {
    const std::span<float> received = floats(scratch_.incoming, size(kAll));
    communicator_.recv_exactly(source, kTagAllreduce, Communicator::as_writable_bytes(received));
    return received.data();
  }

  AllreduceScratch& scratch_;
};

/// Vectors whose messages are codes. In an allgather messages are passed on as
/// they came.
class CodedMessages : public Vectors {
 public:
  CodedMessages(Communicator& communicator, const codec::ValueCodec& codec, const CodedVectors& vectors,
                CodedRingScratch& scratch)
      : Vectors(communicator, vectors.values), codec_(codec), coded_(vectors), scratch_(scratch) {
    // Messages pass from one buffer to the other: both get the room of the
    // largest block, the first.
    const Window largest{static_cast<std::size_t>(communicator.size())};
    for (Buffer<std::byte>* message : {&scratch_.incoming, &scratch_.outgoing})
      resize_with_slack(*message, codec_.code_bytes(size(largest)));
  }

  void send_and_add(int destination, const Window& given, int source, const Window& kept) {
    encode(given);
    send_recv(destination, source, kept);
    decode(scratch_.incoming, kept, kAdd);
  }
  /// Encodes the complete sum of a window: what its code decodes to is
  /// everybody's sum.
  void complete(const Window& window) {
    encode(window);
    decode(scratch_.outgoing, window, kReplace);
  }
  void send_and_replace(int destination, const Window& /*given*/, int source, const Window& replaced) {
    send_recv(destination, source, replaced);
    std::swap(scratch_.incoming, scratch_.outgoing);
    decode(scratch_.outgoing, replaced, kReplace);
  }

 private:
  /// Encodes a window as the next message, and keeps what that leaves behind.
  void encode(const Window& window) {
    const std::size_t count = size(window);
    resize_with_slack(scratch_.outgoing, codec_.code_bytes(count));
    if (count == 0) return;
    resize_with_slack(scratch_.values, count);
    copy_to(window, scratch_.values.data());
    codec_.encode(std::as_const(scratch_.values).view(), {}, scratch_.outgoing.view());
    const float* sum = scratch_.values.data();
    const float* sent = codec_.decode(std::as_const(scratch_.outgoing).host(), count, scratch_.decoded).data();
    for (std::size_t vector = 0; vector < vectors_.size(); ++vector) {
      const std::span<float> left = slice(coded_.remainders[vector], window);
      const std::span<std::uint8_t> stayed = slice(coded_.stayed[vector], window);
      for (std::size_t i = 0; i < left.size(); ++i) left[i] = sum[i] - sent[i];
      for (std::size_t i = 0; i < stayed.size(); ++i) stayed[i] = sum[i] != 0 && sent[i] == 0 ? 1 : 0;
      sum += left.size();
      sent += left.size();
    }
  }
  void send_recv(int destination, int source, const Window& received) {
    resize_with_slack(scratch_.incoming, codec_.code_bytes(size(received)));
    communicator_.send_recv(destination, scratch_.outgoing.view(), source, scratch_.incoming.view(), kTagAllreduce);
  }
  template <class Visit>
  void decode(const Buffer<std::byte>& message, const Window& window, const Visit& visit) {
    const std::size_t count = size(window);
    if (count > 0) each(window, codec_.decode(message.host(), count, scratch_.decoded).data(), visit);
  }

  const codec::ValueCodec& codec_;
  const CodedVectors& coded_;
  CodedRingScratch& scratch_;
};

/// Sums round a ring. @tparam Parts the vectors and the form of their messages.
template <class Parts>
void sum_round_ring(const Communicator& communicator, Parts& parts) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const int next = static_cast<int>((rank + 1) % ranks);
  const int previous = static_cast<int>((rank + ranks - 1) % ranks);
  // The block that is `steps` moves from the own rank's against the ring's
  // direction.
  const auto block_before = [&](std::size_t steps) { return Window{ranks, (rank + ranks - steps % ranks) % ranks, 1}; };
  for (std::size_t step = 0; step + 1 < ranks; ++step)
    parts.send_and_add(next, block_before(step), previous, block_before(step + 1));
  parts.complete(block_before(ranks - 1));
  for (std::size_t step = 0; step + 1 < ranks; ++step)
    parts.send_and_replace(next, block_before(step + ranks - 1), previous, block_before(step));
}

/// The part of Rabenseifner's algorithm that runs on a power of two of ranks. A
/// window of blocks is halved in each step of the reduce-scatter and doubled in
/// each step of the allgather.
class Halving {
 public:
  /// @param position number among the ranks that take part. Of the first 2 *
  /// folded ranks only the even ones take part, each for itself and its
  /// neighbour.
  Halving(PlainMessages& vectors, int position, int participants, int folded)
      : vectors_(vectors), position_(position), participants_(participants), folded_(folded) {}

  void reduce_scatter() {
    for (int distance = participants_ / 2; distance > 0; distance /= 2) {
      const int partner = rank_at(position_ ^ distance);
      vectors_.send_and_add(partner, window(position_ ^ distance, distance), partner, window(position_, distance));
    }
  }

  void allgather() {
    for (int distance = 1; distance < participants_; distance *= 2) {
      const int partner = rank_at(position_ ^ distance);
      vectors_.send_and_replace(partner, window(position_, distance), partner, window(position_ ^ distance, distance));
    }
  }

 private:
  /// Returns the window of `blocks` aligned blocks around that of `position`.
  Window window(int position, int blocks) const {
    return {static_cast<std::size_t>(participants_), static_cast<std::size_t>(position / blocks * blocks),
            static_cast<std::size_t>(blocks)};
  }
  int rank_at(int position) const { return position < folded_ ? 2 * position : position + folded_; }

  PlainMessages& vectors_;
  int position_;
  int participants_;
  int folded_;
};

}  // namespace

void ring_allreduce(Communicator& communicator, std::span<const std::span<float>> vectors, AllreduceScratch& scratch) {
  PlainMessages parts(communicator, vectors, scratch);
  sum_round_ring(communicator, parts);
}

void coded_ring_allreduce(Communicator& communicator, const codec::ValueCodec& codec, const CodedVectors& vectors,
                          CodedRingScratch& scratch) {
  CodedMessages parts(communicator, codec, vectors, scratch);
  sum_round_ring(communicator, parts);
}

Traffic ring_traffic(std::size_t count, int ranks, int rank) {
  const auto total = static_cast<std::size_t>(ranks);
  const auto all_but_two = [&](std::size_t first) {
    return sizeof(float) *
           (2 * count - block(count, total, first % total).size() - block(count, total, (first + 1) % total).size());
  };
  const auto me = static_cast<std::size_t>(rank);
  const std::uint64_t messages = 2 * (total - 1);
  return {.bytes_sent = all_but_two(me + 1),
          .bytes_received = all_but_two(me),
          .messages_sent = messages,
          .messages_received = messages};
}

void rabenseifner_allreduce(Communicator& communicator, std::span<const std::span<float>> vectors,
                            AllreduceScratch& scratch) {
  PlainMessages parts(communicator, vectors, scratch);
  const int rank = communicator.rank();
  const int participants = static_cast<int>(std::bit_floor(static_cast<unsigned>(communicator.size())));
  const int folded = communicator.size() - participants;
  const bool is_folded = rank < 2 * folded;
  if (is_folded && rank % 2 == 1) {
    parts.send_all(rank - 1);
    parts.receive_all(rank - 1);
    return;
  }
  if (is_folded) parts.add_all(rank + 1);
  Halving halving(parts, is_folded ? rank / 2 : rank - folded, participants, folded);
  halving.reduce_scatter();
  halving.allgather();
  if (is_folded) parts.send_all(rank + 1);
}

}  // namespace dragonn::comm
