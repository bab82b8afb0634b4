// SPDX-License-Identifier: MIT
// The CUDA runtime's calls that this project makes beside those for memory and streams: GPUs that never fail.
#include <cstring>
#include <cuda_runtime_api.h>

namespace {
constexpr int kGpus = 5;  // one for each of several workers, as NCCL wants it; they share one memory
thread_local int current = 0;
}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kGpus;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kGpus) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;  // multiprocessors: few blocks, so that loops over arrays take several turns
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  std::strcpy(properties->name, "emulated GPU");
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the emulation";
}
}
