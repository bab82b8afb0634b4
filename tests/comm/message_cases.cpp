// SPDX-License-Identifier: MIT
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "tests/comm/cases.h"
#include "tests/comm/support.h"

namespace dragonn::comm::test {
namespace {

template <class T>
View<const std::byte> bytes(const T& value) {
  return Communicator::as_bytes(std::span<const T>(&value, 1));
}

template <class T>
View<std::byte> buffer(T& value) {
  return Communicator::as_writable_bytes(std::span<T>(&value, 1));
}

int next(const Communicator& communicator) {
  return (communicator.rank() + 1) % communicator.size();
}

int previous(const Communicator& communicator) {
  return (communicator.rank() + communicator.size() - 1) % communicator.size();
}

void keep_order(Communicator& communicator) {
  if (communicator.size() == 1) return;
  constexpr int kMessages = 50;
  for (int i = 0; i < kMessages; ++i) {
    const int sent = 100 * communicator.rank() + i;
    int received = -1;
    communicator.send_recv(next(communicator), bytes(sent), previous(communicator), buffer(received), 3);
    expect(received == 100 * previous(communicator) + i, "messages arrive in order");
  }
}

void tags_select(Communicator& communicator) {
  if (communicator.size() == 1) return;
  const int first = 1;
  const int second = 2;
  Request a = communicator.isend(next(communicator), 1, bytes(first));
  Request b = communicator.isend(next(communicator), 2, bytes(second));
  int received = 0;
  communicator.recv(previous(communicator), 2, buffer(received));
  expect(received == second, "the tag selects the message");
  communicator.recv(previous(communicator), 1, buffer(received));
  expect(received == first, "the message that was passed over is still there");
  communicator.wait(a);
  communicator.wait(b);
}

void receives_in_order(Communicator& communicator) {
  if (communicator.size() == 1) return;
  const std::array<int, 2> sent{10, 20};
  std::array<int, 2> received{};
  Request first = communicator.irecv(previous(communicator), 1, buffer(received[0]));
  Request second = communicator.irecv(previous(communicator), 1, buffer(received[1]));
  Request a = communicator.isend(next(communicator), 1, bytes(sent[0]));
  Request b = communicator.isend(next(communicator), 1, bytes(sent[1]));
  communicator.wait(second);
  communicator.wait(first);
  communicator.wait(a);
  communicator.wait(b);
  expect(received == sent, "receives get messages in the order in which they were started");
}

void sizes_are_told(Communicator& communicator) {
  if (communicator.size() == 1) return;
  const std::vector<std::byte> message(7, std::byte{5});
  std::vector<std::byte> buffer(16);
  for (const std::size_t length : {std::size_t{0}, std::size_t{7}}) {
    Request sending = communicator.isend(next(communicator), 1, std::span<const std::byte>(message).first(length));
    const std::size_t received = communicator.recv(previous(communicator), 1, std::span<std::byte>(buffer));
    communicator.wait(sending);
    expect(received == length, "recv tells the size of the message");
  }
}

void both_sides_count(Communicator& communicator) {
  const Traffic before = communicator.traffic()[Phase::kMetrics];
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kMetrics);
    if (communicator.size() > 1) {
      const std::uint64_t sent = 1;
      std::uint64_t received = 0;
      communicator.send_recv(next(communicator), bytes(sent), previous(communicator), buffer(received), 1);
    }
  }
  const std::uint64_t messages = communicator.size() > 1 ? 1 : 0;
  const Traffic expected{8 * messages, 8 * messages, messages, messages};
  expect(communicator.traffic()[Phase::kMetrics] - before == expected, "a message counts on both sides, in its phase");
}

constexpr std::array kCases{
    Case{"messages of a pair keep their order", keep_order},
    Case{"a tag selects among messages", tags_select},
    Case{"receives complete in the order of their start", receives_in_order},
    Case{"messages may be empty and shorter than the buffer", sizes_are_told},
    Case{"traffic counts both sides in the current phase", both_sides_count},
};

}  // namespace

void expect(bool condition, std::string_view claim, std::source_location where) {
  if (!condition) throw Error(fmt::format("{}:{}: not true: {}", where.file_name(), where.line(), claim));
}

std::span<const Case> message_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test
