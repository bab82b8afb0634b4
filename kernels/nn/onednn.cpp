// SPDX-License-Identifier: MIT
#include "kernels/nn/onednn.h"

namespace dragonn::kernels::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

bool uses_avx512() {
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::size_t floats(const dnnl::memory::desc& description) {
  return floats_for_bytes(description.get_size());
}

Execution::Execution(const dnnl::primitive_desc_base& description, std::initializer_list<int> arguments)
    : primitive_(description.get()),
      stream_(engine()),
      memories_(arguments.size()),
      bound_(arguments.size(), nullptr),
      scratch_(floats(description.query_md(dnnl::query::scratchpad_md))) {
  std::size_t position = 0;
  for (const int argument : arguments) {
    const dnnl::memory::desc memory = description.query_md(dnnl::query::exec_arg_md, argument);
    if (memory.get_size() > 0) {
      memories_[position] = dnnl::memory(memory, engine(), DNNL_MEMORY_NONE);
      arguments_.push_back({argument, memories_[position].get()});
    }
    ++position;
  }
}

void Execution::run(std::initializer_list<const void*> pointers) {
  DRAGONN_CHECK(pointers.size() == memories_.size(), "{} pointers for a primitive of {} arguments", pointers.size(),
                memories_.size());
  std::size_t position = 0;
  for (const void* pointer : pointers) {
    // Buffers stay where they are from step to step, so binding is rare.
    if (memories_[position].get(true) != nullptr && bound_[position] != pointer) {
      memories_[position].set_data_handle(const_cast<void*>(pointer));
      bound_[position] = pointer;
    }
    ++position;
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  DRAGONN_CHECK(status == dnnl_success, "oneDNN primitive failed with status {}", static_cast<int>(status));
}

Execution reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const dnnl::reorder::primitive_desc description(engine(), from, engine(), to, user_scratchpad());
  return {description, {DNNL_ARG_FROM, DNNL_ARG_TO, DNNL_ARG_SCRATCHPAD}};
}

}  // namespace dragonn::kernels::onednn
