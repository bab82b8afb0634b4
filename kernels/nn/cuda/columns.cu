// SPDX-License-Identifier: MIT
#include "kernels/cuda/elements.h"
#include "kernels/nn/cuda/columns.h"

namespace dragonn::kernels::cuda {
namespace {

template <class Element>
__global__ void sum_pieces_kernel(ColumnCut cut, Reader<Element> values, float* partials) {
  const ColumnPlace place(cut);
  float sum = 0;
  if (place.column < cut.columns) {
#pragma unroll 4
    for (std::size_t row = place.row; row < place.end; row += place.strands)
      sum += values[row * cut.columns + place.column];
  }
  const float total = sum_strands(place, sum);
  if (place.strand == 0 && place.column < cut.columns) partials[blockIdx.x * cut.columns + place.column] = total;
}

__global__ void combine_kernel(ColumnCut cut, const float* partials, float* target) {
  const ColumnPlace place(cut);
  const double sum = sum_pieces(place, cut, partials);
  if (place.strand == 0 && place.column < cut.columns) target[place.column] = static_cast<float>(sum);
}

template <class Element>
__global__ void add_to_rows_kernel(const float* bias, std::size_t columns, Writer<Element> values, std::size_t size) {
  // The column advances by the stride's remainder: a division per element would cost more than the memory access.
  const std::size_t step = element_stride() % columns;
  std::size_t column = first_element() % columns;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    values[i] = values[i] + bias[column];
    column += step;
    if (column >= columns) column -= columns;
  }
}

}  // namespace

void sum_columns(Context& here, const ColumnCut& cut, TypedView<const float> values, float* scratch, float* target) {
  with_element(values.type(), [&](auto element) {
    launch(here, "sum_columns", blocks_of(cut), kThreads, sum_pieces_kernel<decltype(element)>, cut, values, scratch);
  });
  combine_columns(here, cut, scratch, target);
}

void combine_columns(Context& here, const ColumnCut& cut, const float* partials, float* target) {
  const ColumnCut by_column = cut.by_column();
  launch(here, "combine_columns", tiles_of(by_column), kThreads, combine_kernel, by_column, partials, target);
}

void add_to_rows(Context& here, View<const float> bias, TypedView<float> values) {
  if (values.empty()) return;
  with_element(values.type(), [&](auto element) {
    launch_over(here, "add_to_rows", values.size(), add_to_rows_kernel<decltype(element)>, bias.data(), bias.size(),
                values, values.size());
  });
}

}  // namespace dragonn::kernels::cuda
