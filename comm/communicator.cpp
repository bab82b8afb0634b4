// SPDX-License-Identifier: MIT
#include "comm/communicator.h"

#include <cstdio>

#include <fmt/format.h>

#include "core/choice.h"
#include "core/timeline.h"

namespace dragonn::comm {

namespace {

/// Returns a span with the size of `bytes` and no address.
template <class T>
std::span<T> without_address(std::span<T> bytes) {
  return {static_cast<T*>(nullptr), bytes.size()};
}

}  // namespace

DenseAlgorithm dense_algorithm(const std::string& name) {
  return choice_of<DenseAlgorithm>("dense algorithm", name);
}

void Communicator::check_peer(const char* operation, int peer) const {
  DRAGONN_CHECK(peer >= 0 && peer < size() && peer != rank(), "rank {} of {} cannot {} rank {}: a peer is another rank",
                rank(), size(), operation, peer);
}

void Communicator::check_size(int source, const Route& route, std::size_t came, std::size_t expected) const {
  if (came == expected) return;
  throw bad_data(source, route,
                 fmt::format("received {} bytes instead of {}: the ranks disagree on a size", came, expected));
}

std::int64_t Communicator::next_message(MessageNumbers& numbers, int peer, int tag) {
  return this_recording().timeline == nullptr ? -1 : numbers[{peer, tag}]++;
}

void Communicator::send(int destination, int tag, View<const std::byte> message) {
  Request request = isend(destination, tag, message);
  wait(request);
}

std::size_t Communicator::recv(int source, int tag, View<std::byte> buffer) {
  Request request = irecv(source, tag, buffer);
  return wait(request);
}

Request Communicator::isend(int destination, int tag, View<const std::byte> message) {
  check_peer("send to", destination);
  const Span span(Track::kExchange, "send",
                  {.bytes = static_cast<std::int64_t>(message.size()),
                   .peer = rank_in_whole(destination),
                   .tag = tag,
                   .message = next_message(shared_.sent, rank_in_whole(destination), tag)});
  Request request = start_send(destination, tag, shared_.size_only ? without_address(message.host()) : message.host());
  request.peer = destination;
  shared_.traffic.count_sent(message.size());
  return request;
}

Request Communicator::irecv(int source, int tag, View<std::byte> buffer) {
  check_peer("receive from", source);
  Request request = start_receive(source, tag, shared_.size_only ? without_address(buffer.host()) : buffer.host());
  request.peer = source;
  request.tag = tag;
  request.message = next_message(shared_.received, rank_in_whole(source), tag);
  return request;
}

std::size_t Communicator::wait(Request& request) {
  Span span(Track::kExchange, request.is_receive ? "receive" : "wait for send",
            {.peer = rank_in_whole(request.peer), .tag = request.tag, .message = request.message});
  const std::size_t bytes = finish(request);
  if (request.is_receive) {
    shared_.traffic.count_received(bytes);
    span.set_bytes(bytes);
  }
  return bytes;
}

void Communicator::wait_exactly(Request& receive, std::size_t bytes) {
  check_size(receive.peer, {}, wait(receive), bytes);
}

void Communicator::recv_exactly(int source, int tag, View<std::byte> buffer) {
  check_size(source, {}, recv(source, tag, buffer), buffer.size());
}

void Communicator::send_recv(int destination, View<const std::byte> outgoing, int source, View<std::byte> incoming,
                             int tag) {
  Request receive = irecv(source, tag, incoming);
  Request sending = isend(destination, tag, outgoing);
  const std::size_t bytes = wait(receive);
  wait(sending);
  check_size(source, {}, bytes, incoming.size());
}

void Communicator::notify(int destination, Notification notification) {
  check_peer("notify", destination);
  notification.source = rank();
  start_notification(destination, notification);
  const ScopedPhase phase(shared_.traffic, Phase::kHeader);
  shared_.traffic.count_sent(kNotificationBytes);
}

std::optional<Notification> Communicator::poll_notification(int source) {
  if (source != kAllRanks) check_peer("be notified by", source);
  const std::optional<Notification> taken = take_notification(source);
  const ScopedPhase phase(shared_.traffic, Phase::kHeader);
  if (taken) shared_.traffic.count_received(kNotificationBytes);
  return taken;
}

std::optional<Notification> Communicator::wait_for_notification(int source,
                                                                const std::function<bool()>& is_interrupted) {
  check_peer("be notified by", source);
  const ScopedOperation waiting = operation("notification");
  const std::optional<Notification> taken = finish_notification(
      source, is_interrupted ? is_interrupted : [] { return false; });
  const ScopedPhase phase(shared_.traffic, Phase::kHeader);
  if (taken) shared_.traffic.count_received(kNotificationBytes);
  return taken;
}

std::string Communicator::error_text(std::string_view doing, int peer, std::string_view reason) const {
  const std::string activity = shared_.activity.describe();
  const std::string other = peer == kAllRanks ? "all ranks" : fmt::format("rank {}", rank_in_whole(peer));
  return fmt::format("rank {}{}{}, {} {}: {}", rank_in_whole(rank()), activity.empty() ? "" : ", ", activity, doing,
                     other, reason);
}

TimeoutError Communicator::late(std::string_view doing, int peer, double seconds, std::string_view where) const {
  return error<TimeoutError>(
      doing, peer, fmt::format("nothing for {} s (comm.timeout_s){}{}", seconds, where.empty() ? "" : "; ", where));
}

CommError Communicator::too_large(int source, std::size_t bytes, std::size_t capacity) const {
  return error("receiving from", source,
               fmt::format("a message of {} bytes does not fit the {} bytes for it", bytes, capacity));
}

void Communicator::check_request(bool is_known) const {
  DRAGONN_CHECK(is_known, "rank {} waits for a request that it does not have", rank());
}

std::string Communicator::failure_text(std::string_view reason) const {
  const std::string doing = shared_.activity.describe();
  return fmt::format("rank {} failed{}: {}", rank(), doing.empty() ? "" : fmt::format(" ({})", doing), reason);
}

void Communicator::report_unsent(const std::exception& failure) const noexcept {
  std::fprintf(stderr, "rank %d: cannot report its failure: %s\n", rank(), failure.what());
}

CommError Communicator::bad_data(int source, const Route& route, std::string_view reason) const {
  const std::vector<int> path = senders(source, route);
  if (path.size() <= 1) return error("receiving from", source, reason);
  std::string passed_on;
  for (const int relay : std::span(path).subspan(1))
    passed_on += fmt::format(", passed on by rank {}", rank_in_whole(relay));
  return error("receiving from", path.back(),
               fmt::format("what rank {} has sent{}: {}", rank_in_whole(source), passed_on, reason));
}

ScopedSizeOnly::ScopedSizeOnly(Communicator& communicator, bool size_only)
    : communicator_(communicator), previous_(communicator.shared_.size_only) {
  DRAGONN_CHECK(!size_only || communicator.supports_size_only(), "the backend {} has no messages of a size alone",
                communicator.backend());
  communicator.shared_.size_only = previous_ || size_only;
}

}  // namespace dragonn::comm
