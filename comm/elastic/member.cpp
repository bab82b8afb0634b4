// SPDX-License-Identifier: MIT
#include "comm/elastic/member.h"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/deadline.h"
#include "comm/tcp/listener.h"
#include "core/error.h"
#include "core/log.h"

namespace dragonn::comm {
namespace {

constexpr double kRetrySeconds = 0.1;
constexpr double kConnectSeconds = 2;
constexpr double kAnswerSeconds = 5;
constexpr double kMassSeconds = 1;
/// The ranks of a generation, which all have just been told, connect within this time, or twice the heartbeat timeout.
constexpr double kFormingSeconds = 10;

}  // namespace

Member::Member(const MemberOptions& options) : options_(options) {
  connect();
  const Address here = local_address(socket_.descriptor()).value_or(Address{});
  Address place = here;
  place.port = 0;
  SocketResult door = options_.rendezvous.is_loopback() ? listen_on(place) : listen_everywhere(0);
  if (!door.problem.empty())
    throw CommError(fmt::format("member {} cannot listen for the others: {}", id(), door.problem));
  door_ = std::make_shared<const Descriptor>(std::move(door.socket));
  send({.kind = MemberLine::Kind::kJoin,
        .place = local_address(*door_).value_or(Address{}).port,
        .config = options_.config});
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Member::~Member() = default;

void Member::connect() {
  const Deadline end = deadline_after(options_.timeout_s);
  for (;;) {
    const std::string problem = try_to_connect(socket_);
    if (problem.empty()) return;
    if (std::chrono::steady_clock::now() >= end)
      throw CommError(fmt::format("member {}: the coordinator is not there at {} within {} s (comm.timeout_s): {}",
                                  id(), options_.rendezvous.text(), options_.timeout_s, problem));
    std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
  }
}

std::string Member::try_to_connect(LineSocket& socket) const {
  const Rendezvous& place = options_.rendezvous;
  std::string problem = "it has not written the file";
  RendezvousFile file;
  if (place.by_file()) {
    file = RendezvousFile::read(place.file).value_or(file);
  } else {
    file.addresses = resolve(place.address, problem);
  }
  for (const Address& address : file.addresses) {
    SocketResult connection = connect_to(address, deadline_after(kConnectSeconds));
    problem = connection.problem;
    if (!problem.empty()) continue;
    Hello hello = hello_of(id(), kElasticSize);
    hello.run = place.run;
    hello.token = file.token;
    const Deadline soon = deadline_after(kAnswerSeconds);
    const auto is_answered = [&] { return wait_for(connection.socket, POLLIN, soon); };
    problem = greet(connection.socket, hello, options_.secret.get(), soon, is_answered).text;
    Answer answer{};
    if (problem.empty()) problem = read_all(connection.socket, writable_bytes_of(answer), soon);
    if (problem.empty() && answer == kHasSecret)
      problem = "it has a secret (comm.secret_file), and this process has none";
    if (problem.empty() && answer != kAccepted) problem = "another run uses this rendezvous";
    if (!problem.empty()) continue;
    socket = LineSocket(std::move(connection.socket));
    return "";
  }
  return problem;
}

std::optional<std::uint64_t> Member::await_fetch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next_ || fetch_ || !lost_.empty(); });
  require_member();
  return next_ ? std::nullopt : std::exchange(fetch_, std::nullopt);
}

void Member::say_ready() {
  send({.kind = MemberLine::Kind::kReady});
}

void Member::ask_again(int lost) {
  send({.kind = MemberLine::Kind::kAgain, .place = static_cast<std::uint64_t>(lost)});
}

void Member::on_taker(std::function<void(const Taker&)> give) {
  const std::lock_guard lock(mutex_);
  give_ = std::move(give);
}

