// SPDX-License-Identifier: MIT
/// Subgroup: some ranks of a group as a group of their own, with all collectives.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace dragonn::comm {

/// One rank's end of a part of a group. Its messages are messages of the whole group: they count there, take the time
/// of its clock, and errors name ranks of the whole. Messages between two ranks of a part and those between the same
/// two in the whole group may alternate, in an order that both ranks' programs have: making a part sends nothing. The
/// native allreduce is the binomial tree, whatever the backend has for the whole. It has no device transport.
class Subgroup final : public Communicator {
 public:
  /// @param ranks of the whole group, by their numbers in the part; the same on all of them, of whom this rank is one.
  /// @param whole outlives this object.
  Subgroup(Communicator& whole, std::vector<int> ranks);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string backend() const override { return whole_.backend(); }
  int rank_in_whole(int rank) const override { return whole_.rank_in_whole(ranks_.at(static_cast<std::size_t>(rank))); }
  Clock& clock() override { return whole_.clock(); }
  const Clock& clock() const override { return whole_.clock(); }
  std::unique_ptr<Clock> fork_clock() const override { return whole_.fork_clock(); }
  void abort(const std::string& reason) noexcept override { whole_.abort(reason); }

 protected:
  Request start_send(int destination, int tag, std::span<const std::byte> message) override;
  Request start_receive(int source, int tag, std::span<std::byte> buffer) override;
  std::size_t finish(const Request& request) override;
  void start_notification(int destination, const Notification& notification) override;
  std::optional<Notification> take_notification(int source) override;
  std::optional<Notification> finish_notification(int source, const std::function<bool()>& is_interrupted) override;
  bool supports_size_only() const override { return whole_.supports_size_only(); }

 private:
  int in_whole(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)); }
  /// Returns a notification of the whole group as one from `source`, a rank of this part.
  static std::optional<Notification> as_from(int source, std::optional<Notification> taken);

  Communicator& whole_;
  std::vector<int> ranks_;
  int rank_;
};

}  // namespace dragonn::comm
