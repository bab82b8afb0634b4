// SPDX-License-Identifier: MIT
// Recorded work as CUDA graphs: the thread's stream is captured, and the graph is started on the stream of the thread
// that replays it. Other threads may make any calls meanwhile.
#include <utility>

#include "kernels/cuda/runtime.h"
#include "kernels/repeated_work.h"

namespace dragonn::kernels::cuda {
namespace {

class GraphRecorder final : public WorkRecorder {
 public:
  explicit GraphRecorder(const Device& device) : device_(device) {}
  ~GraphRecorder() override { release(); }

  void begin() override {
    Context& here = context(device_);
    check(cudaStreamBeginCapture(here.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    here.set_capturing(true);
    capturing_ = &here;
  }

  void end() override {
    cudaGraph_t graph = nullptr;
    check(stop_capture(&graph), "cudaStreamEndCapture");
    release();
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
  }

  void cancel() noexcept override {
    cudaGraph_t graph = nullptr;
    if (capturing_ != nullptr) stop_capture(&graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // it was reported, and would be again by the next check
  }

  void repeat() override { check(cudaGraphLaunch(executable_, context(device_).stream()), "cudaGraphLaunch"); }

 private:
  cudaError_t stop_capture(cudaGraph_t* graph) noexcept {
    Context& here = *std::exchange(capturing_, nullptr);
    here.set_capturing(false);
    return cudaStreamEndCapture(here.stream(), graph);
  }
  void release() noexcept {
    // At the end of the process the driver may be gone: then there is nothing to free.
    if (executable_ != nullptr) cudaGraphExecDestroy(std::exchange(executable_, nullptr));
  }

  Device device_;
  Context* capturing_ = nullptr;  // from begin() to end() or cancel(), which must not look it up: that may throw
  cudaGraphExec_t executable_ = nullptr;
};

[[maybe_unused]] const bool registered = kernels::make_work_recorder.add(
    DeviceType::kCuda,
    [](const Device& device) -> std::unique_ptr<WorkRecorder> { return std::make_unique<GraphRecorder>(device); });

}  // namespace
}  // namespace dragonn::kernels::cuda
