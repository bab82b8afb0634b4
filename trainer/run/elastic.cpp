// SPDX-License-Identifier: MIT
#include "trainer/run/elastic.h"

#include <algorithm>
#include <chrono>
#include <malloc.h>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/agreement.h"
#include "comm/deadline.h"
#include "comm/local/local.h"
#include "core/file.h"
#include "core/log.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/signals.h"
#include "trainer/run/state_donor.h"
#include "trainer/run/training.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

/// Makes this process keep the memory that it frees. In every step in which the ranks meet it makes a copy of its state
/// and drops it: fresh pages for that would take longer than the copy.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

/// Lets a member abort what a communicator waits for, while this lives.
class WatchedGroup {
 public:
  WatchedGroup(comm::Member& member, comm::Communicator& communicator) : member_(member) {
    member.watch(&communicator);
  }
  ~WatchedGroup() { member_.watch(nullptr); }
  WatchedGroup(const WatchedGroup&) = delete;
  WatchedGroup& operator=(const WatchedGroup&) = delete;

 private:
  comm::Member& member_;
};

/// Trains as one rank of a generation. Returns the exit code of a run that is over.
int train_generation(RankRun& run, comm::Member& member, MembershipRecord& generation,
                     comm::Communicator& communicator) {
  const WatchedGroup watched(member, communicator);
  int exit_code = 0;
  try {
    exit_code = run.train(communicator, &generation);
  } catch (const comm::CollectiveError& error) {
    if (communicator.rank() == 0) log::error(0, "{}", error.what());
    exit_code = error.exit_code();
  }
  member.finish(run.place());
  return exit_code;
}

/// Returns whether a member's generation is over, or it hears of that within a second: one that was stopped may meet
/// files which those have replaced that go on without it, before it has read that they do.
bool hears_of_end(const comm::Member& member) {
  const comm::Deadline end = comm::deadline_after(1);
  while (!member.is_over() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return member.is_over();
}

/// Trains in one generation after the other. Returns the exit code of a run that is over. @throws DroppedError.
int train_as_member(const Job& job, comm::Member& member) {
  Commits commits;
  commits.follow(member);
  StateDonor donor(member, job.config.comm.join_share, choose_device(job.config).device.is_cpu());
  RankRun run(job, commits);
  run.set_donor(donor);
  if (const auto stream = member.await_fetch()) {
    log::info(0, "member {} gets the state of the run, while the others train", member.id());
    run.fetch(member, *stream);
  }
  std::vector<int> before;
  std::vector<LossRecord> lost;  // since a generation has begun
  for (;;) {
    const comm::Formation formation = member.await_generation();
    run.begin_at(formation.plan.place);
    for (const comm::Loss& loss : formation.lost) lost.push_back({loss});
    MembershipRecord generation{.plan = formation.plan, .before = before, .why = formation.why, .lost = lost};
    std::optional<int> exit_code;
    std::string failure;
    try {
      comm::run_tcp(formation.options, [&](comm::Communicator& communicator) {
        exit_code = train_generation(run, member, generation, communicator);
      });
    } catch (const CommError& error) {
      failure = error.what();
    } catch (const Error& error) {
      if (!hears_of_end(member)) throw;
      failure = error.what();
    }
    if (exit_code) return *exit_code;  // a group may fail behind its end
    member.settle(run.place(), /*is_prepared=*/false, failure);
    if (run.place() == formation.plan.place) continue;  // it has not begun
    before = formation.plan.members;
    lost.clear();
  }
}

/// Returns the hash in a run's summary.
std::string hash_of_run(const RunFolder& run) {
  try {
    return nlohmann::json::parse(read_text_file(run.summary())).at("parameters_hash").get<std::string>();
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format("{}: no summary of a run", run.summary().string()));
  }
}

