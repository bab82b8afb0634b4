// SPDX-License-Identifier: MIT
#include "comm/allreduce.h"

#include <bit>

#include "comm/blocks.h"
#include "comm/room.h"
#include "comm/tags.h"

namespace dragonn::comm {
namespace {

View<const std::byte> bytes_of(std::span<const float> values) {
  return Communicator::as_bytes(values);
}

View<std::byte> writable_bytes_of(std::span<float> values) {
  return Communicator::as_writable_bytes(values);
}

/// The scratch as floats, large enough for `count`.
std::span<float> scratch_floats(Buffer<std::byte>& scratch, std::size_t count) {
  resize_with_room(scratch, count * sizeof(float));  // sparse sums of varying size pass through here too
  return {reinterpret_cast<float*>(scratch.data()), count};
}

void add(const Communicator& communicator, std::span<float> sum, std::span<const float> values) {
  if (communicator.is_hollow()) return;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

std::span<float> slice(std::span<float> values, const Block& range) {
  return values.subspan(range.begin, range.size());
}

/// The part of Rabenseifner's algorithm that runs on a power of two of ranks: a window of blocks, halved on the way
/// down and doubled on the way up.
class Halving {
 public:
  /// `position` counts the ranks that take part; every even one of the first 2 * folded ranks stands for itself and its
  /// neighbour.
  Halving(Communicator& communicator, std::span<float> values, int position, int participants, int folded)
      : communicator_(communicator),
        values_(values),
        position_(position),
        participants_(participants),
        folded_(folded) {}

  void reduce_scatter(Buffer<std::byte>& scratch) {
    for (int distance = participants_ / 2; distance > 0; distance /= 2) {
      const std::span<float> kept = slice(values_, window(position_, distance));
      const std::span<float> given = slice(values_, window(position_ ^ distance, distance));
      const std::span<float> received = scratch_floats(scratch, kept.size());
      const int partner = rank_at(position_ ^ distance);
      communicator_.send_recv(partner, bytes_of(given), partner, writable_bytes_of(received), kTagAllreduce);
      add(communicator_, kept, received);
    }
  }

  void allgather() {
    for (int distance = 1; distance < participants_; distance *= 2) {
      const std::span<float> mine = slice(values_, window(position_, distance));
      const std::span<float> other = slice(values_, window(position_ ^ distance, distance));
      const int partner = rank_at(position_ ^ distance);
      communicator_.send_recv(partner, bytes_of(mine), partner, writable_bytes_of(other), kTagAllreduce);
    }
  }

 private:
  /// The elements of the `blocks` aligned blocks around that of `position`.
  Block window(int position, int blocks) const {
    const auto total = static_cast<std::size_t>(participants_);
    const auto first = static_cast<std::size_t>(position / blocks * blocks);
    return {block_begin(values_.size(), total, first),
            block_begin(values_.size(), total, first + static_cast<std::size_t>(blocks))};
  }
  int rank_at(int position) const { return position < folded_ ? 2 * position : position + folded_; }

  Communicator& communicator_;
  std::span<float> values_;
  int position_;
  int participants_;
  int folded_;
};

}  // namespace

void ring_allreduce(Communicator& communicator, std::span<float> values, Buffer<std::byte>& scratch) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const int next = static_cast<int>((rank + 1) % ranks);
  const int previous = static_cast<int>((rank + ranks - 1) % ranks);
  // Chunk of `rank` after `steps` moves against the ring's direction.
  const auto chunk = [&](std::size_t start, std::size_t steps) {
    return slice(values, block(values.size(), ranks, (start + ranks - steps % ranks) % ranks));
  };
  for (std::size_t step = 0; step + 1 < ranks; ++step) {
    const std::span<float> sum = chunk(rank, step + 1);
    const std::span<float> received = scratch_floats(scratch, sum.size());
    communicator.send_recv(next, bytes_of(chunk(rank, step)), previous, writable_bytes_of(received), kTagAllreduce);
    add(communicator, sum, received);
  }
  for (std::size_t step = 0; step + 1 < ranks; ++step) {
    communicator.send_recv(next, bytes_of(chunk(rank + 1, step)), previous,
                           writable_bytes_of(chunk(rank + 1, step + 1)), kTagAllreduce);
  }
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

void rabenseifner_allreduce(Communicator& communicator, std::span<float> values, Buffer<std::byte>& scratch) {
  const int rank = communicator.rank();
  const int participants = static_cast<int>(std::bit_floor(static_cast<unsigned>(communicator.size())));
  const int folded = communicator.size() - participants;
  const bool is_folded = rank < 2 * folded;
  if (is_folded && rank % 2 == 1) {
    communicator.send(rank - 1, kTagAllreduce, bytes_of(values));
    communicator.recv_exactly(rank - 1, kTagAllreduce, writable_bytes_of(values));
    return;
  }
  if (is_folded) {
    const std::span<float> received = scratch_floats(scratch, values.size());
    communicator.recv_exactly(rank + 1, kTagAllreduce, writable_bytes_of(received));
    add(communicator, values, received);
  }
  const int position = is_folded ? rank / 2 : rank - folded;
  Halving halving(communicator, values, position, participants, folded);
  halving.reduce_scatter(scratch);
  halving.allgather();
  if (is_folded) communicator.send(rank + 1, kTagAllreduce, bytes_of(values));
}

}  // namespace dragonn::comm
