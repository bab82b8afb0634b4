// SPDX-License-Identifier: MIT
#include "comm/elastic/coordinator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/deadline.h"
#include "core/error.h"
#include "core/log.h"

namespace dragonn::comm {
namespace {

constexpr double kLookSeconds = 0.02;
/// A process that has connected says within this time that it joins.
constexpr double kJoinSeconds = 5;
/// Members find within one timeout that their coordinator is gone, and one that is there again within another.
constexpr double kReturnTimeouts = 2;
/// Stands for the door of a member that is gone: nobody listens there.
constexpr Address kNoDoor{.family = Address::Family::kIpv4, .port = 1};
/// A look that is this late means that this process was suspended, which says nothing about the members.
constexpr double kSuspendedSeconds = 1;

Descriptor listen(const Rendezvous& place) {
  SocketResult door = listen_at(place);
  if (door.problem.empty()) return std::move(door.socket);
  throw CommError(fmt::format(
      "the coordinator cannot listen at {}: {}; it must run on that host, and comm.rendezvous may name another port",
      place.text(), door.problem));
}

CoordinatorLine::Kind kind_of(Order::Kind order) {
  switch (order) {
    case Order::Kind::kYield:
      return CoordinatorLine::Kind::kYield;
    case Order::Kind::kEnd:
      return CoordinatorLine::Kind::kEnd;
    case Order::Kind::kStop:
      return CoordinatorLine::Kind::kStop;
    case Order::Kind::kForm:
      return CoordinatorLine::Kind::kForm;
    case Order::Kind::kFetch:
      return CoordinatorLine::Kind::kFetch;
    case Order::Kind::kGive:
      return CoordinatorLine::Kind::kGive;
    case Order::Kind::kDrop:
      break;
  }
  return CoordinatorLine::Kind::kDrop;
}

}  // namespace

RunCoordinator::RunCoordinator(const CoordinatorOptions& options)
    : options_(options),
      journal_(options.journal.empty() ? std::nullopt : std::optional<Journal>(options.journal)),
      token_(random_token()),
      listener_(listen(options.rendezvous), options_.secret.get()),
      membership_(options.workers, options.min_workers, options.max_workers),
      next_id_(options.workers),
      start_(std::chrono::steady_clock::now()),
      beat_(start_) {
  if (const auto left = journal_ ? journal_->read() : std::nullopt) take_up(*left);
  if (options.rendezvous.by_file())
    published_.emplace(options.rendezvous.file, RendezvousFile{token_, addresses_of_this_machine(listener_.port())});
}

void RunCoordinator::take_up(const JournalEntry& entry) {
  journal_->take_over(entry);
  last_ = entry;
  token_ = entry.token;
  next_id_ = entry.next_id;
  config_ = entry.config;
  membership_ = Membership(options_.min_workers, options_.max_workers, entry.last);
  const std::vector<int>& members = entry.last.plan.members;
  missing_.insert(members.begin(), members.end());
  has_members_ = false;
  log::info(0, "takes up the run in generation {}, of the members {} ({})", entry.last.plan.number,
            fmt::join(members, ", "), options_.journal.string());
}

void RunCoordinator::give_up_missing(Time now) {
  if (seconds_since_start(now) <= kReturnTimeouts * options_.heartbeat_timeout_s) return;
  for (const int id : std::exchange(missing_, {})) {
    lost_.push_back({id});
    membership_.leave(id, fmt::format("member {} has not come back to the coordinator", id));
  }
}

bool RunCoordinator::serve(const std::stop_token& stop) {
  Time look = std::chrono::steady_clock::now();
  const std::chrono::duration<double> interval(options_.heartbeat_timeout_s / kBeatsPerTimeout);
  while (!membership_.is_over() && !stop.stop_requested()) {
    std::string starved;
    for (AcceptedConnection& connection : listener_.wait(deadline_after(kLookSeconds), starved))
      admit(std::move(connection));
    const Time now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> late = now - look;
    if (late.count() > kSuspendedSeconds + kLookSeconds)
      for (const auto& peer : peers_) peer->heard += now - look;
    look = now;
    for (const auto& peer : peers_) hear(*peer, now);
    if (options_.is_signaled && options_.is_signaled()) {
      if (!membership_.has_begun()) return false;
      stop_run();
    }
    if (!membership_.has_begun() && seconds_since_start(now) > options_.timeout_s) {
      membership_.begin_with_fewer();
      if (!membership_.has_begun())
        for (const auto& peer : peers_)
          drop(*peer, fmt::format("{} of {} workers came within {} s (comm.timeout_s), and comm.min_workers is {}",
                                  membership_.present(), options_.workers, options_.timeout_s, options_.min_workers));
      if (!membership_.has_begun()) return false;
    }
    give_up_missing(now);
    note_generation();
    send_orders();
    const bool beats = now - beat_ >= interval;
    if (beats) beat_ = now;
    for (const auto& peer : peers_)
      if (beats && peer->door && !peer->is_gone) peer->socket.send(CoordinatorLine{}.text());
    std::erase_if(peers_, [](const auto& peer) { return peer->is_gone; });
  }
  if (journal_ && membership_.is_over()) journal_->remove();
  return membership_.has_begun() && has_members_;
}

void RunCoordinator::admit(AcceptedConnection connection) {
  const Hello& hello = connection.hello;
  const bool is_expected = hello.token == (published_ ? token_ : 0) && hello.run == options_.rendezvous.run;
  if (!write_all(connection.socket, bytes_of(is_expected ? kAccepted : kOtherRun), deadline_after(1)).empty()) return;
  if (!is_expected) return;
  auto peer = std::make_unique<Peer>();
  peer->id = hello.rank;
  peer->heard = std::chrono::steady_clock::now();
  const std::string version = version_of(hello), own = version_of(hello_of(0, 1));
  const bool is_elastic = hello.size == kElasticSize;
  peer->socket = LineSocket(std::move(connection.socket));
  if (!is_elastic) return drop(*peer, "the coordinator's run has comm.elastic = true");
  if (version != own)
    return drop(*peer, fmt::format("this process runs dragonn {}, and the coordinator runs {}", version, own));
  peers_.push_back(std::move(peer));
}

void RunCoordinator::hear(Peer& peer, Time now) {
  if (peer.is_gone) return;
  std::vector<std::string> lines;
  const bool is_open = peer.socket.read(lines);
  if (!lines.empty()) peer.heard = now;
  for (const std::string& text : lines) {
    const auto line = MemberLine::parse(text);
    if (!line) return lose(peer, "it sends what no member sends");
    obey(peer, *line);
    if (peer.is_gone) return;
  }
  if (!is_open) return lose(peer, "its connection has ended");
  const double limit = peer.door ? options_.heartbeat_timeout_s : kJoinSeconds;
  const std::chrono::duration<double> silence = now - peer.heard;
  if (silence.count() > limit)
    lose(peer, fmt::format("it is silent for {} s (comm.heartbeat_timeout_s)", options_.heartbeat_timeout_s));
}

void RunCoordinator::obey(Peer& peer, const MemberLine& line) {
  if (line.kind == MemberLine::Kind::kJoin) return join(peer, line);
  if (line.kind == MemberLine::Kind::kReturn) return take_back(peer, line);
  if (!peer.door) return lose(peer, "it has not joined");
  if (line.kind == MemberLine::Kind::kLeave) {
    if (peer.id == options_.host) return stop_run();
    return membership_.ask_to_leave(peer.id, line.place);
  }
  if (line.kind == MemberLine::Kind::kBeat && line.mass) peer.mass = line.mass;
  if (line.kind == MemberLine::Kind::kReady) membership_.ready(peer.id);
  if (line.kind == MemberLine::Kind::kAgain && line.place <= static_cast<std::uint64_t>(next_id_))
    membership_.fetch_again(peer.id, static_cast<int>(line.place));
  if (line.kind == MemberLine::Kind::kReport) membership_.report(peer.id, line.generation, line.place, line.why);
  if (line.kind != MemberLine::Kind::kFinish) return;
  membership_.finish(peer.id, line.place);
  note_generation();  // whoever has heard this word is gone
  CoordinatorLine bye;
  bye.kind = CoordinatorLine::Kind::kBye;
  peer.socket.send(bye.text());
}

void RunCoordinator::stop_run() {
  if (std::exchange(is_stopping_, true)) return;
  log::info(0, "the run stops on a signal, with a checkpoint");
  membership_.stop();
}

std::optional<Address> RunCoordinator::accept(Peer& peer, const MemberLine& line) {
  std::optional<Address> door = remote_address(peer.socket.descriptor());
  if (peer.door || !door || line.place > 65535) {
    lose(peer, "it cannot join");
    return std::nullopt;
  }
  if (config_.value_or(line.config) != line.config) {
    drop(peer, "this process has other settings than the run (its config.toml has them)");
    return std::nullopt;
  }
  door->port = line.place;
  return door;
}

void RunCoordinator::take_back(Peer& peer, const MemberLine& line) {
  const auto door = accept(peer, line);
  if (!door) return;
  if (line.generation > last_.last.plan.number || missing_.erase(peer.id) == 0)
    return drop(peer, "the run goes on without it");
  peer.door = door;
  has_members_ = true;
  peer.socket.send(CoordinatorLine{}.text());  // it is taken back
  log::info(0, "member {} has come back", peer.id);
  membership_.come_back(peer.id, line.generation);
}

void RunCoordinator::join(Peer& peer, const MemberLine& line) {
  const auto door = accept(peer, line);
  if (!door) return;
  const bool is_late = membership_.has_begun();
  if (is_late) peer.id = next_id_++;
  if (member(peer.id) != nullptr) return drop(peer, fmt::format("two processes were started as rank {}", peer.id));
  if (!is_late && (peer.id < 0 || peer.id >= options_.workers))
    return drop(peer, fmt::format("this process was started as rank {}, and the run has {} workers: ranks are numbered "
                                  "from 0",
                                  peer.id, options_.workers));
  peer.door = door;
  config_ = line.config;
  membership_.join(peer.id);
  if (is_late && membership_.is_present(peer.id)) log::info(0, "member {} joins the run", peer.id);
}

void RunCoordinator::drop(Peer& peer, const std::string& why) {
  CoordinatorLine line;
  line.kind = CoordinatorLine::Kind::kDrop;
  line.why = why;
  peer.socket.send(line.text());
  peer.is_gone = true;
}

void RunCoordinator::lose(Peer& peer, const std::string& why) {
  if (peer.door && membership_.has_begun() && membership_.is_present(peer.id))
    log::warning(0, "member {} has left generation {}: {}", peer.id, membership_.generation().number, why);
  const bool was_member = peer.door.has_value();
  if (was_member) note_loss(peer);
  drop(peer, why);
  if (was_member) membership_.leave(peer.id, fmt::format("member {}: {}", peer.id, why));
}

void RunCoordinator::note_generation() {
  const LastGeneration last = membership_.last();
  const bool is_new = last.plan.number > last_.last.plan.number;
  if (!is_new && last.reached == last_.last.reached) return;
  if (is_new) last_.lost = std::exchange(lost_, {});
  last_ = {.token = token_, .next_id = next_id_, .config = config_.value_or(0), .last = last, .lost = last_.lost};
  if (journal_) journal_->write(last_);
}

void RunCoordinator::send_orders() {
  for (Order& order : membership_.take_orders()) {
    Peer* const peer = member(order.member);
    if (peer == nullptr) continue;
    if (order.kind == Order::Kind::kDrop) {
      note_loss(*peer);
      drop(*peer, order.why);
      continue;
    }
    const bool forms = order.kind == Order::Kind::kForm;
    CoordinatorLine line;
    line.kind = kind_of(order.kind);
    line.member = order.member;
    line.plan = order.plan;
    line.run = token_ + order.plan.number;
    line.why = order.why;
    if (forms) line.lost = last_.lost;
    if (forms) line.doors = doors_of(order.plan.members);
    if (order.kind == Order::Kind::kFetch) line.run = run_of_stream(order.member);
    if (order.kind == Order::Kind::kGive) {
      line.member = order.taker;
      line.run = run_of_stream(order.taker);
      line.doors = doors_of({order.taker});
      log::info(0, "member {} gives the state of the run to member {}", order.member, order.taker);
    }
    // Whoever takes no line is lost at the next look, as its connection has ended or it is silent.
    peer->socket.send(line.text());
  }
}

void RunCoordinator::note_loss(const Peer& peer) {
  const GenerationPlan& plan = membership_.generation();
  if (!std::ranges::binary_search(plan.members, peer.id)) return;
  lost_.push_back({peer.id, peer.mass});
}

std::vector<Address> RunCoordinator::doors_of(const std::vector<int>& members) const {
  // A member on this machine, which came over the loopback interface, is for others where they reach this process.
  std::optional<Address> here;
  for (const auto& peer : peers_)
    if (peer->door && !peer->door->is_loopback()) here = local_address(peer->socket.descriptor());
  std::vector<Address> doors;
  for (const int id : members) {
    const Peer* const peer = member(id);
    // A member whose connection has just ended is no obstacle: its generation fails, and the next one is without it.
    Address door = peer == nullptr ? kNoDoor : *peer->door;
    if (here && door.is_loopback()) {
      const std::uint64_t port = door.port;
      door = *here;
      door.port = port;
    }
    doors.push_back(door);
  }
  return doors;
}

RunCoordinator::Peer* RunCoordinator::member(int id) const {
  const auto found =
      std::ranges::find_if(peers_, [&](const auto& one) { return one->id == id && one->door && !one->is_gone; });
  return found == peers_.end() ? nullptr : found->get();
}

}  // namespace dragonn::comm