/// Keeps the copies of a member's state that the run's streams have taken, until each has been given to its member.
class CopyKeeper final : public StateListener {
 public:
  void want(std::uint64_t place) { ++copies_[place].streams; }
  bool wants_copy(std::uint64_t place) override { return copies_.contains(place); }
  void take_copy(std::uint64_t place, const LeftState& copy) override { copies_[place].bytes = copy.to_bytes(); }
  void take_update(const LoggedUpdate& /*update*/) override {}
  /// Returns the copy that a member gets. @throws DataError if there is none.
  std::unique_ptr<LeftState> give(const StreamRecord& stream) {
    Copy& copy = copies_.at(stream.place);
    auto state = LeftState::copy_of(copy.bytes, fmt::format("member {} at place {}", stream.donor, stream.place),
                                    LeftState::Origin{stream.donor, stream.place});
    if (--copy.streams == 0) copies_.erase(stream.place);
    return state;
  }

 private:
  struct Copy {
    std::vector<std::byte> bytes;
    std::size_t streams = 0;  // that have still to give it
  };
  std::map<std::uint64_t, Copy> copies_;
};

/// The repetition of one run.
class Replay {
 public:
  explicit Replay(const ReplayRequest& request)
      : request_(request), records_(read_membership(RunFolder{request.run}.membership())) {
    const MembershipRecord& first = records_.front();
    require(first.plan.place == 0 && first.resumed.empty(),
            "{} goes on from {}: a replay repeats a run from its beginning", request.run.string(), first.resumed);
    job_.config = load_config(RunFolder{request.run}.config(),
                              std::vector<std::string>{"comm.rendezvous=\"\"", "comm.secret_file=\"\""});
    // Workers of this process, and all else that says what they compute as in the run.
    job_.config.comm.backend = Backend::kLocal;
    job_.config.comm.elastic = false;
    job_.folder = {request.output};
    job_.data = load_data(job_.config);
    for (const MembershipRecord& record : records_)
      for (const int member : record.plan.members)
        if (!runs_.contains(member)) runs_[member] = std::make_unique<RankRun>(job_);
    for (auto& [member, run] : runs_) run->set_listener(keepers_[member]);
    for (const MembershipRecord& record : records_)
      for (const StreamRecord& stream : record.streams) keepers_[stream.donor].want(stream.place);
  }

  int run() {
    for (std::size_t index = 0; index < records_.size() && !is_over_; ++index) train(index);
    if (request_.until && !is_over_)
      throw ConfigError(fmt::format("--until {}: the run has ended before", *request_.until));
    if (request_.until) return write_state();
    const std::string hash = hash_of_run(job_.folder), expected = hash_of_run({request_.run});
    if (hash != expected)
      throw Error(fmt::format("the replay of {} has the parameters {}, and the run has {}", request_.run.string(), hash,
                              expected));
    log::info(0, "the replay has the parameters of the run: {}", hash);
    return 0;
  }

 private:
  void train(std::size_t index) {
    const MembershipRecord& record = records_[index];
    Commits::End end{.step = request_.until};
    if (index + 1 < records_.size()) end.place = records_[index + 1].plan.place;
    const std::vector<int>& members = record.plan.members;
    std::vector<MembershipRecord> repeated(members.size());
    const auto workers = static_cast<int>(members.size());
    for (const StreamRecord& stream : record.streams)
      runs_.at(stream.member)->set_copy(keepers_.at(stream.donor).give(stream));
    comm::run_local(workers, local_options(job_.config, workers), [&](comm::Communicator& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      RankRun& run = *runs_.at(members[rank]);
      repeated[rank] = record;
      repeated[rank].streams.clear();
      if (index > 0) repeated[rank].before = records_[index - 1].plan.members;
      run.begin_at(record.plan.place);
      run.leave_at(end);
      try {
        run.train(group, &repeated[rank]);
      } catch (const GenerationOver&) {
        // It is left where the run left it.
      }
    });
    if (repeated.front().parameters_hash != record.parameters_hash)
      throw Error(fmt::format("generation {} of {} begins with the parameters {}, and its replay with {}",
                              record.plan.number, request_.run.string(), record.parameters_hash,
                              repeated.front().parameters_hash));
    // A copy may be of the place in front of which the run left the generation.
    for (const int member : members) {
      LeftState* const left = runs_.at(member)->left();
      if (!end.place || left == nullptr || !keepers_[member].wants_copy(*end.place)) continue;
      left->take_values();
      keepers_[member].take_copy(*end.place, *left);
    }
    const RankRun& first = *runs_.at(members.front());
    is_over_ = request_.until && (!end.place || first.place() != *end.place);
    // A long run has many members, and few at a time: what a member leaves behind is dropped, unless it is asked for.
    for (const int member : members)
      if (request_.member != member && !trains_behind(index, member)) runs_.erase(member);
  }

