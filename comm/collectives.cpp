// SPDX-License-Identifier: MIT
// The collectives of every backend, on send and recv.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "comm/allreduce.h"
#include "comm/communicator.h"

namespace dragonn::comm {
namespace {

int wrap(int rank, int size) {
  return (rank % size + size) % size;
}

void copy_unless_in_place(std::span<const std::byte> source, std::span<std::byte> target) {
  if (source.data() != target.data() && !source.empty()) std::memcpy(target.data(), source.data(), source.size());
}

/// Returns what takes a block of a size that all ranks know.
template <class SizeOf>
auto exactly(Communicator& communicator, SizeOf size_of) {
  return [&communicator, size_of](Request& receive, int owner) {
    communicator.wait_exactly(receive, size_of(owner));
    return size_of(owner);
  };
}

/// Gathers on a ring: every rank passes on to the next rank what it received last. Block r of `all` is rank r's. P-1
/// messages. @param bytes_of returns the bytes of a rank's place.
/// @param take completes the receive of a rank's block and returns its bytes.
/// @param on_block is called with each rank and its bytes, in the order of the ring, while the next block travels.
template <class BytesOf, class Take, class OnBlock>
void ring_allgather(Communicator& communicator, std::span<std::byte> all, std::size_t my_offset, std::size_t my_bytes,
                    BytesOf bytes_of, Take take, OnBlock on_block) {
  const int ranks = communicator.size();
  const int next = wrap(communicator.rank() + 1, ranks);
  const int previous = wrap(communicator.rank() - 1, ranks);
  int owner = communicator.rank();
  std::size_t offset = my_offset, bytes = my_bytes;
  Request sent;  // the block before, which may still be leaving: the next one follows at once
  for (int step = 0; step + 1 < ranks; ++step) {
    const View<const std::byte> outgoing(all.subspan(offset, bytes));
    const int here = owner;
    if (owner == 0) offset = all.size();
    owner = wrap(owner - 1, ranks);
    offset -= bytes_of(owner);
    Request receive = communicator.irecv(previous, kTagAllgather, all.subspan(offset, bytes_of(owner)));
    Request sending = communicator.isend(next, kTagAllgather, outgoing);
    on_block(here, bytes);
    if (step > 0) communicator.wait(sent);
    bytes = take(receive, owner);
    sent = sending;
  }
  on_block(owner, bytes);
  if (ranks > 1) communicator.wait(sent);
}

/// Gathers with a message from each rank to each other one, first to the next rank. P-1 messages at the same time.
/// @param pending is scratch.  Other parameters as of ring_allgather.
template <class BytesOf, class Take, class OnBlock>
void direct_allgather(Communicator& communicator, std::span<std::byte> all, std::size_t my_offset, std::size_t my_bytes,
                      BytesOf bytes_of, Take take, OnBlock on_block, std::vector<Request>& pending) {
  const int ranks = communicator.size(), me = communicator.rank();
  const View<const std::byte> mine(all.subspan(my_offset, my_bytes));
  pending.clear();
  std::size_t offset = my_offset;
  for (int step = 1; step < ranks; ++step) {  // backwards, as on the ring
    const int source = wrap(me - step, ranks);
    if (source == ranks - 1) offset = all.size();
    offset -= bytes_of(source);
    pending.push_back(communicator.irecv(source, kTagAllgather, all.subspan(offset, bytes_of(source))));
  }
  for (int step = 1; step < ranks; ++step)
    pending.push_back(communicator.isend(wrap(me + step, ranks), kTagAllgather, mine));
  on_block(me, my_bytes);
  const std::span<Request> receives = std::span(pending).first(pending.size() / 2);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const int source = wrap(me - 1 - static_cast<int>(i), ranks);
    on_block(source, take(receives[i], source));
  }
  for (Request& sent : std::span(pending).last(receives.size())) communicator.wait(sent);
}

/// Gathers on a ring blocks of sizes that all ranks know.
/// @param size_of returns the bytes of a rank's block.
template <class SizeOf>
void ring_allgather(Communicator& communicator, std::span<std::byte> all, std::size_t my_offset, SizeOf size_of) {
  ring_allgather(communicator, all, my_offset, size_of(communicator.rank()), size_of, exactly(communicator, size_of),
                 [](int, std::size_t) {});
}

/// Gathers by recursive doubling: pairs of ranks at distance 1, 2, 4, ... exchange all that they have. log2 P messages;
/// P must be a power of two.
void doubling_allgather(Communicator& communicator, std::span<std::byte> all, std::size_t block_size) {
  const auto window = [&](int rank, int distance) {
    const auto blocks = static_cast<std::size_t>(distance);
    return all.subspan(static_cast<std::size_t>(rank) / blocks * blocks * block_size, blocks * block_size);
  };
  for (int distance = 1; distance < communicator.size(); distance *= 2) {
    const int partner = communicator.rank() ^ distance;
    communicator.send_recv(partner, View<const std::byte>(window(communicator.rank(), distance)), partner,
                           window(partner, distance), kTagAllgather);
  }
}

/// Gathers by Bruck's algorithm: every rank doubles the blocks that it has, at any number of ranks. ceil(log2 P)
/// messages. On rank r block i of `all` is that of rank (r + i) mod P, so its own is the first.
void bruck_allgather(Communicator& communicator, std::span<std::byte> all, std::size_t block_size) {
  const int ranks = communicator.size();
  for (int have = 1; have < ranks; have *= 2) {
    const std::size_t bytes = static_cast<std::size_t>(std::min(have, ranks - have)) * block_size;
    communicator.send_recv(wrap(communicator.rank() - have, ranks), View<const std::byte>(all.first(bytes)),
                           wrap(communicator.rank() + have, ranks),
                           all.subspan(static_cast<std::size_t>(have) * block_size, bytes), kTagAllgather);
  }
}

/// Gathers as bruck_allgather, then puts rank r's block into place r.
void ordered_bruck_allgather(Communicator& communicator, std::span<std::byte> all, std::size_t block_size) {
  const std::size_t my_offset = static_cast<std::size_t>(communicator.rank()) * block_size;
  copy_unless_in_place(all.subspan(my_offset, block_size), all.first(block_size));
  bruck_allgather(communicator, all, block_size);
  std::ranges::rotate(all, all.end() - static_cast<std::ptrdiff_t>(my_offset));
}

/// Returns the rank that sends `receiver` what is of `source`.
int sender_to(int receiver, int source, int ranks, const Route& route) {
  const auto highest_bit = [](int value) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(value))); };
  const int ahead = wrap(source - receiver, ranks), position = wrap(receiver - source, ranks);
  switch (route.kind) {
    case Route::Kind::kMessage:
      return source;
    case Route::Kind::kAllgather:
      if (std::has_single_bit(static_cast<unsigned>(ranks))) return receiver ^ highest_bit(receiver ^ source);
      if (route.bytes <= Communicator::kSmallBlock) return wrap(receiver + highest_bit(ahead), ranks);
      [[fallthrough]];
    case Route::Kind::kRing:
      return wrap(receiver - 1, ranks);
    case Route::Kind::kTree:
      return wrap(receiver - (position & -position), ranks);
  }
  return source;
}

