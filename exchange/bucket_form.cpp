// SPDX-License-Identifier: MIT
#include "exchange/bucket_form.h"

#include <utility>

#include "comm/sparse/code_sum.h"
#include "comm/sparse/sparse_collective.h"
#include "exchange/exchange_staging.h"
#include "exchange/resize.h"
#include "kernels/devices.h"

namespace dragonn::exchange {
namespace {

std::unique_ptr<comm::SparseCollective> make_collective(const Component& component, std::size_t numel) {
  return comm::make_collective(component.name, component.settings, numel);
}

std::unique_ptr<codec::ValueCodec> make_quantizer(const Component& quantizer) {
  return Registry<codec::QuantizerEntry>::instance().at(quantizer.name).make(quantizer.settings);
}

/// Returns the entries that left the rank, and those that came back.
compress::Settlement settlement_of(const comm::SparseReduction& outcome) {
  return {.contributed = outcome.contributed.view(),
          .contributed_all = outcome.contributed_all,
          .remainder = outcome.remainder.view(),
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
  void select(const compress::SelectContext& context, const kernels::PassResult& pass, View<const float> acc) override {
    sparsifier_->select(context, pass, acc, selected_);
  }
  bool stage() override { return staging_.start(selected_); }
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

class QuantizedForm final : public BucketForm {
 public:
  QuantizedForm(const Component& quantizer, const BucketPlace& place)
      : quantizer_(make_quantizer(quantizer)), code_(quantizer_->code_bytes(place.numel), place.gradients) {}

  kernels::PassRequest plan(const compress::SelectContext&) override { return quantizer_->plan(); }
  void select(const compress::SelectContext& context, const kernels::PassResult& pass, View<const float> acc) override {
    quantizer_->encode(
        acc,
        {.seed = context.seed, .step = context.step, .rank = context.rank, .bucket = context.bucket, .pass = &pass},
        code_.view());
  }
  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext&, View<const float> acc,
                      comm::SparseReduction& out) override {
    comm::Rounds rounds = sum_.rounds(communicator, *quantizer_, std::as_const(code_).view(), acc.size(), out);
    rounds.set_name(kCodeCollective);
    return rounds;
  }
  compress::Settlement settlement(const comm::SparseReduction&) const override {
    return {.codec = quantizer_.get(), .code = code_.view()};
  }

 private:
  std::unique_ptr<codec::ValueCodec> quantizer_;
  Buffer<std::byte> code_;
  comm::CodeSum sum_;
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

std::unique_ptr<BucketForm> make_quantized_form(const Component& quantizer, const BucketPlace& place) {
  return std::make_unique<QuantizedForm>(quantizer, place);
}

std::size_t code_bytes(const Component& quantizer, std::size_t numel) {
  return make_quantizer(quantizer)->code_bytes(numel);
}

}  // namespace dragonn::exchange