  /// Returns whether a member is in some generation behind this one.
  bool trains_behind(std::size_t index, int member) const {
    return std::ranges::any_of(std::span(records_).subspan(index + 1), [&](const MembershipRecord& later) {
      return std::ranges::count(later.plan.members, member) > 0;
    });
  }

  int write_state() {
    if (!request_.member) return 0;
    const auto run = runs_.find(*request_.member);
    require(run != runs_.end() && run->second->left() != nullptr, "--member {}: no member of the run before step {}",
            *request_.member, *request_.until);
    LeftState& left = *run->second->left();
    left.take_values();
    const fs::path folder = request_.output / fmt::format("member-{:04}", *request_.member);
    fs::create_directories(folder);
    left.shared.write(folder / "model.safetensors");
    left.own.write(folder / "rank.safetensors");
    log::info(0, "wrote the state of member {} to {}", *request_.member, folder.string());
    return 0;
  }

  ReplayRequest request_;
  std::vector<MembershipRecord> records_;
  Job job_;
  std::map<int, CopyKeeper> keepers_;  // by member, as the runs, which they outlive
  std::map<int, std::unique_ptr<RankRun>> runs_;
  bool is_over_ = false;  // the last step to be repeated is done
};

}  // namespace

comm::CoordinatorOptions coordinator_options(const CommConfig& config, int workers) {
  require(config.max_workers == 0 || config.max_workers >= workers,
          "comm.max_workers = {}, and the run begins with {} workers: expected as many or more", config.max_workers,
          workers);
  comm::CoordinatorOptions options{
      .rendezvous = comm::find_rendezvous(config.rendezvous),
      .workers = workers,
      .min_workers = static_cast<int>(config.min_workers),
      .max_workers = config.max_workers > 0 ? static_cast<int>(config.max_workers) : workers,
      .timeout_s = config.timeout_s,
      .heartbeat_timeout_s = config.heartbeat_timeout_s};
  if (!config.secret_file.empty())
    options.secret = std::make_shared<const comm::Secret>(comm::Secret::load(config.secret_file));
  return options;
}

int run_elastic(const Job& job, int id) {
  keep_freed_memory();
  const CommConfig& config = job.config.comm;
  const comm::CoordinatorOptions coordinator = coordinator_options(config, 1);
  const comm::MemberOptions options{.id = id,
                                    .config = std::stoull(config_hash(job.config), nullptr, 16),
                                    .rendezvous = coordinator.rendezvous,
                                    .timeout_s = coordinator.timeout_s,
                                    .heartbeat_timeout_s = coordinator.heartbeat_timeout_s,
                                    .coordinator_timeout_s = config.coordinator_timeout_s,
                                    .secret = coordinator.secret};
  auto member = std::make_unique<comm::Member>(options);
  for (;;) {
    try {
      return train_as_member(job, *member);
    } catch (const comm::DroppedError& error) {
      if (StopSignals::received() != 0) {
        log::error(id, "{}; this process ends, and the others go on", error.what());
        return kExitRequeue;
      }
      const bool joins_again = config.rejoin && member->has_trained();
      log::error(id, "{}; {}", error.what(),
                 joins_again ? "this process joins again" : "this process ends, and its state with it");
      if (!joins_again) return kExitRequeue;
    }
    try {
      member = std::make_unique<comm::Member>(options);
    } catch (const CommError& error) {
      log::error(id, "{}; this process ends", error.what());
      return kExitRequeue;
    }
  }
}

int replay(const ReplayRequest& request) {
  require(!request.member || request.until, "--member {} writes a state, and lacks --until STEP",
          request.member.value_or(0));
  return Replay(request).run();
}

}  // namespace dragonn::trainer