/// Calls `move(begin, end)` for each piece of a text. A receiver makes room piece by piece: a length alone reserves no
/// more than the first.
template <class Move>
void for_each_piece(std::uint64_t length, const Move& move) {
  constexpr std::uint64_t kPiece = 1 << 20;
  for (std::uint64_t begin = 0; begin < length; begin += kPiece) move(begin, std::min(length, begin + kPiece));
}

}  // namespace

void Communicator::allreduce_sum(View<float> values, DenseAlgorithm algorithm) {
  const std::span<float> only = values.host();
  allreduce_sum(std::span(&only, 1), algorithm);
}

void Communicator::allreduce_sum(std::span<const std::span<float>> vectors, DenseAlgorithm algorithm) {
  if (size() == 1) return;
  const ScopedOperation operation(shared_.activity, "allreduce");
  switch (algorithm) {
    case DenseAlgorithm::kRing:
      return ring_allreduce(*this, vectors, allreduce_scratch_);
    case DenseAlgorithm::kRabenseifner:
      return rabenseifner_allreduce(*this, vectors, allreduce_scratch_);
    case DenseAlgorithm::kNative:
      for (const std::span<float> values : vectors) native_allreduce_sum(values);
      return;
  }
}

void Communicator::native_allreduce_sum(std::span<float> values) {
  // Rank r collects the sums of r + 1, r + 2, r + 4, ... below its lowest set bit and sends its own down. The total
  // comes back the same way.
  for (int distance = 1; distance < size(); distance *= 2) {
    if (rank() % (2 * distance) != 0) {
      send(rank() - distance, kTagReduce, as_bytes(std::span<const float>(values)));
      break;
    }
    if (rank() + distance >= size()) continue;
    scratch_.resize_discard(values.size_bytes());
    recv_exactly(rank() + distance, kTagReduce, scratch_.view());
    const float* received = reinterpret_cast<const float*>(scratch_.data());
    if (is_size_only()) continue;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += received[i];
  }
  broadcast_exactly(0, std::as_writable_bytes(values));
}

