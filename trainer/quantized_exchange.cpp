// SPDX-License-Identifier: MIT
#include "trainer/quantized_exchange.h"

namespace dragonn::trainer {
namespace {

std::unique_ptr<compress::Quantizer> make_quantizer(const Component& component, std::size_t numel) {
  return Registry<compress::QuantizerEntry>::instance().at(component.name).make(component.settings, numel, Device{});
}

}  // namespace

QuantizedExchange::QuantizedExchange(const Component& quantizer, std::size_t numel, const comm::Communicator& group)
    : name_(quantizer.name), quantizer_(make_quantizer(quantizer, numel)), numel_(numel) {
  const std::size_t code_bytes = quantizer_->code_bytes();
  codes_.resize_discard(static_cast<std::size_t>(group.size()) * code_bytes);
  mine_ = codes_.view().subview(static_cast<std::size_t>(group.rank()) * code_bytes, code_bytes);
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
    communicator.allgather(mine_, codes_.view());
  }
  const double start = communicator.now();
  decode(out);
  out.decode_seconds = communicator.now() - start;
}

void QuantizedExchange::decode(comm::SparseReduction& out) {
  const View<const std::byte> codes = codes_.view();
  for (std::size_t begin = 0; begin < codes.size(); begin += mine_.size()) {
    out.non_finite = out.non_finite || !quantizer_->is_finite(codes.subview(begin, mine_.size()));
  }
  out.is_dense = true;
  out.dense_sum.resize_discard(numel_);
  quantizer_->decode(codes, out.dense_sum.view());
}

std::size_t quantized_code_bytes(const Component& quantizer, std::size_t numel) {
  return make_quantizer(quantizer, numel)->code_bytes();
}

}  // namespace dragonn::trainer
