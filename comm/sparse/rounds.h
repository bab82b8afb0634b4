// SPDX-License-Identifier: MIT
/// Rounds: one bucket's exchange as a coroutine that suspends wherever it needs the other ranks.
#pragma once

#include <coroutine>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/sparse/list_verbs.h"

namespace dragonn::comm {

class ListTransport;  // comm/sparse/list_transport.h

/// Base of classes whose member functions are such coroutines. It keeps the memory of the coroutine from step to step,
/// so that no step allocates. Only one coroutine of an object runs at a time.
class RoundsOwner {
 public:
  RoundsOwner() = default;
  RoundsOwner(const RoundsOwner&) = delete;
  RoundsOwner& operator=(const RoundsOwner&) = delete;

 protected:
  ~RoundsOwner() = default;

 private:
  friend class Rounds;
  void* frame(std::size_t bytes) {
    if (bytes > capacity_) {
      frame_ = std::make_unique<std::byte[]>(bytes);
      capacity_ = bytes;
    }
    return frame_.get();
  }

  std::unique_ptr<std::byte[]> frame_;
  std::size_t capacity_ = 0;
};

/// The coroutine. A member function of a RoundsOwner that returns Rounds reads from top to bottom as the algorithm of
/// one rank and one bucket; `co_await` of a list verb is a round. run_rounds() lets the coroutines of several buckets
/// wait for the same round and makes it one exchange. The objects that arguments refer to must outlive the run.
class [[nodiscard]] Rounds {
 public:
  class promise_type {
   public:
    template <class Owner, class... Arguments>
    static void* operator new(std::size_t bytes, Owner& owner, Arguments&&...) {
      return static_cast<RoundsOwner&>(owner).frame(bytes);
    }
    /// Does nothing: the memory is the owner's.
    static void operator delete(void*) noexcept {}

    Rounds get_return_object() { return Rounds(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    /// Lets errors leave through resume(), as from a function.
    void unhandled_exception() { throw; }

    template <class StepPart>
    class Round {
     public:
      explicit Round(const StepPart& verb) : verb_(verb) {}
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<promise_type> coroutine) noexcept {
        promise_ = &coroutine.promise();
        promise_->pending_ = &verb_;
      }
      /// Returns whether lists do not decode to the values that were sent: then what was left behind must be handed
      /// back.
      bool await_resume() const noexcept { return promise_->lossy_; }

     private:
      ListVerb verb_;
      promise_type* promise_ = nullptr;
    };
    template <class StepPart>
    Round<StepPart> await_transform(const StepPart& verb) {
      return Round<StepPart>(verb);
    }

   private:
    friend class Rounds;
    ListVerb* pending_ = nullptr;
    bool lossy_ = false;
  };

  Rounds(Rounds&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)), name_(other.name_) {}
  Rounds& operator=(Rounds&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~Rounds() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Continues to the next round, or to the end. @throws what the coroutine throws.
  void resume() { coroutine_.resume(); }
  bool done() const { return coroutine_.done(); }
  /// The verb that the coroutine waits for, unless it is done.
  ListVerb& pending() const { return *coroutine_.promise().pending_; }
  /// Sets whether the transport's codec of values is lossy.
  void set_lossy(bool lossy) { coroutine_.promise().lossy_ = lossy; }
  /// Sets the name in errors of its verbs. @param name outlives the coroutine.
  void set_name(const char* name) { name_ = name; }
  const char* name() const { return name_; }

 private:
  explicit Rounds(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
  const char* name_ = "an exchange";
};

/// Collective. Runs the coroutines of several buckets side by side to their ends. All that wait for verbs of one kind
/// share one exchange: one message to each peer and round, with the part of every bucket. So headers and latencies are
/// paid once, and each bucket gets the result that it would get alone.
///
/// All ranks bring the same buckets in the same order. Which verb a bucket waits for depends on values that all ranks
/// know, so that all ranks make the same rounds; in a verb between some ranks only (Swap) the others may be a verb
/// ahead. Leaves `rounds` empty, also after an error: the coroutines refer to objects of the caller, which may end.
void run_rounds(ListTransport& transport, std::vector<Rounds>& rounds);

}  // namespace dragonn::comm