template <class T, class Combine>
void Communicator::reduce_in_rank_order(std::span<T> values, Combine combine) {
  if (size() == 1) return;
  const ScopedOperation operation(shared_.activity, "reduction of counters");
  // The work goes piece by piece, so that the values of all ranks take little memory.
  constexpr std::size_t kMax = kSmallBlock / sizeof(T);
  for (std::size_t begin = 0; begin < values.size(); begin += kMax) {
    const std::span<T> piece = values.subspan(begin, std::min(kMax, values.size() - begin));
    scratch_.resize_discard(static_cast<std::size_t>(size()) * piece.size_bytes());
    std::ranges::copy(std::as_bytes(piece), scratch_.data());
    bruck_allgather(*this, scratch_.host(), piece.size_bytes());
    const T* gathered = reinterpret_cast<const T*>(scratch_.data());
    for (int source = 0; source < size(); ++source) {
      const T* theirs = gathered + static_cast<std::size_t>(wrap(source - rank(), size())) * piece.size();
      if (source == 0) {
        std::copy_n(theirs, piece.size(), piece.begin());
      } else {
        std::transform(piece.begin(), piece.end(), theirs, piece.begin(), combine);
      }
    }
  }
}

void Communicator::allreduce_sum(std::span<double> values) {
  reduce_in_rank_order(values, [](double a, double b) { return a + b; });
}

void Communicator::allreduce_sum(std::span<std::uint64_t> values) {
  reduce_in_rank_order(values, [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

void Communicator::allreduce_max(std::span<double> values) {
  // The order matters if NaN, or zeros of both signs, are among the values.
  reduce_in_rank_order(values, [](double a, double b) { return std::max(a, b); });
}

void Communicator::allreduce_max(std::span<std::uint64_t> values) {
  if (size() == 1) return;
  const ScopedOperation operation(shared_.activity, "reduction of counters");
  scratch_.resize_discard(values.size_bytes());
  const auto* theirs = reinterpret_cast<const std::uint64_t*>(scratch_.data());
  // Dissemination: each round doubles the number of ranks whose maximum a rank knows, itself and those before it. A
  // rank that counts twice changes no maximum.
  for (int distance = 1; distance < size(); distance *= 2) {
    send_recv(wrap(rank() + distance, size()), as_bytes(std::span<const std::uint64_t>(values)),
              wrap(rank() - distance, size()), scratch_.view(), kTagReduce);
    std::transform(values.begin(), values.end(), theirs, values.begin(),
                   [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); });
  }
}

void Communicator::allgather(View<const std::byte> mine, View<std::byte> all) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t block_size = mine.size();
  DRAGONN_CHECK(all.size() == ranks * block_size, "allgather of {} bytes from each of {} ranks into {} bytes",
                block_size, ranks, all.size());
  const std::size_t my_offset = static_cast<std::size_t>(rank()) * block_size;
  copy_unless_in_place(mine.host(), all.host().subspan(my_offset, block_size));
  const ScopedOperation operation(shared_.activity, "allgather");
  if (std::has_single_bit(ranks)) return doubling_allgather(*this, all.host(), block_size);
  if (block_size <= kSmallBlock) return ordered_bruck_allgather(*this, all.host(), block_size);
  ring_allgather(*this, all.host(), my_offset, [&](int) { return block_size; });
}

/// Returns where the place of a rank begins, of those that fill `bytes` back to back.
std::size_t Communicator::place_of(std::size_t rank, std::span<const std::size_t> places, std::size_t bytes) const {
  DRAGONN_CHECK(places.size() == static_cast<std::size_t>(size()), "allgather of {} blocks from {} ranks",
                places.size(), size());
  const std::size_t total = std::accumulate(places.begin(), places.end(), std::size_t{0});
  DRAGONN_CHECK(total == bytes, "allgather into {} bytes where {} were announced", bytes, total);
  return std::accumulate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0});
}

void Communicator::allgather_variable(View<const std::byte> mine, std::span<const std::size_t> sizes,
                                      View<std::byte> all, GatherRoute route) {
  const auto me = static_cast<std::size_t>(rank());
  const std::size_t my_offset = place_of(me, sizes, all.size());
  DRAGONN_CHECK(mine.size() == sizes[me], "allgather of {} bytes from rank {}, which announced {}", mine.size(), me,
                sizes[me]);
  copy_unless_in_place(mine.host(), all.host().subspan(my_offset, mine.size()));
  const ScopedOperation operation(shared_.activity, "allgather");
  const auto size_of = [sizes](int r) { return sizes[static_cast<std::size_t>(r)]; };
  if (route == GatherRoute::kRing) return ring_allgather(*this, all.host(), my_offset, size_of);
  direct_allgather(
      *this, all.host(), my_offset, mine.size(), size_of, exactly(*this, size_of), [](int, std::size_t) {}, gathers_);
}

