// SPDX-License-Identifier: MIT
/// HostileRank: a rank that follows the program, and changes messages on their way to the real communicator.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/comm/forwarding_communicator.h"

namespace dragonn::comm::test {

using Bytes = std::vector<std::byte>;

/// A message that is about to be sent.
struct Outgoing {
  std::size_t number = 0;  ///< of this rank's messages, from 0
  int destination = 0;
  int tag = 0;
  Phase phase = Phase::kControl;
};

/// Sends every message as `tamper` leaves it. What it receives is what came.
class HostileRank final : public ForwardingCommunicator {
 public:
  using Tamper = std::function<void(const Outgoing& message, Bytes& bytes)>;

  HostileRank(Communicator& inner, Tamper tamper) : ForwardingCommunicator(inner), tamper_(std::move(tamper)) {}

 protected:
  Request start_send(int destination, int tag, std::span<const std::byte> message) override {
    Bytes& bytes = sent_.emplace_back(message.begin(), message.end());
    tamper_({sent_.size() - 1, destination, tag, traffic().phase()}, bytes);
    return keep(inner().isend(destination, tag, View<const std::byte>(std::span(std::as_const(bytes)))), false);
  }
  Request start_receive(int source, int tag, std::span<std::byte> buffer) override {
    return keep(inner().irecv(source, tag, buffer), true);
  }
  std::size_t finish(const Request& request) override { return inner().wait(requests_[request.id]); }

 private:
  Request keep(const Request& request, bool is_receive) {
    requests_.push_back(request);
    return {requests_.size() - 1, is_receive};
  }

  Tamper tamper_;
  std::deque<Bytes> sent_;  // which must stay
  std::vector<Request> requests_;
};

}  // namespace dragonn::comm::test
