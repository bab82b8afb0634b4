// SPDX-License-Identifier: MIT
// CUDA graphs: what a stream was asked for while it was captured, put on a stream again with every launch. As on a GPU
// what waits or allocates meanwhile is refused.
#include <cuda_runtime_api.h>

#include "tests/cuda_emulation/stream.h"

struct CUgraph_st {
  dragonn::emulation::Recording works;
};
struct CUgraphExec_st {
  dragonn::emulation::Recording works;
};

using namespace dragonn::emulation;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (is_captured(stream)) return cudaErrorIllegalState;
  begin_capture(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!is_captured(stream)) return cudaErrorIllegalState;
  *graph = new CUgraph_st{end_capture(stream)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->works};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const auto& work : executable->works) enqueue(stream, [work] { work->run(); });
  return cudaSuccess;
}
}