Formation Member::await_generation() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next_ || !lost_.empty(); });
  require_member();
  const CoordinatorLine line = *std::exchange(next_, std::nullopt);
  generation_ = line.plan.number;
  options_.id = line.member;
  has_reported_ = false;
  report_.reset();
  why_.clear();  // of an order that crossed the report on its way
  const auto rank = std::ranges::find(line.plan.members, id());
  DRAGONN_CHECK(rank != line.plan.members.end(), "generation {} is without member {}", generation_, id());
  const Address& door = line.doors.front();
  const std::string text = door.text();
  const std::string host = text.substr(0, text.rfind(':'));
  TcpOptions options{.rank = static_cast<int>(rank - line.plan.members.begin()),
                     .size = static_cast<int>(line.plan.members.size()),
                     .timeout_s = options_.timeout_s,
                     .secret = options_.secret};
  options.rendezvous = {.address = parse_host_and_port(text).value_or(HostAndPort{host}), .run = line.run};
  options.connect_timeout_s = std::max(kFormingSeconds, 2 * options_.heartbeat_timeout_s);
  options.farewell_s = 0;  // the coordinator tells the others
  options.door = door_;
  options.is_given_up = [this] { return is_over(); };
  return {line.plan, line.why, std::move(options), line.lost};
}

bool Member::settle(std::uint64_t place, bool is_prepared, const std::string& why) {
  std::unique_lock lock(mutex_);
  require_member();
  if (std::exchange(has_reported_, true)) return false;
  ended_ = generation_;
  if (why_.empty()) why_ = why;
  report_ = MemberLine{MemberLine::Kind::kReport, generation_, place, std::exchange(why_, {})};
  tell(*report_);
  changed_.wait(lock, [&] { return next_ || !lost_.empty(); });
  require_member();
  return counts(next_->plan, place, is_prepared);
}

void Member::finish(std::uint64_t place) {
  std::unique_lock lock(mutex_);
  watched_ = nullptr;
  finish_ = MemberLine{.kind = MemberLine::Kind::kFinish, .place = place};
  tell(*finish_);
  changed_.wait(lock, [&] { return has_finished_ || !lost_.empty(); });
  if (!has_finished_) require_member();
}

void Member::ask_to_leave(std::uint64_t place) {
  const std::lock_guard lock(mutex_);
  if (leave_) return;
  leave_ = MemberLine{.kind = MemberLine::Kind::kLeave, .place = place};
  tell(*leave_);
}

bool Member::leaves() const {
  const std::lock_guard lock(mutex_);
  return leave_.has_value();
}

void Member::set_mass(const ResidualMass& mass) {
  wants_mass_ = false;
  send({.mass = mass});
}

bool Member::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

bool Member::is_over() const {
  const std::lock_guard lock(mutex_);
  return is_ended();
}

void Member::watch(Communicator* communicator) {
  const std::lock_guard lock(mutex_);
  watched_ = communicator;
  if (is_ended()) abort_watched();
}

void Member::run(const std::stop_token& stop) {
  const double interval = options_.heartbeat_timeout_s / kBeatsPerTimeout;
  RunningDeadline silence(deadline_after(options_.heartbeat_timeout_s), interval);
  Deadline beat = deadline_after(interval), mass = deadline_after(kMassSeconds);
  while (!stop.stop_requested()) {
    const Deadline look = std::min({beat, silence.next_look(), deadline_after(kRetrySeconds)});
    wait_for(socket_.descriptor(), POLLIN, look);
    std::vector<std::string> lines;
    const bool is_open = socket_.read(lines);
    for (const std::string& text : lines) {
      const auto line = CoordinatorLine::parse(text);
      if (!line) return lose("the coordinator sends what no coordinator sends");
      obey(*line);
      if (line->kind == CoordinatorLine::Kind::kDrop || line->kind == CoordinatorLine::Kind::kBye) return;
    }
    if (!lines.empty()) silence = RunningDeadline(deadline_after(options_.heartbeat_timeout_s), interval);
    if (!is_open || silence.is_over()) {
      const std::string why = is_open ? fmt::format("the coordinator is silent for {} s (comm.heartbeat_timeout_s)",
                                                    options_.heartbeat_timeout_s)
                                      : "the coordinator has ended";
      if (!find_coordinator(why, stop)) return;
      silence = RunningDeadline(deadline_after(options_.heartbeat_timeout_s), interval);
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= mass) {
      mass = deadline_after(kMassSeconds);
      wants_mass_ = true;
    }
    if (now < beat) continue;
    beat = deadline_after(interval);
    send({});
  }
}

