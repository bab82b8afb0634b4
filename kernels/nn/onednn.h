// SPDX-License-Identifier: MIT
/// The helpers that the CPU plans share to use oneDNN. For .cpp files of this folder only.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/error.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels::onednn {

/// Returns the CPU engine: immutable, shared by all threads.
const dnnl::engine& engine();

/// Returns whether the library computes with AVX-512 here.
bool uses_avx512();

/// Returns attributes that make a primitive use the caller's scratchpad.
dnnl::primitive_attr user_scratchpad();

/// Returns the floats of one memory of this description (zero for an empty one), in whole cache lines.
std::size_t floats(const dnnl::memory::desc& description);

/// A primitive with its arguments prepared, so that running it allocates nothing here.
class Execution {
 public:
  Execution() = default;
  /// @param arguments DNNL_ARG_...; those that the primitive does not have, as a bias, are left out.
  Execution(const dnnl::primitive_desc_base& description, std::initializer_list<int> arguments);

  explicit operator bool() const { return primitive_.get(true) != nullptr; }
  /// Floats of the scratchpad.
  std::size_t scratch() const { return scratch_; }
  /// Runs on memory given in the order of the constructor's arguments; pointers of those left out are ignored.
  void run(std::initializer_list<const void*> pointers);

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;  // an empty handle: left out
  std::vector<const void*> bound_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratch_ = 0;
};

/// Copies from one layout to another: run({from, to, scratch}).
Execution reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

/// Runs `make` and turns an exception of oneDNN into an Error that names what was being made.
template <class Make>
auto translate_errors(std::string_view what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("{}: oneDNN: {}", what, error.what()));
  }
}

/// The same for a plan whose constructor makes everything.
template <class Made, class... Arguments>
std::unique_ptr<Made> make_plan(std::string_view what, const Arguments&... arguments) {
  return translate_errors(what, [&] { return std::make_unique<Made>(arguments...); });
}

}  // namespace dragonn::kernels::onednn