void Communicator::allgather_messages(View<const std::byte> mine, std::span<const std::size_t> capacities,
                                      View<std::byte> all,
                                      const std::function<void(int rank, std::size_t bytes)>& on_message,
                                      GatherRoute route) {
  const auto me = static_cast<std::size_t>(rank());
  const std::size_t my_offset = place_of(me, capacities, all.size());
  DRAGONN_CHECK(mine.size() <= capacities[me] && mine.data() == all.data() + my_offset,
                "allgather of {} bytes from rank {}, which has a place of {}", mine.size(), me, capacities[me]);
  const ScopedOperation operation(shared_.activity, "allgather");
  const auto bytes_of = [&](int r) { return capacities[static_cast<std::size_t>(r)]; };
  const auto take = [&](Request& receive, int) { return wait(receive); };
  if (route == GatherRoute::kDirect)
    return direct_allgather(*this, all.host(), my_offset, mine.size(), bytes_of, take, on_message, gathers_);
  ring_allgather(*this, all.host(), my_offset, mine.size(), bytes_of, take, on_message);
}

std::vector<int> Communicator::senders(int source, const Route& route) const {
  std::vector<int> found;
  for (int at = rank(); at != source; found.push_back(at)) at = sender_to(at, source, size(), route);
  std::ranges::reverse(found);
  return found;
}

std::size_t Communicator::broadcast_tree(int root, std::span<std::byte> buffer, std::size_t size) {
  // Positions count from the root. A position receives from the one without its lowest set bit, then sends to those at
  // smaller distances, the farthest first.
  const int ranks = this->size();
  const int position = wrap(rank() - root, ranks);
  int distance = position == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : position & -position;
  if (position != 0) size = recv(wrap(rank() - distance, ranks), kTagBroadcast, buffer);
  for (distance /= 2; distance > 0; distance /= 2) {
    if (position + distance < ranks) {
      send(wrap(rank() + distance, ranks), kTagBroadcast, std::span<const std::byte>(buffer.first(size)));
    }
  }
  return size;
}

void Communicator::broadcast_exactly(int root, std::span<std::byte> bytes) {
  check_size(root, {Route::Kind::kTree}, broadcast_tree(root, bytes, bytes.size()), bytes.size());
}

void Communicator::broadcast(int root, View<std::byte> bytes) {
  DRAGONN_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
  const ScopedOperation operation(shared_.activity, "broadcast");
  broadcast_exactly(root, bytes.host());
}

std::size_t Communicator::broadcast_variable(int root, View<std::byte> buffer, std::size_t size) {
  DRAGONN_CHECK(root >= 0 && root < this->size(), "broadcast from rank {} of {}", root, this->size());
  DRAGONN_CHECK(rank() != root || size <= buffer.size(), "broadcast of {} bytes with room for {}", size, buffer.size());
  const ScopedOperation operation(shared_.activity, "broadcast");
  return broadcast_tree(root, buffer.host(), size);
}

void Communicator::check_text(int source, const Route& route, std::uint64_t length, std::uint64_t max) const {
  if (length <= max) return;
  throw bad_data(source, route, fmt::format("a text of {} bytes, and there are at most {}", length, max));
}

void Communicator::broadcast_text(int root, std::string& text) {
  std::uint64_t length = text.size();
  DRAGONN_CHECK(rank() != root || length <= kLongestText, "a text of {} bytes, above {}", length, kLongestText);
  broadcast_value(root, length);
  if (rank() != root) {
    check_text(root, {Route::Kind::kTree}, length, kLongestText);
    text.clear();
  }
  const ScopedOperation operation(shared_.activity, "broadcast");
  for_each_piece(length, [&](std::size_t begin, std::size_t end) {
    if (rank() != root) text.resize(end);
    broadcast_exactly(root, std::as_writable_bytes(std::span(text).subspan(begin, end - begin)));
  });
}

void Communicator::send_text(int destination, int tag, const std::string& text) {
  const std::uint64_t length = text.size();
  send(destination, tag, as_bytes(std::span(&length, 1)));
  for_each_piece(length, [&](std::size_t begin, std::size_t end) {
    send(destination, tag, as_bytes(std::span(text).subspan(begin, end - begin)));
  });
}

std::string Communicator::recv_text(int source, int tag, std::size_t max) {
  std::uint64_t length = 0;
  recv_exactly(source, tag, as_writable_bytes(std::span(&length, 1)));
  check_text(source, {}, length, max);
  std::string text;
  for_each_piece(length, [&](std::size_t begin, std::size_t end) {
    text.resize(end);
    recv_exactly(source, tag, as_writable_bytes(std::span(text).subspan(begin, end - begin)));
  });
  return text;
}

void Communicator::barrier() {
  const ScopedOperation operation(shared_.activity, "barrier");
  const View<const std::byte> nothing;
  for (int distance = 1; distance < size(); distance *= 2) {
    send_recv(wrap(rank() + distance, size()), nothing, wrap(rank() - distance, size()), View<std::byte>(),
              kTagBarrier);
  }
}

}  // namespace dragonn::comm
