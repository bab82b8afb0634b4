// SPDX-License-Identifier: MIT
#include "trainer/quantized_exchange.h"

#include "kernels/devices.h"

namespace dragonn::trainer {
namespace {

std::unique_ptr<compress::Quantizer> make_quantizer(const Component& component, std::size_t numel,
                                                    const Device& device) {
  return Registry<compress::QuantizerEntry>::instance().at(component.name).make(component.settings, numel, device);
}

}  // namespace

QuantizedExchange::QuantizedExchange(const Component& quantizer, std::size_t numel, const comm::Communicator& group,
                                     const Device& device)
    : name_(quantizer.name),
      quantizer_(make_quantizer(quantizer, numel, device)),
      numel_(numel),
      messages_(static_cast<std::size_t>(group.size()) * quantizer_->code_bytes(), host_memory_for(device)),
      on_device_(device.is_cpu() ? 0 : messages_.size(), device),
      codes_(device.is_cpu() ? messages_.view() : on_device_.view()) {
  const std::size_t code_bytes = quantizer_->code_bytes();
  const std::size_t offset = static_cast<std::size_t>(group.rank()) * code_bytes;
  mine_ = codes_.subview(offset, code_bytes);
  my_message_ = messages_.view().subview(offset, code_bytes);
}

void QuantizedExchange::encode(const compress::QuantizeContext& context, const kernels::PassResult& pass,
                               View<const float> acc) {
  quantizer_->encode(context, pass, acc, mine_);
}

void QuantizedExchange::gather(comm::Communicator& communicator, comm::SparseReduction& out) {
  out.reset(communicator.size());
  {
    const comm::ScopedOperation operation = communicator.operation(name_.c_str());
    const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kExchange);
    kernels::transfer_bytes(mine_, my_message_);
    communicator.allgather(my_message_, messages_.view());
  }
  const double start = communicator.now();
  decode(out);
  out.decode_seconds = communicator.now() - start;
}

void QuantizedExchange::decode(comm::SparseReduction& out) {
  const View<const std::byte> messages = messages_.view();
  for (std::size_t begin = 0; begin < messages.size(); begin += mine_.size()) {
    out.non_finite = out.non_finite || !quantizer_->is_finite(messages.subview(begin, mine_.size()));
  }
  kernels::transfer_bytes(messages, codes_);
  out.is_dense = true;
  out.dense_sum.resize_discard(numel_);
  quantizer_->decode(codes_, out.dense_sum.view());
}

std::size_t quantized_code_bytes(const Component& quantizer, std::size_t numel) {
  return make_quantizer(quantizer, numel, Device{})->code_bytes();
}

}  // namespace dragonn::trainer
