// SPDX-License-Identifier: MIT
/// ListTransport: carries out list verbs, those of several buckets as one.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "codec/list_codec.h"
#include "comm/sparse/rounds.h"

namespace dragonn::comm {

/// A batch of verbs of one kind, one per bucket.
using VerbBatch = std::span<ListVerb* const>;

/// The lists with values that a rank has written into messages, each counted once, whoever receives it.
struct ListCounts {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;

  /// Returns the mean bits of an entry; NaN if there was none.
  double bits_per_entry() const {
    return entries == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : 8.0 * static_cast<double>(bytes) / static_cast<double>(entries);
  }
};

/// Carries out all exchanges of a rank; its buffers are reused from step to step.
class ListTransport {
 public:
  explicit ListTransport(Communicator& communicator) : communicator_(communicator) {}
  virtual ~ListTransport() = default;
  ListTransport(const ListTransport&) = delete;
  ListTransport& operator=(const ListTransport&) = delete;

  Communicator& communicator() const { return communicator_; }
  /// Collective. Carries out a batch. @param batch not empty; all ranks bring the same kind of verb for the same
  /// buckets.
  /// @throws CommError (see Communicator).
  void execute(VerbBatch batch);

  /// Counts since the last call of reset_counts(). Lists between GPUs are not counted.
  const ListCounts& list_counts() const { return list_counts_; }
  void reset_counts() { list_counts_ = {}; }
  /// Returns whether lists decode to other values than those that were sent.
  virtual bool is_lossy() const { return false; }

 protected:
  virtual void gather_lists(VerbBatch batch) = 0;
  virtual void gather_parts(VerbBatch batch) = 0;
  virtual void allreduce(VerbBatch batch) = 0;
  virtual void broadcast_indices(VerbBatch batch) = 0;
  virtual void broadcast_lists(VerbBatch batch) = 0;
  virtual void swap_lists(VerbBatch batch) = 0;

  /// Gathers a header: all[r * mine.size() + i] <- rank r's number i.
  template <class T>
  void gather_header(std::span<const T> mine, std::vector<T>& all);
  /// Returns the route of a header of these numbers.
  template <class T>
  static Route header_route(const std::vector<T>& mine) {
    return {Route::Kind::kAllgather, mine.size() * sizeof(T)};
  }
  /// Checks how many entries a rank's list has. @throws CommError that names the rank.
  void check_count(std::uint64_t count, const ListBounds& bounds, int source, const Route& route) const;
  std::size_t rank() const { return static_cast<std::size_t>(communicator_.rank()); }
  std::size_t ranks() const { return static_cast<std::size_t>(communicator_.size()); }
  void count_list(std::size_t entries, std::size_t bytes) {
    list_counts_.entries += entries;
    list_counts_.bytes += bytes;
  }

 private:
  friend void run_rounds(ListTransport& transport, std::vector<Rounds>& rounds);
  void counts(VerbBatch batch);
  void sum_boundaries(VerbBatch batch);
  void sum_metrics(VerbBatch batch);

  Communicator& communicator_;
  ListCounts list_counts_;
  std::vector<std::uint32_t> mine_, words_;
  std::vector<std::uint64_t> proposed_, proposals_;  // boundaries of all buckets, by this rank and by all
  std::vector<double> doubles_;
  std::vector<Rounds*> joined_;   // of run_rounds: those that share a round
  std::vector<ListVerb*> batch_;  // and what they wait for
};

/// Makes the transport over the communicator's DeviceTransport if it has one, else over its messages. This is the only
/// place that decides it. @throws ConfigError if a codec is unknown, or if lists travel between GPUs and are not raw.
std::unique_ptr<ListTransport> make_list_transport(Communicator& communicator, const codec::CodecChoice& coding = {});
/// Makes the transport of lists in host memory, which are sent as messages in the codec's code.
std::unique_ptr<ListTransport> make_message_lists(Communicator& communicator, std::unique_ptr<codec::ListCodec> codec);
/// Makes the transport of lists on the device of the communicator's DeviceTransport; sizes are headers of the
/// communicator.
std::unique_ptr<ListTransport> make_device_lists(Communicator& communicator);

}  // namespace dragonn::comm
