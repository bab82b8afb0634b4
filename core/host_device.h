// SPDX-License-Identifier: MIT
/// DRAGONN_HOST_DEVICE marks functions that host code and GPU kernels share, so that tests of the host cover both.
/// DRAGONN_DEVICE_CODE is defined where GPU kernels are compiled: by nvcc, or for tests/cuda_emulation.
#pragma once

#ifdef __CUDACC__
#define DRAGONN_DEVICE_CODE
#define DRAGONN_HOST_DEVICE __host__ __device__
#else
#define DRAGONN_HOST_DEVICE
#endif
