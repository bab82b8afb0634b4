// SPDX-License-Identifier: MIT
#include "exchange/bucket_form.h"

#include <numeric>
#include <utility>
#include <vector>

#include "comm/sparse/sparse_collective.h"
#include "exchange/resize.h"
#include "kernels/devices.h"

namespace dragonn::exchange {
namespace {

/// Starts a copy. Until the GPU has been waited for, the source must stay and the target must not be read.
template <class T>
void start_copy(const Buffer<T>& source, Buffer<T>& target) {
  resize_with_slack(target, source.size());
  kernels::start_transfer(source.view(), target.view());
}

void start_copy(const SparseVector& source, SparseVector& target) {
  start_copy(source.indices, target.indices);
  start_copy(source.values, target.values);
}

std::unique_ptr<comm::SparseCollective> make_collective(const Component& component, std::size_t numel) {
  return comm::make_collective(component.name, component.settings, numel);
}

std::unique_ptr<codec::ValueCodec> make_quantizer(const Component& quantizer) {
  return Registry<codec::QuantizerEntry>::instance().at(quantizer.name).make(quantizer.settings);
}

class DenseForm final : public BucketForm {
 public:
  DenseForm(const Component& dense, const BucketPlace& place)
      : collective_(make_collective(dense, place.numel)), nothing_(place.gradients) {}

  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context, View<const float> acc,
                      comm::SparseReduction& out) override {
    return collective_->rounds(communicator, context, acc, nothing_, out);
  }

 private:
  std::unique_ptr<comm::SparseCollective> collective_;
  SparseVector nothing_;
};

class SparseForm final : public BucketForm {
 public:
  SparseForm(const Component& sparsifier, const Component& collective, const BucketPlace& place)
      : sparsifier_name_(sparsifier.name),
        collective_name_(collective.name),
        sparsifier_(Registry<compress::SparsifierEntry>::instance()
                        .at(sparsifier.name)
                        .make(sparsifier.settings, place.numel, place.gradients)),
        collective_(make_collective(collective, place.numel)),
        selected_(place.gradients),
        staging_(place.messages) {}

  kernels::PassRequest plan(const compress::SelectContext& context) override { return sparsifier_->plan(context); }
  std::optional<float> propose(const compress::SelectContext& context, View<const float> acc) override {
    return sparsifier_->propose(context, acc);
  }
  void accept_proposal(float proposal) override { sparsifier_->accept_proposal(proposal); }
  void select(const compress::SelectContext& context, kernels::PassResult& pass, View<const float> acc) override {
    sparsifier_->select(context, pass, acc, selected_);
  }
  bool stage() override { return staging_.start(selected_); }
  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context, View<const float> acc,
                      comm::SparseReduction& out) override {
    return collective_->rounds(communicator, context, acc, staging_.outgoing(selected_), out);
  }
  void observe(const compress::ExchangeOutcome& outcome) override { sparsifier_->observe(outcome); }
  float threshold() const override { return sparsifier_->threshold(); }

  void save(Archive& archive, const std::string& prefix) const override {
    sparsifier_->save(archive, prefix + "sparsifier/");
    collective_->save(archive, prefix + "collective/");
  }
  void load(const Archive& archive, const std::string& prefix) override {
    sparsifier_->load(archive, prefix + "sparsifier/");
    collective_->load(archive, prefix + "collective/");
  }
  void reshard_from(const Archive& archive, const std::string& prefix) override {
    const auto& sparsifier = Registry<compress::SparsifierEntry>::instance().at(sparsifier_name_);
    const auto& collective = Registry<comm::SparseCollectiveEntry>::instance().at(collective_name_);
    if (reshards(part_name(sparsifier), sparsifier.resize, archive, prefix + "sparsifier/")) {
      sparsifier_->load(archive, prefix + "sparsifier/");
    }
    if (reshards(part_name(collective), collective.resize, archive, prefix + "collective/")) {
      collective_->load(archive, prefix + "collective/");
    }
  }

 private:
  std::string sparsifier_name_, collective_name_;
  std::unique_ptr<compress::Sparsifier> sparsifier_;
  std::unique_ptr<comm::SparseCollective> collective_;
  SparseVector selected_;
  SelectionStaging staging_;
};

/// Gathers every rank's code on every rank, and decodes them in rank order on acc's device. (P-1) codes sent.
class QuantizedForm final : public BucketForm, public comm::RoundsOwner {
 public:
  QuantizedForm(const Component& quantizer, const BucketPlace& place)
      : quantizer_(make_quantizer(quantizer)), code_(quantizer_->code_bytes(place.numel), place.gradients) {}

