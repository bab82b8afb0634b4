// SPDX-License-Identifier: MIT
// Fused attention by graphs of cuDNN, which the headers of cudnn-frontend (MIT license) describe to it. It is compiled
// only where they are installed (DRAGONN_CUDNN_FRONTEND); the emulation has a stand-in.
#include "kernels/nn/cuda/fused_attention.h"

#ifdef DRAGONN_CUDNN_FRONTEND
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cudnn_frontend.h>
#include <exception>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels::cuda {
namespace {

namespace graph = cudnn_frontend::graph;
using cudnn_frontend::DataType_t;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;
using Extents = std::vector<std::int64_t>;
using Places = std::unordered_map<std::int64_t, void*>;

/// The tensors of both graphs.
enum Name : std::int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOutput,
  kStatistics,
  kOutputGradient,
  kQueriesGradient,
  kKeysGradient,
  kValuesGradient
};

/// Returns why a call failed, or nothing.
std::string refusal(cudnn_frontend::error_object status) {
  if (status.is_good()) return {};
  const std::string message = status.get_message();
  return message.empty() ? "cuDNN refuses it without a reason" : message;
}

/// Returns what `call` returns: why it failed, or nothing. The headers report some failures as exceptions.
template <class Call>
std::string caught(const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// A graph for one shape. cuDNN sees [batch, heads, steps, depth] with any strides.
class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionSpec& spec) : spec_(spec), depth_(spec.width / spec.heads) {
    graph_.set_io_data_type(DataType_t::BFLOAT16)
        .set_intermediate_data_type(DataType_t::FLOAT)
        .set_compute_data_type(DataType_t::FLOAT);
  }

  void describe_forward() {
    const auto [queries, keys, values] = inputs();
    auto options = graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(spec_.training)
                       .set_attn_scale(scale())
                       .set_causal_mask(spec_.causal);
    const auto [output, statistics] = graph_.sdpa(queries, keys, values, std::move(options));
    as_result(output, kOutput, extents(), output_strides());
    if (!spec_.training) return;
    statistics->set_data_type(DataType_t::FLOAT);
    as_result(statistics, kStatistics, statistics_extents(), statistics_strides());
  }

  void describe_backward() {
    const auto [queries, keys, values] = inputs();
    const Tensor output = argument(kOutput, extents(), output_strides());
    const Tensor gradient = argument(kOutputGradient, extents(), output_strides());
    const Tensor statistics = argument(kStatistics, statistics_extents(), statistics_strides());
    statistics->set_data_type(DataType_t::FLOAT);
    auto options = graph::SDPA_backward_attributes()
                       .set_name("attention_backward")
                       .set_attn_scale(scale())
                       .set_causal_mask(spec_.causal)
                       .set_deterministic_algorithm(true);
    const auto [queries_gradient, keys_gradient, values_gradient] =
        graph_.sdpa_backward(queries, keys, values, output, gradient, statistics, std::move(options));
    as_result(queries_gradient, kQueriesGradient, extents(), input_strides());
    as_result(keys_gradient, kKeysGradient, extents(), input_strides());
    as_result(values_gradient, kValuesGradient, extents(), input_strides());
  }

  /// Lets cuDNN choose and compile its kernels. Returns why there are none.
  std::string build(Context& here) {
    const std::string obstacle = refusal(graph_.build(here.dnn(), {cudnn_frontend::HeurMode_t::A}));
    if (!obstacle.empty()) return obstacle;
    std::int64_t bytes = 0;
    const std::string unsized = refusal(graph_.get_workspace_size(bytes));
    workspace_bytes_ = static_cast<std::size_t>(bytes);
    return unsized;
  }

  std::size_t workspace_bytes() const { return workspace_bytes_; }

  std::string run(Context& here, Places& places, void* workspace) {
    return caught([&] { return refusal(graph_.execute(here.dnn(), places, workspace)); });
  }

  /// Adds the places of the queries, keys and values of `input`, or of its gradient, whose names follow `first`.
  void place_parts(const void* input, Name first, Places& places) const {
    auto* const bytes = const_cast<std::byte*>(static_cast<const std::byte*>(input));
    for (std::int64_t part = 0; part < 3; ++part)
      places[first + part] = bytes + part * spec_.width * static_cast<std::int64_t>(sizeof(Bf16));
  }

 private:
  Extents extents() const { return {spec_.batch, spec_.heads, spec_.steps, depth_}; }
  Extents input_strides() const { return {spec_.steps * 3 * spec_.width, depth_, 3 * spec_.width, 1}; }
  Extents output_strides() const { return {spec_.steps * spec_.width, depth_, spec_.width, 1}; }
  Extents statistics_extents() const { return {spec_.batch, spec_.heads, spec_.steps, 1}; }
  Extents statistics_strides() const { return {spec_.heads * spec_.steps, spec_.steps, 1, 1}; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(depth_)); }

  Tensor argument(Name name, const Extents& extents, const Extents& strides) {
    return graph_.tensor(graph::Tensor_attributes().set_uid(name).set_dim(extents).set_stride(strides));
  }
  std::array<Tensor, 3> inputs() {
    return {argument(kQueries, extents(), input_strides()), argument(kKeys, extents(), input_strides()),
            argument(kValues, extents(), input_strides())};
  }
  static void as_result(const Tensor& tensor, Name name, const Extents& extents, const Extents& strides) {
    tensor->set_output(true).set_uid(name).set_dim(extents).set_stride(strides);
  }

  AttentionSpec spec_;
  std::int64_t depth_;
  graph::Graph graph_;
  std::size_t workspace_bytes_ = 0;
};

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention(const Device& device, const AttentionSpec& spec) : device_(device), forward_(spec) {
    forward_.describe_forward();
    if (!spec.training) return;
    backward_.emplace(spec);
    backward_->describe_backward();
  }

  /// Returns why cuDNN has no kernels.
  std::string build() {
    Context& here = context(device_);
    const std::string obstacle = forward_.build(here);
    return obstacle.empty() && backward_ ? backward_->build(here) : obstacle;
  }

  std::size_t forward_bytes() const override { return forward_.workspace_bytes(); }
  std::size_t backward_bytes() const override { return backward_ ? backward_->workspace_bytes() : 0; }

  std::string forward(const FusedForward& arguments) override {
    places_.clear();
    forward_.place_parts(arguments.input, kQueries, places_);
    places_[kOutput] = arguments.output;
    if (backward_) places_[kStatistics] = arguments.statistics;
    return forward_.run(context(device_), places_, arguments.workspace);
  }

  std::string backward(const FusedBackward& arguments) override {
    places_.clear();
    backward_->place_parts(arguments.input, kQueries, places_);
    backward_->place_parts(arguments.input_gradient, kQueriesGradient, places_);
    places_[kOutput] = const_cast<void*>(arguments.output);
    places_[kOutputGradient] = const_cast<void*>(arguments.output_gradient);
    places_[kStatistics] = const_cast<float*>(arguments.statistics);
    return backward_->run(context(device_), places_, arguments.workspace);
  }

 private:
  Device device_;
  AttentionGraph forward_;
  std::optional<AttentionGraph> backward_;
  Places places_;
};

}  // namespace

std::unique_ptr<FusedAttention> make_fused_attention(const Device& device, const AttentionSpec& spec,
                                                     std::string& obstacle) {
  std::unique_ptr<CudnnAttention> attention;
  obstacle = caught([&] {
    attention = std::make_unique<CudnnAttention>(device, spec);
    return attention->build();
  });
  if (obstacle.empty()) return attention;
  return nullptr;
}

}  // namespace dragonn::kernels::cuda

#else
namespace dragonn::kernels::cuda {

std::unique_ptr<FusedAttention> make_fused_attention(const Device&, const AttentionSpec&, std::string& obstacle) {
  obstacle = "this build has none of cuDNN's graphs: it was made without the headers of cudnn-frontend";
  return nullptr;
}

}  // namespace dragonn::kernels::cuda
#endif
