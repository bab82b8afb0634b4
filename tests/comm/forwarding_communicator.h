// SPDX-License-Identifier: MIT
/// ForwardingCommunicator: another communicator's rank, for tests that change some of what it does.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace dragonn::comm::test {

/// Base of communicators that pass messages on to another one.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string backend() const override { return inner_.backend(); }
  Clock& clock() override { return inner_.clock(); }
  const Clock& clock() const override { return inner_.clock(); }
  std::unique_ptr<Clock> fork_clock() const override { return inner_.fork_clock(); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 protected:
  void start_notification(int destination, const Notification& notification) override {
    inner_.notify(destination, notification);
  }
  std::optional<Notification> take_notification(int source) override { return inner_.poll_notification(source); }
  std::optional<Notification> finish_notification(int source, const std::function<bool()>& is_interrupted) override {
    return inner_.wait_for_notification(source, is_interrupted);
  }
  Communicator& inner() { return inner_; }

 private:
  Communicator& inner_;
};

}  // namespace dragonn::comm::test