  kernels::PassRequest plan(const compress::SelectContext&) override { return quantizer_->plan(); }
  void select(const compress::SelectContext& context, kernels::PassResult& pass, View<const float> acc) override {
    quantizer_->encode(
        acc,
        {.seed = context.seed, .step = context.step, .rank = context.rank, .bucket = context.bucket, .pass = &pass},
        code_.view());
  }
  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext&, View<const float> acc,
                      comm::SparseReduction& out) override {
    comm::Rounds rounds = sum(communicator, acc.size(), out);
    rounds.set_name(kCodeCollective);
    return rounds;
  }
  compress::Settlement settlement(const comm::SparseReduction&) const override {
    return {.codec = quantizer_.get(), .code = code_.view()};
  }

 private:
  /// Sums: out.dense_sum <- the sum of the `numel` decoded values of all ranks.
  comm::Rounds sum(comm::Communicator& communicator, std::size_t numel, comm::SparseReduction& out) {
    out.reset(communicator.size());
    const Device& device = code_.device();
    const auto ranks = static_cast<std::size_t>(communicator.size());
    if (const std::size_t bytes = ranks * code_.size(); messages_.size() != bytes) {
      bounds_.resize(ranks + 1);
      std::iota(bounds_.begin(), bounds_.end(), std::uint64_t{0});
      messages_ = Buffer<std::byte>(bytes, host_memory_for(device));
      on_device_ = Buffer<std::byte>(device.is_cpu() ? 0 : bytes, device);
    }
    const View<std::byte> codes = device.is_cpu() ? messages_.view() : on_device_.view();
    const std::size_t mine = static_cast<std::size_t>(communicator.rank()) * code_.size();
    kernels::transfer_bytes(std::as_const(code_).view(), messages_.view().subview(mine, code_.size()));
    co_await comm::GatherPartsVerb{
        .whole = messages_.view(), .bounds = bounds_, .element = code_.size(), .equal = true};
    const comm::ScopedSeconds decoding(communicator.clock(), out.statistics.decode_seconds);
    kernels::transfer_bytes(messages_.view(), codes);
    out.is_dense = true;
    out.dense_sum.resize_discard(numel);
    quantizer_->sum(codes, {}, out.dense_sum.view());
  }

  std::unique_ptr<codec::ValueCodec> quantizer_;
  Buffer<std::byte> code_;
  // The codes of all ranks, back to back: as messages, and where they are decoded if that is not host memory.
  Buffer<std::byte> messages_, on_device_;
  std::vector<std::uint64_t> bounds_;  // of messages_, in codes
};

}  // namespace

bool SelectionStaging::start(const SparseVector& selected) {
  if (selected.device() == outgoing_.device()) return false;
  start_copy(selected, outgoing_);
  return true;
}

const SparseVector& SelectionStaging::outgoing(const SparseVector& selected) const {
  return selected.device() == outgoing_.device() ? selected : outgoing_;
}

const comm::SparseReduction& OutcomeStaging::to_device(const comm::SparseReduction& reduction) {
  if (reduction.sum.device() == on_device_.sum.device()) return reduction;
  on_device_.is_dense = reduction.is_dense;
  on_device_.contributed_all = reduction.contributed_all;
  on_device_.is_partly_applied = reduction.is_partly_applied;
  start_copy(reduction.sum, on_device_.sum);
  start_copy(reduction.dense_sum, on_device_.dense_sum);
  start_copy(reduction.contributed, on_device_.contributed);
  start_copy(reduction.applied, on_device_.applied);
  start_copy(reduction.returned, on_device_.returned);
  start_copy(reduction.remainder, on_device_.remainder);
  return on_device_;
}

SelectionTraits selection_traits(const Component& sparsifier) {
  return Registry<compress::SparsifierEntry>::instance().at(sparsifier.name).traits(sparsifier.settings);
}

std::unique_ptr<BucketForm> make_dense_form(const Component& dense, const BucketPlace& place) {
  return std::make_unique<DenseForm>(dense, place);
}

std::unique_ptr<BucketForm> make_sparse_form(const Component& sparsifier, const Component& collective,
                                             const BucketPlace& place) {
  return std::make_unique<SparseForm>(sparsifier, collective, place);
}

std::unique_ptr<BucketForm> make_quantized_form(const Component& quantizer, const BucketPlace& place) {
  return std::make_unique<QuantizedForm>(quantizer, place);
}

std::size_t code_bytes(const Component& quantizer, std::size_t numel) {
  return make_quantizer(quantizer)->code_bytes(numel);
}

}  // namespace dragonn::exchange