void Member::obey(const CoordinatorLine& line) {
  if (line.kind == CoordinatorLine::Kind::kDrop) return lose(line.why);
  const std::lock_guard lock(mutex_);
  if (line.kind == CoordinatorLine::Kind::kBye) has_finished_ = true;
  if (line.kind == CoordinatorLine::Kind::kStop) is_stopping_ = true;
  if (line.kind == CoordinatorLine::Kind::kForm) next_ = line;
  if (line.kind == CoordinatorLine::Kind::kGive && give_) give_({line.member, line.run, line.doors.front()});
  if (line.kind == CoordinatorLine::Kind::kFetch) {
    fetch_ = line.run;
    options_.id = line.member;
  }
  if (line.kind == CoordinatorLine::Kind::kYield || line.kind == CoordinatorLine::Kind::kEnd) {
    ended_ = std::max(ended_, line.plan.number);
    why_ = line.why;
  }
  if (line.kind == CoordinatorLine::Kind::kEnd) abort_watched();
  changed_.notify_all();
}

void Member::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  lost_ = why;
  abort_watched();
  changed_.notify_all();
}

bool Member::find_coordinator(const std::string& why, const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    is_orphan_ = true;
    socket_ = {};
    if (generation_ == 0 || has_finished_) lost_ = why;  // there is nothing that it could come back to
    changed_.notify_all();
    if (!lost_.empty()) return false;
  }
  log::warning(id(), "member {}: {}; it trains on for {} s at most (comm.coordinator_timeout_s)", id(), why,
               options_.coordinator_timeout_s);
  const Deadline end = deadline_after(options_.coordinator_timeout_s);
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < end) {
    if (return_to(end, stop)) {
      log::warning(id(), "member {}: there is a coordinator again", id());
      return true;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
  }
  const std::lock_guard lock(mutex_);
  lost_ = why;
  is_stopping_ = true;
  changed_.notify_all();
  return false;
}

bool Member::return_to(Deadline end, const std::stop_token& stop) {
  LineSocket socket;
  if (!try_to_connect(socket).empty()) return false;
  {
    const std::lock_guard lock(mutex_);
    socket_ = std::move(socket);
    const MemberLine self{.kind = MemberLine::Kind::kReturn,
                          .generation = generation_,
                          .place = local_address(*door_).value_or(Address{}).port,
                          .config = options_.config};
    if (!socket_.send(self.text())) return false;
  }
  // A coordinator of another run, or one that has given this member up, drops it: it waits for the right one.
  std::vector<std::string> lines;
  while (lines.empty()) {
    if (stop.stop_requested() || std::chrono::steady_clock::now() >= end) return false;
    wait_for(socket_.descriptor(), POLLIN, std::min(end, deadline_after(kRetrySeconds)));
    if (!socket_.read(lines) && lines.empty()) return false;
  }
  std::vector<CoordinatorLine> orders;
  for (const std::string& text : lines) {
    const auto line = CoordinatorLine::parse(text);
    if (!line || line->kind == CoordinatorLine::Kind::kDrop) return false;
    orders.push_back(*line);
  }
  {
    const std::lock_guard lock(mutex_);
    is_orphan_ = false;
    for (const std::optional<MemberLine>& said : {leave_, report_, finish_})
      if (said) tell(*said);
  }
  for (const CoordinatorLine& order : orders) obey(order);
  return true;
}

void Member::tell(const MemberLine& line) {
  // What does not arrive is repeated to the coordinator that comes next.
  if (!is_orphan_) socket_.send(line.text());
}

void Member::abort_watched() {
  if (watched_ != nullptr && is_ended()) watched_->abort(lost_.empty() ? why_ : lost_);
}

void Member::send(const MemberLine& line) {
  const std::lock_guard lock(mutex_);
  tell(line);
}

void Member::require_member() const {
  if (lost_.empty()) return;
  throw DroppedError(has_trained() ? fmt::format("member {} is no member any more: {}", options_.id, lost_)
                                   : fmt::format("this process does not become a member: {}", lost_));
}

}  // namespace dragonn::comm
