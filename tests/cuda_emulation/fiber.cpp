// SPDX-License-Identifier: MIT
#include "tests/cuda_emulation/fiber.h"

#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "the emulation of GPUs switches stacks on x86-64 alone"
#endif

// swapcontext would do, but asks the system for the signal mask each time, and barriers are all that is slow here.
// Saves what a function has to leave as it was, and goes on on another stack.
extern "C" void dragonn_emulation_switch(void** from, void* to);
asm(R"(
.text
.type dragonn_emulation_switch, @function
dragonn_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dragonn_emulation_switch, . - dragonn_emulation_switch
)");

namespace dragonn::emulation {
namespace {

constexpr std::size_t kSavedRegisters = 6;

Fiber* running = nullptr;
void* caller_top = nullptr;

#ifdef __SANITIZE_ADDRESS__
// AddressSanitizer has to know on which stack the program goes on.
const void* caller_stack = nullptr;
std::size_t caller_stack_bytes = 0;

void leave_for(void** own, const void* stack, std::size_t bytes) {
  __sanitizer_start_switch_fiber(own, stack, bytes);
}
void arrive_in_caller(void* own) {
  __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
}
void arrive_in_fiber(void* own) {
  __sanitizer_finish_switch_fiber(own, &caller_stack, &caller_stack_bytes);
}
#else
const void* const caller_stack = nullptr;
constexpr std::size_t caller_stack_bytes = 0;

void leave_for(void**, const void*, std::size_t) {}
void arrive_in_caller(void*) {}
void arrive_in_fiber(void*) {}
#endif

}  // namespace

Fiber::Fiber(void (*main)()) : main_(main), stack_(std::make_unique<std::byte[]>(kStackBytes)) {
  const auto end = reinterpret_cast<std::uintptr_t>(stack_.get() + kStackBytes) / 16 * 16;
  // begin() starts as if it had been called: 8 bytes behind a multiple of 16 lies where it would return to.
  void** top = reinterpret_cast<void**>(end) - 2;
  *top = reinterpret_cast<void*>(&Fiber::begin);
  top_ = top - kSavedRegisters;
}

void Fiber::begin() {
  arrive_in_fiber(nullptr);
  running->main_();
}

void Fiber::resume() {
  running = this;
  void* own = nullptr;
  leave_for(&own, stack_.get(), kStackBytes);
  dragonn_emulation_switch(&caller_top, top_);
  arrive_in_caller(own);
}

void Fiber::suspend() {
  void* own = nullptr;
  leave_for(&own, caller_stack, caller_stack_bytes);
  dragonn_emulation_switch(&running->top_, caller_top);
  arrive_in_fiber(own);
}

Fiber& Fiber::current() {
  return *running;
}

}  // namespace dragonn::emulation
