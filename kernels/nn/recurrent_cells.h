// SPDX-License-Identifier: MIT
/// Recurrent cells: the elementwise part of recurrent layers, for one row of one time step. For .cpp files of this
/// folder only.
#pragma once

#include <cstddef>

namespace dragonn::kernels::detail {

/// The arguments of forward: rows of `size` hidden units; gates are [gates, size].
struct CellForward {
  std::size_t size;
  float* gates;            ///< in: the input's part with its bias; out: the gates behind their nonlinearities
  const float* recurrent;  ///< the previous hidden state's part
  const float* bias;       ///< added to it
  const float* previous;   ///< hidden state
  const float* cell;       ///< previous cell state; LSTM only
  float* hidden;           ///< out
  float* next_cell;        ///< out; LSTM only
  float* kept;             ///< out, for backward: tanh of the cell state (LSTM), the candidate's recurrent part (GRU)
};

struct CellBackward {
  std::size_t size;
  const float* gates;
  const float* kept;
  const float* previous;         ///< hidden state
  const float* cell;             ///< previous cell state; LSTM only
  const float* output_gradient;  ///< gradient from the layers behind this step
  const float* through_product;  ///< gradient from the step behind, through the recurrent weights
  float* direct;                 ///< in and out: gradient of the hidden state past the weights
  float* cell_gradient;          ///< in and out; LSTM only
  float* gate_gradients;         ///< out: of the input's part
  float* recurrent_gradients;    ///< out: of the recurrent part; GRU only, an LSTM's are gate_gradients
};

/// Computes an LSTM cell with gates i, f, g, o: c' = f c + i g, h' = o tanh(c').
/// Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000; layout as PyTorch's.
void lstm_forward(const CellForward& row);
void lstm_backward(const CellBackward& row);
/// Computes a GRU cell with gates r, z, n: n = tanh(x_n + r h_n), h' = (1 - z) n + z h. Source: arXiv:1406.1078, in the
/// form of cuDNN and PyTorch, where r multiplies after the product.
void gru_forward(const CellForward& row);
void gru_backward(const CellBackward& row);

}  // namespace dragonn::kernels::detail
