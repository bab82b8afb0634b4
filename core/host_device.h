// SPDX-License-Identifier: MIT
/// DRAGONN_HOST_DEVICE: marks functions that host code and a GPU's kernels share, so that tests of the one cover both.
#pragma once

#ifdef __CUDACC__
#define DRAGONN_HOST_DEVICE __host__ __device__
#else
#define DRAGONN_HOST_DEVICE
#endif
