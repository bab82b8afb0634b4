# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the other scripts, from the root folder of the sources.
# The CUDA toolkit comes with its machine or from NVIDIA, not from the distribution: it is looked for, never installed.

# missing_cuda: what of the toolkit that the preset cuda needs is not here, a line each; nothing if all of it is.
missing_cuda() {
  local nvcc release root folder include=()
  nvcc=$(command -v nvcc) || { echo "CUDA toolkit 13 (its nvcc is not on the PATH)" && return; }
  release=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  [ "${release:-0}" -ge 13 ] || echo "CUDA toolkit 13 ($nvcc is of release ${release:-unknown})"
  root=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
  for folder in "$root"/include "$root"/targets/*/include; do include+=("-I$folder"); done
  has_cuda_header() { echo "#include <$1>" | c++ -E -x c++ "${include[@]}" - >/dev/null 2>&1; }
  has_cuda_header cublas_v2.h || echo "cuBLAS (of the CUDA toolkit)"
  has_cuda_header cudnn_version.h || echo "cuDNN 9 (package cudnn9-cuda-13)"
  has_cuda_header nccl.h || echo "NCCL 2 (package libnccl-dev)"
}
