// SPDX-License-Identifier: MIT
#include "comm/allreduce.h"

#include <algorithm>
#include <bit>

#include "comm/blocks.h"

namespace dragonn::comm {
namespace {

View<const std::byte> bytes_of(std::span<const float> values) {
  return Communicator::as_bytes(values);
}

View<std::byte> writable_bytes_of(std::span<float> values) {
  return Communicator::as_writable_bytes(values);
}

/// Blocks [first, first + count) of `total`.
struct Window {
  std::size_t total = 1;
  std::size_t first = 0;
  std::size_t count = 1;
};
constexpr Window kAll{};

/// Several vectors that are summed together. Each is cut into blocks by itself, and the blocks with one number travel
/// in one message. So every element is added up in the order in which it would be alone.
class Parts {
 public:
  Parts(Communicator& communicator, std::span<const std::span<float>> parts, AllreduceScratch& scratch)
      : communicator_(communicator), parts_(parts), scratch_(scratch) {}

  /// Sends one window and adds the received values to another.
  void send_and_add(int destination, const Window& given, int source, const Window& kept) {
    const std::span<float> received = floats(scratch_.incoming, size(kept));
    communicator_.send_recv(destination, bytes_of(packed(given)), source, writable_bytes_of(received), kTagAllreduce);
    add(kept, received);
  }
  /// Sends one window and replaces another by the received values.
  void send_and_replace(int destination, const Window& given, int source, const Window& replaced) {
    if (parts_.size() == 1) {
      const std::span<float> place = slice(parts_.front(), replaced);
      return communicator_.send_recv(destination, bytes_of(packed(given)), source, writable_bytes_of(place),
                                     kTagAllreduce);
    }
    const std::span<float> received = floats(scratch_.incoming, size(replaced));
    communicator_.send_recv(destination, bytes_of(packed(given)), source, writable_bytes_of(received), kTagAllreduce);
    replace(replaced, received);
  }
  void send_all(int destination) { communicator_.send(destination, kTagAllreduce, bytes_of(packed(kAll))); }
  void receive_all(int source) { replace(kAll, receive(source)); }
  void add_all(int source) { add(kAll, receive(source)); }

 private:
  static std::span<float> floats(Buffer<std::byte>& buffer, std::size_t count) {
    resize_with_slack(buffer, count * sizeof(float));  // sparse sums of varying size pass through here too
    return {reinterpret_cast<float*>(buffer.data()), count};
  }
  static std::span<float> slice(std::span<float> part, const Window& window) {
    const std::size_t begin = block_begin(part.size(), window.total, window.first);
    return part.subspan(begin, block_begin(part.size(), window.total, window.first + window.count) - begin);
  }
  std::size_t size(const Window& window) const {
    std::size_t count = 0;
    for (const std::span<float> part : parts_) count += slice(part, window).size();
    return count;
  }

  /// Returns the window of all parts as one message: in place if there is one part.
  std::span<const float> packed(const Window& window) {
    if (parts_.size() == 1) return slice(parts_.front(), window);
    const std::span<float> message = floats(scratch_.outgoing, size(window));
    if (communicator_.is_size_only()) return message;
    float* to = message.data();
    for (const std::span<float> part : parts_) to = std::ranges::copy(slice(part, window), to).out;
    return message;
  }
  std::span<const float> receive(int source) {
    const std::span<float> received = floats(scratch_.incoming, size(kAll));
    communicator_.recv_exactly(source, kTagAllreduce, writable_bytes_of(received));
    return received;
  }
  void add(const Window& window, std::span<const float> values) {
    if (communicator_.is_size_only()) return;
    const float* from = values.data();
    for (const std::span<float> part : parts_) {
      const std::span<float> sum = slice(part, window);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += from[i];
      from += sum.size();
    }
  }
  void replace(const Window& window, std::span<const float> values) {
    if (communicator_.is_size_only()) return;
    const float* from = values.data();
    for (const std::span<float> part : parts_) {
      const std::span<float> target = slice(part, window);
      std::copy_n(from, target.size(), target.begin());
      from += target.size();
    }
  }

  Communicator& communicator_;
  std::span<const std::span<float>> parts_;
  AllreduceScratch& scratch_;
};

/// The part of Rabenseifner's algorithm that runs on a power of two of ranks. A window of blocks is halved in each step
/// of the reduce-scatter and doubled in each step of the allgather.
class Halving {
 public:
  /// @param position number among the ranks that take part. Of the first 2 * folded ranks only the even ones take part,
  /// each for itself and its neighbour.
  Halving(Parts& parts, int position, int participants, int folded)
      : parts_(parts), position_(position), participants_(participants), folded_(folded) {}

  void reduce_scatter() {
    for (int distance = participants_ / 2; distance > 0; distance /= 2) {
      const int partner = rank_at(position_ ^ distance);
      parts_.send_and_add(partner, window(position_ ^ distance, distance), partner, window(position_, distance));
    }
  }

  void allgather() {
    for (int distance = 1; distance < participants_; distance *= 2) {
      const int partner = rank_at(position_ ^ distance);
      parts_.send_and_replace(partner, window(position_, distance), partner, window(position_ ^ distance, distance));
    }
  }

 private:
  /// Returns the window of `blocks` aligned blocks around that of `position`.
  Window window(int position, int blocks) const {
    return {static_cast<std::size_t>(participants_), static_cast<std::size_t>(position / blocks * blocks),
            static_cast<std::size_t>(blocks)};
  }
  int rank_at(int position) const { return position < folded_ ? 2 * position : position + folded_; }

  Parts& parts_;
  int position_;
  int participants_;
  int folded_;
};

}  // namespace

void ring_allreduce(Communicator& communicator, std::span<const std::span<float>> vectors, AllreduceScratch& scratch) {
  Parts parts(communicator, vectors, scratch);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const int next = static_cast<int>((rank + 1) % ranks);
  const int previous = static_cast<int>((rank + ranks - 1) % ranks);
  // The block that is `steps` moves from `start` against the ring's direction.
  const auto block_after = [&](std::size_t start, std::size_t steps) {
    return Window{ranks, (start + ranks - steps % ranks) % ranks, 1};
  };
  for (std::size_t step = 0; step + 1 < ranks; ++step)
    parts.send_and_add(next, block_after(rank, step), previous, block_after(rank, step + 1));
  for (std::size_t step = 0; step + 1 < ranks; ++step)
    parts.send_and_replace(next, block_after(rank + 1, step), previous, block_after(rank + 1, step + 1));
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
  Parts parts(communicator, vectors, scratch);
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
