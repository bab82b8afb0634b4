// SPDX-License-Identifier: MIT
/// Generator: a language model on one text that grows, of which it predicts the next token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/parameter.h"
#include "layers/graph.h"

namespace dragonn::layers {

/// Evaluates a graph on the new tokens alone: layers that look back keep what they need (attention its keys and values,
/// Layer::next_steps), all others are stepwise. Behind the last layer that looks back only the last token is computed.
/// The logits are those of the whole text in one forward pass, but for rounding. On the CPU, in float32.
class Generator {
 public:
  /// Prepares texts of at most `longest` tokens. Graph and arena must outlive this. @throws ConfigError if the graph
  /// does not take tokens, or naming a layer that needs later tokens than the one it computes; ShapeError if a layer
  /// does not take so many.
  Generator(const LayerGraph& graph, ParameterArena& arena, std::int64_t longest);
  ~Generator();

  std::size_t longest() const { return static_cast<std::size_t>(whole_.sample_shape()[0]); }
  /// Returns the number of tokens of the text so far.
  std::size_t size() const { return size_; }
  /// Appends one token or more. Returns the logits [classes] of the token that follows them, valid until the next call.
  /// Time and memory are those of a forward pass of the new tokens, in pieces of 256. @throws DataError for a token
  /// that the vocabulary does not have; ShapeError if the text becomes too long.
  std::span<const float> append(std::span<const std::int32_t> tokens);
  /// Starts another text.
  void clear() { size_ = 0; }

 private:
  class Pass;

  LayerGraph whole_;   // of the longest text
  LayerGraph single_;  // of one token
  ParameterArena& arena_;
  NodeId looking_back_ = 0;                              // the last node that does
  std::vector<NextSteps> next_steps_;                    // by node; empty for stepwise ones
  std::map<std::size_t, std::unique_ptr<Pass>> passes_;  // by number of tokens
  std::size_t size_ = 0;
};

}  // namespace dragonn::layers
