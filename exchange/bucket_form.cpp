// SPDX-License-Identifier: MIT
#include "exchange/bucket_form.h"

#include <utility>

#include "codec/value_codec.h"
#include "comm/sparse/registry.h"
#include "exchange/exchange_staging.h"
#include "exchange/resize.h"
#include "kernels/devices.h"

namespace dragonn::exchange {
namespace {

std::unique_ptr<comm::SparseCollective> make_collective(const Component& component, std::size_t numel) {
  return comm::make_collective(component.name, component.settings, numel);
}

std::unique_ptr<codec::ValueCodec> make_codec(const Component& quantizer, std::size_t numel, const Device& device) {
  if (quantizer.name == kNoQuantizer) return nullptr;
  return Registry<codec::ValueCodecEntry>::instance().at(quantizer.name).make(quantizer.settings, numel, device);
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
  SparseForm(const Component& sparsifier, const Component& quantizer, const Component& collective,
             const BucketPlace& place)
      : sparsifier_name_(sparsifier.name),
        collective_name_(collective.name),
        sparsifier_(Registry<compress::SparsifierEntry>::instance()
                        .at(sparsifier.name)
                        .make(sparsifier.settings, place.numel, place.gradients)),
        codec_(make_codec(quantizer, place.numel, place.gradients)),
        collective_(make_collective(collective, place.numel)),
        selected_(place.gradients),
        code_(codec_ ? codec_->code_bytes() : 0, place.gradients),
        staging_(place.messages) {}

  kernels::PassRequest plan(const compress::SelectContext& context) override {
    return codec_ ? codec_->plan() : sparsifier_->plan(context);
  }
  std::optional<float> propose(const compress::SelectContext& context, View<const float> acc) override {
    return sparsifier_->propose(context, acc);
  }
  void accept_proposal(float proposal) override { sparsifier_->accept_proposal(proposal); }
  void select(const compress::SelectContext& context, const kernels::PassResult& pass, View<const float> acc) override {
    if (!codec_) return sparsifier_->select(context, pass, acc, selected_);
    // All entries leave: no list of them is made.
    codec_->encode({.seed = context.seed, .step = context.step, .rank = context.rank, .bucket = context.bucket}, pass,
                   acc, code_.view());
  }
  bool stage() override { return staging_.start(selected_); }
  comm::Rounds rounds(comm::Communicator& communicator, const comm::ReduceContext& context, View<const float> acc,
                      comm::SparseReduction& out) override {
    context_ = context;
    context_.code = code();
    return collective_->rounds(communicator, context_, acc, staging_.outgoing(selected_), out);
  }
  compress::Settlement settlement(const comm::SparseReduction& outcome) const override {
    if (codec_) return {.code = code()};
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
  codec::Code code() const { return codec_ ? codec::Code{codec_.get(), code_.view()} : codec::Code{}; }

  std::string sparsifier_name_, collective_name_;
  std::unique_ptr<compress::Sparsifier> sparsifier_;
  std::unique_ptr<codec::ValueCodec> codec_;  // of quantizers: else null
  std::unique_ptr<comm::SparseCollective> collective_;
  SparseVector selected_;
  Buffer<std::byte> code_;
  comm::ReduceContext context_;
  SelectionStaging staging_;
};

}  // namespace

SelectionTraits selection_traits(const Component& sparsifier) {
  return Registry<compress::SparsifierEntry>::instance().at(sparsifier.name).traits(sparsifier.settings);
}

std::unique_ptr<BucketForm> make_dense_form(const Component& dense, const BucketPlace& place) {
  return std::make_unique<DenseForm>(dense, place);
}

std::unique_ptr<BucketForm> make_sparse_form(const Component& sparsifier, const Component& quantizer,
                                             const Component& collective, const BucketPlace& place) {
  return std::make_unique<SparseForm>(sparsifier, quantizer, collective, place);
}

std::size_t code_bytes(const Component& quantizer, std::size_t numel) {
  const auto codec = make_codec(quantizer, numel, Device{});
  return codec ? codec->code_bytes() : 0;
}

}  // namespace dragonn::exchange
