// SPDX-License-Identifier: MIT
#include "comm/coded_ring.h"

#include <algorithm>
#include <utility>

#include "comm/blocks.h"

namespace dragonn::comm {
namespace {

/// One rank's place in the ring. Blocks with one number, of all vectors, travel in one message.
class CodedRing {
 public:
  CodedRing(Communicator& communicator, const codec::ListValueCodec& codec, const CodedVectors& vectors,
            CodedRingScratch& scratch)
      : communicator_(communicator), codec_(codec), vectors_(vectors), scratch_(scratch) {
    // Messages pass from one buffer to the other: both get the room of the largest block, the first.
    for (Buffer<std::byte>* message : {&scratch_.incoming, &scratch_.outgoing})
      resize_with_slack(*message, codec_.code_bytes(size(0)));
  }

  /// Encodes a block as the next message, and keeps what that leaves behind.
  void round(std::size_t block) {
    const std::size_t count = size(block);
    resize_with_slack(scratch_.outgoing, codec_.code_bytes(count));
    if (count == 0 || communicator_.is_size_only()) return;
    resize_with_slack(scratch_.values, count);
    float* to = scratch_.values.data();
    for (const std::span<float> values : vectors_.values) to = std::ranges::copy(slice(values, block), to).out;
    codec_.encode(std::as_const(scratch_.values).host(), scratch_.outgoing.host());
    const std::span<const float> decoded =
        codec_.decode(std::as_const(scratch_.outgoing).host(), count, scratch_.decoded);
    const float* sum = scratch_.values.data();
    const float* sent = decoded.data();
    for (std::size_t vector = 0; vector < vectors_.values.size(); ++vector) {
      const std::span<float> left = slice(vectors_.remainders[vector], block);
      const std::span<std::uint8_t> stayed = slice(vectors_.stayed[vector], block);
      for (std::size_t i = 0; i < left.size(); ++i) left[i] = sum[i] - sent[i];
      for (std::size_t i = 0; i < stayed.size(); ++i) stayed[i] = sum[i] != 0 && sent[i] == 0 ? 1 : 0;
      sum += left.size();
      sent += left.size();
    }
  }

  /// Sends the message on, and receives that of a block.
  void shift(std::size_t block) {
    resize_with_slack(scratch_.incoming, codec_.code_bytes(size(block)));
    communicator_.send_recv(wrapped(1), scratch_.outgoing.view(), wrapped(ranks() - 1), scratch_.incoming.view(),
                            kTagAllreduce);
  }
  /// Adds the received block to the own one.
  void add(std::size_t block) {
    decode(scratch_.incoming, block, [](float& own, float received) { own += received; });
  }
  /// Puts the received block in the own one's place; it is the next message.
  void replace(std::size_t block) {
    std::swap(scratch_.incoming, scratch_.outgoing);
    replace_by_message(block);
  }
  /// Puts what the message decodes to in the block's place.
  void replace_by_message(std::size_t block) {
    decode(scratch_.outgoing, block, [](float& own, float received) { own = received; });
  }

  std::size_t ranks() const { return static_cast<std::size_t>(communicator_.size()); }
  /// Returns the block that is `steps` moves from the own rank's against the ring's direction.
  std::size_t block_before(std::size_t steps) const {
    return static_cast<std::size_t>(wrapped(ranks() - steps % ranks()));
  }

 private:
  int wrapped(std::size_t ahead) const {
    return static_cast<int>((static_cast<std::size_t>(communicator_.rank()) + ahead) % ranks());
  }
  template <class T>
  std::span<T> slice(std::span<T> vector, std::size_t index) const {
    const Block range = block(vector.size(), ranks(), index);
    return vector.subspan(range.begin, range.size());
  }
  std::size_t size(std::size_t block) const {
    std::size_t count = 0;
    for (const std::span<float> values : vectors_.values) count += slice(values, block).size();
    return count;
  }

  template <class Put>
  void decode(const Buffer<std::byte>& message, std::size_t block, const Put& put) {
    const std::size_t count = size(block);
    if (count == 0 || communicator_.is_size_only()) return;
    const float* from = codec_.decode(message.host(), count, scratch_.decoded).data();
    for (const std::span<float> values : vectors_.values) {
      for (float& own : slice(values, block)) put(own, *from++);
    }
  }

  Communicator& communicator_;
  const codec::ListValueCodec& codec_;
  const CodedVectors& vectors_;
  CodedRingScratch& scratch_;
};

}  // namespace

void coded_ring_allreduce(Communicator& communicator, const codec::ListValueCodec& codec, const CodedVectors& vectors,
                          CodedRingScratch& scratch) {
  CodedRing ring(communicator, codec, vectors, scratch);
  const std::size_t others = ring.ranks() - 1;
  for (std::size_t step = 0; step < others; ++step) {
    ring.round(ring.block_before(step));
    ring.shift(ring.block_before(step + 1));
    ring.add(ring.block_before(step + 1));
  }
  // The sum of this block is complete: what its code decodes to is everybody's sum.
  ring.round(ring.block_before(others));
  ring.replace_by_message(ring.block_before(others));
  for (std::size_t step = 0; step < others; ++step) {
    ring.shift(ring.block_before(step));
    ring.replace(ring.block_before(step));
  }
}

}  // namespace dragonn::comm
