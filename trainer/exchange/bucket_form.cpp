// SPDX-License-Identifier: MIT
#include "trainer/exchange/bucket_form.h"

#include <utility>

#include "comm/sparse/registry.h"
#include "compress/quantizer.h"
#include "kernels/devices.h"
#include "trainer/exchange/exchange_staging.h"

namespace dragonn::trainer {
namespace {

std::unique_ptr<comm::SparseCollective> make_collective(const Component& component, std::size_t numel) {
  return comm::make_collective(component.name, component.settings, numel);
}

std::unique_ptr<compress::Quantizer> make_quantizer(const Component& component, std::size_t numel,
                                                    const Device& device) {
  return Registry<compress::QuantizerEntry>::instance().at(component.name).make(component.settings, numel, device);
}

/// What left the rank and what came back, entry by entry.
compress::Settlement settlement_of(const comm::SparseReduction& outcome) {
  return {.contributed = outcome.contributed.view(),
          .contributed_all = outcome.contributed_all,
          .masked = outcome.masked(),
          .returned = &outcome.returned};
}

class DenseForm final : public BucketForm {
 public:
  DenseForm(const Component& dense, const BucketPlace& place)
      : collective_(make_collective(dense, place.numel)), nothing_(place.gradients) {}

  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context, View<const float> acc,
                      comm::SparseReduction& out) override {
    return collective_->rounds(communicator, context, acc, nothing_, out);
  }
  compress::Settlement settlement(const comm::SparseReduction& outcome) const override {
    return settlement_of(outcome);
  }

 private:
  std::unique_ptr<comm::SparseCollective> collective_;
  SparseVector nothing_;
};

class SparseForm final : public BucketForm {
 public:
  SparseForm(const Component& sparsifier, const Component& collective, const BucketPlace& place)
      : sparsifier_(Registry<compress::SparsifierEntry>::instance()
                        .at(sparsifier.name)
                        .make(sparsifier.settings, place.numel, place.gradients)),
        collective_(make_collective(collective, place.numel)),
        shares_indices_(selection_traits(sparsifier).shared_indices),
        selected_(place.gradients),
        staging_(place.messages) {}

  kernels::PassRequest plan(const compress::SelectContext& context) override { return sparsifier_->plan(context); }
  std::optional<float> propose(const compress::SelectContext& context, View<const float> acc) override {
    return sparsifier_->propose(context, acc);
  }
  void agree(float proposal) override { sparsifier_->agree(proposal); }
  void select(const compress::SelectContext& context, const kernels::PassResult& pass, View<const float> acc) override {
    sparsifier_->select(context, pass, acc, selected_);
  }
  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context, View<const float> acc,
                      comm::SparseReduction& out) override {
    return collective_->rounds(communicator, context, acc, staging_.outgoing(selected_), out);
  }
  compress::Settlement settlement(const comm::SparseReduction& outcome) const override {
    return settlement_of(outcome);
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

 private:
  std::unique_ptr<compress::Sparsifier> sparsifier_;
  std::unique_ptr<comm::SparseCollective> collective_;
  bool shares_indices_;
  SparseVector selected_;
  SelectionStaging staging_;
};

class QuantizedForm final : public BucketForm, public comm::RoundsOwner {
 public:
  QuantizedForm(const Component& quantizer, const comm::Communicator& communicator, const BucketPlace& place)
      : name_(quantizer.name),
        quantizer_(make_quantizer(quantizer, place.numel, place.gradients)),
        numel_(place.numel),
        messages_(static_cast<std::size_t>(communicator.size()) * quantizer_->code_bytes(),
                  host_memory_for(place.gradients)),
        on_device_(place.gradients.is_cpu() ? 0 : messages_.size(), place.gradients),
        codes_(place.gradients.is_cpu() ? messages_.view() : on_device_.view()) {
    const std::size_t code_bytes = quantizer_->code_bytes();
    const std::size_t offset = static_cast<std::size_t>(communicator.rank()) * code_bytes;
    mine_ = codes_.subview(offset, code_bytes);
    my_message_ = messages_.view().subview(offset, code_bytes);
  }

  kernels::PassRequest plan(const compress::SelectContext& /*context*/) override { return quantizer_->plan(); }
  void select(const compress::SelectContext& context, const kernels::PassResult& pass, View<const float> acc) override {
    quantizer_->encode({.seed = context.seed, .step = context.step, .rank = context.rank, .bucket = context.bucket},
                       pass, acc, mine_);
  }
  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& /*context*/,
                      View<const float> /*acc*/, comm::SparseReduction& out) override {
    comm::Rounds rounds = gather(communicator, out);
    rounds.set_name(name_.c_str());
    return rounds;
  }
  compress::Settlement settlement(const comm::SparseReduction& /*outcome*/) const override {
    return {.quantizer = quantizer_.get(), .code = mine_};
  }

 private:
  comm::Rounds gather(comm::Communicator& communicator, comm::SparseReduction& out) {
    out.reset(communicator.size());
    kernels::transfer_bytes(mine_, my_message_);
    co_await comm::GatherCodesVerb{my_message_, messages_.view()};
    const double start = communicator.now();
    kernels::transfer_bytes(messages_.view(), codes_);
    out.is_dense = true;
    out.dense_sum.resize_discard(numel_);
    quantizer_->decode(codes_, out.dense_sum.view());
    out.decode_seconds = communicator.now() - start;
  }

  std::string name_;
  std::unique_ptr<compress::Quantizer> quantizer_;
  std::size_t numel_;
  // The codes of all ranks, back to back: as messages, in host memory, and where acc lives, which may be the same.
  Buffer<std::byte> messages_;
  Buffer<std::byte> on_device_;
  View<std::byte> codes_;
  View<std::byte> mine_, my_message_;  // in codes_ and in messages_
};

}  // namespace

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

std::unique_ptr<BucketForm> make_quantized_form(const Component& quantizer, const comm::Communicator& communicator,
                                                const BucketPlace& place) {
  return std::make_unique<QuantizedForm>(quantizer, communicator, place);
}

std::size_t quantized_code_bytes(const Component& quantizer, std::size_t numel) {
  return make_quantizer(quantizer, numel, Device{})->code_bytes();
}

}  // namespace dragonn::trainer
