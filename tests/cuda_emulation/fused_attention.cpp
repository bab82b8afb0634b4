// SPDX-License-Identifier: MIT
// Stands in for cuDNN's fused attention: from the definition, in double, row by row, with the weights computed again in
// backward from the statistics. Like cuDNN it takes depths that are multiples of 8. So that the ways around a refusal
// are tested, it refuses to run forward of five heads, and backward of three.
#include "kernels/nn/cuda/fused_attention.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/typed_view.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/stream.h"

namespace dragonn::kernels::cuda {
namespace {

using emulation::check_access;

constexpr std::size_t kWorkspaceBytes = 1000;
constexpr const char* kRefusal = "the emulation refuses attention with so many heads";

/// One head of a sample in a matrix [batch, steps, row].
struct Head {
  const void* matrix;
  std::int64_t begin, row;

  double at(std::int64_t step, std::int64_t i) const {
    return from_bf16(static_cast<const Bf16*>(matrix)[begin + step * row + i]);
  }
  void set(std::int64_t step, std::int64_t i, double value) const {
    static_cast<Bf16*>(const_cast<void*>(matrix))[begin + step * row + i] = to_bf16(static_cast<float>(value));
  }
};

class EmulatedAttention final : public FusedAttention {
 public:
  EmulatedAttention(const Device& device, const AttentionSpec& spec)
      : device_(device), spec_(spec), depth_(spec.width / spec.heads) {}

  std::size_t forward_bytes() const override { return kWorkspaceBytes; }
  std::size_t backward_bytes() const override { return spec_.training ? 2 * kWorkspaceBytes : 0; }

  std::string forward(const FusedForward& arguments) override {
    if (spec_.heads == 5) return kRefusal;
    start([*this, arguments] {
      spoil(arguments.workspace, forward_bytes());
      for_each_head([&](std::int64_t sample, std::int64_t head) {
        float* statistics = spec_.training ? arguments.statistics + row_of(sample, head) : nullptr;
        attend(input_part(arguments.input, 0, sample, head), input_part(arguments.input, 1, sample, head),
               input_part(arguments.input, 2, sample, head), output_part(arguments.output, sample, head), statistics);
      });
    });
    return {};
  }

  std::string backward(const FusedBackward& arguments) override {
    if (spec_.heads == 3) return kRefusal;
    start([*this, arguments] {
      spoil(arguments.workspace, backward_bytes());
      for_each_head([&](std::int64_t sample, std::int64_t head) { differentiate(arguments, sample, head); });
    });
    return {};
  }

 private:
  template <class Work>
  void start(const Work& work) const {
    emulation::enqueue(context(device_).stream(), work);
  }
  static void spoil(void* workspace, std::size_t bytes) {  // as the library may
    check_access(workspace, bytes, "fused attention with its workspace");
    std::memset(workspace, 0xFF, bytes);
  }
  template <class Visit>
  void for_each_head(const Visit& visit) const {
    for (std::int64_t sample = 0; sample < spec_.batch; ++sample)
      for (std::int64_t head = 0; head < spec_.heads; ++head) visit(sample, head);
  }
  std::int64_t row_of(std::int64_t sample, std::int64_t head) const {
    return (sample * spec_.heads + head) * spec_.steps;
  }
  Head input_part(const void* input, std::int64_t part, std::int64_t sample, std::int64_t head) const {
    return {input, sample * spec_.steps * 3 * spec_.width + part * spec_.width + head * depth_, 3 * spec_.width};
  }
  Head output_part(const void* output, std::int64_t sample, std::int64_t head) const {
    return {output, sample * spec_.steps * spec_.width + head * depth_, spec_.width};
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(depth_)); }
  std::int64_t seen(std::int64_t step) const { return spec_.causal ? step + 1 : spec_.steps; }
  double product(const Head& a, std::int64_t i, const Head& b, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t k = 0; k < depth_; ++k) sum += a.at(i, k) * b.at(j, k);
    return sum;
  }

  void attend(const Head& queries, const Head& keys, const Head& values, const Head& output, float* statistics) const {
    std::vector<double> scores(static_cast<std::size_t>(spec_.steps));
    for (std::int64_t i = 0; i < spec_.steps; ++i) {
      double largest = -INFINITY, sum = 0;
      for (std::int64_t j = 0; j < seen(i); ++j) {
        scores[static_cast<std::size_t>(j)] = scale() * product(queries, i, keys, j);
        largest = std::max(largest, scores[static_cast<std::size_t>(j)]);
      }
      for (std::int64_t j = 0; j < seen(i); ++j) sum += std::exp(scores[static_cast<std::size_t>(j)] - largest);
      const double statistic = largest + std::log(sum);
      if (statistics != nullptr) statistics[i] = static_cast<float>(statistic);
      for (std::int64_t k = 0; k < depth_; ++k) {
        double mean = 0;
        for (std::int64_t j = 0; j < seen(i); ++j)
          mean += std::exp(scores[static_cast<std::size_t>(j)] - statistic) * values.at(j, k);
        output.set(i, k, mean);
      }
    }
  }

  void differentiate(const FusedBackward& of, std::int64_t sample, std::int64_t head) const {
    const Head queries = input_part(of.input, 0, sample, head), keys = input_part(of.input, 1, sample, head),
               values = input_part(of.input, 2, sample, head), output = output_part(of.output, sample, head),
               gradient = output_part(of.output_gradient, sample, head);
    const std::size_t size = static_cast<std::size_t>(spec_.steps * depth_);
    std::vector<double> to_queries(size), to_keys(size), to_values(size);
    for (std::int64_t i = 0; i < spec_.steps; ++i) {
      const double mean = product(gradient, i, output, i);
      for (std::int64_t j = 0; j < seen(i); ++j) {
        const double weight =
            std::exp(scale() * product(queries, i, keys, j) - of.statistics[row_of(sample, head) + i]);
        const double score = weight * (product(gradient, i, values, j) - mean) * scale();
        for (std::int64_t k = 0; k < depth_; ++k) {
          to_queries[static_cast<std::size_t>(i * depth_ + k)] += score * keys.at(j, k);
          to_keys[static_cast<std::size_t>(j * depth_ + k)] += score * queries.at(i, k);
          to_values[static_cast<std::size_t>(j * depth_ + k)] += weight * gradient.at(i, k);
        }
      }
    }
    const std::vector<double>* sums[] = {&to_queries, &to_keys, &to_values};
    for (std::int64_t part = 0; part < 3; ++part)
      for (std::int64_t i = 0; i < spec_.steps; ++i)
        for (std::int64_t k = 0; k < depth_; ++k)
          input_part(of.input_gradient, part, sample, head)
              .set(i, k, (*sums[part])[static_cast<std::size_t>(i * depth_ + k)]);
  }

  Device device_;
  AttentionSpec spec_;
  std::int64_t depth_;
};

}  // namespace

std::unique_ptr<FusedAttention> make_fused_attention(const Device& device, const AttentionSpec& spec,
                                                     std::string& obstacle) {
  if (spec.width / spec.heads % 8 == 0) return std::make_unique<EmulatedAttention>(device, spec);
  obstacle = "the emulation has no fused attention of this depth";
  return nullptr;
}

}  // namespace dragonn::kernels::cuda
