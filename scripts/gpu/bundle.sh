#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes one folder that a bare CUDA machine can run: the programs and tests of the preset cuda, the shared libraries that
# such a machine lacks (not CUDA's, and not the C and C++ libraries), Open MPI, configs and a little test data.
# There, check.sh in the folder runs everything: bash FOLDER/check.sh RESULTS; four_workers.sh trains to the end.
# Usage: scripts/gpu/bundle.sh [--bin DIR] [--full-data] [FOLDER]
#   --bin: take the programs from DIR instead of building the preset; --full-data: all of CIFAR-10 goes along instead, as
#   JPEG files (cifar10_full.tar.xz and unpack_full.py); FOLDER: build/gpu_bundle if not given, made anew
# Environment: DRAGONN_DATA (a folder with cifar10/: a part of it goes along; else training uses synthetic images),
# DRAGONN_CUDA_ARCHITECTURES (scripts/build.sh).
# The official files are 180 MB, and hardly smaller packed: where they do not fit, four_workers.sh takes them by --data.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly largest=60000000 # bytes
readonly programs=(dragonn-train dragonn-bench dragonn-compare)
readonly tests=(test_kernels test_layers test_optim test_compress test_trainer) # those with cases for a GPU
readonly scripts=(scripts/gpu/pytorch_rows.py scripts/pytorch_models.py)

bin='' folder=build/gpu_bundle full=''
while [ $# -gt 0 ]; do
  case $1 in
    --bin) bin=${2:?--bin needs a folder} && shift 2 ;;
    --full-data) full=yes && shift ;;
    -*) echo "bundle.sh: $1: expected --bin DIR, --full-data or a folder" >&2 && exit 2 ;;
    *) folder=$1 && shift ;;
  esac
done
if [ -z "$bin" ]; then
  scripts/install_deps.sh cuda
  # shellcheck source=scripts/build.sh
  . scripts/build.sh
  build cuda "${programs[@]}" "${tests[@]}"
  bin=build/cuda/bin
fi
for name in "${programs[@]}" "${tests[@]}"; do
  [ -x "$bin/$name" ] || { echo "bundle.sh: $bin lacks $name" >&2 && exit 1; }
done

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/{bin,lib,mpi,data}

# add_libraries FILE...: what they are linked with, but for what every CUDA machine has.
add_libraries() {
  local library
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
    case $(basename "$library") in
      libcuda.* | libcudart.* | libcublas* | libcudnn* | libnccl* | libnvidia* | libnv*) ;;
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux* | libstdc++.so* | libgcc_s.so*) ;;
      *) cp -Lu "$library" "$stage/lib/" ;;
    esac
  done
}

# Open MPI, which finds its parts below OPAL_PREFIX. Without the fabrics, which one machine does not need.
add_mpi() {
  local mpirun parts prefix=/usr plugin
  mpirun=$(command -v mpirun) && command -v ompi_info >/dev/null || return 0
  parts=$(ompi_info --path pkglibdir --parsable | sed 's/.*://')
  [[ $parts == $prefix/* ]] || return 0
  mkdir -p "$stage/mpi/bin" "$stage/mpi/${parts#"$prefix"/}" "$stage/mpi/share"
  cp -L "$mpirun" "$stage/mpi/bin/mpirun"
  cp -rL "$prefix/share/openmpi" "$stage/mpi/share/"
  for plugin in "$parts"/mca_*.so; do
    case $(basename "$plugin") in
      *ofi* | *ucx* | *psm* | *verbs* | *usnic* | *openib* | *portals* | *monitoring*) ;;
      *_io_* | *_fs_* | *_fbtl_* | *_fcoll_* | *_sharedfp_* | *slurm* | *gridengine* | *tm.so) ;;
      *) cp -L "$plugin" "$stage/mpi/${parts#"$prefix"/}/" && add_libraries "$plugin" ;;
    esac
  done
  add_libraries "$mpirun"
}

# All of CIFAR-10 as JPEG files.
add_full_data() {
  local source=${DRAGONN_DATA:-}/cifar10 file
  mkdir -p "$stage/data/cifar10"
  for file in cifar10_full.tar.xz unpack_full.py; do
    [ -f "$source/$file" ] || { echo "bundle.sh: --full-data: no $source/$file" >&2 && exit 1; }
    cp "$source/$file" "$stage/data/cifar10/"
  done
}

# The first samples of CIFAR-10: enough for a hundred steps and an evaluation.
add_data() {
  local source=${DRAGONN_DATA:-}/cifar10 record=3073 file
  file=$source/data_batch_1.bin
  [ -f "$file" ] || file=$source/cifar-10-batches-bin/data_batch_1.bin
  [ -f "$file" ] || return 0
  mkdir -p "$stage/data/cifar10"
  head -c $((2000 * record)) "$file" >"$stage/data/cifar10/data_batch_1.bin"
  head -c $((500 * record)) "$(dirname "$file")/test_batch.bin" >"$stage/data/cifar10/test_batch.bin"
}

for name in "${programs[@]}" "${tests[@]}"; do
  strip -o "$stage/bin/$name" "$bin/$name"
  add_libraries "$bin/$name"
done
add_mpi
if [ -n "$full" ]; then add_full_data; else add_data; fi
mkdir "$stage/python" "$stage/scripts"
cp scripts/convergence_common.sh "$stage/scripts/"
cp "${scripts[@]}" "$stage/python/"
cp -r configs "$stage/configs"
{ git describe --always --dirty 2>/dev/null || echo "no commit"; } >"$stage/commit.txt"

rm -rf "$folder"
mkdir -p "$folder"
tar -C "$stage" -czf "$folder/payload.tar.gz" .
cp scripts/gpu/{check,four_workers,bundle_common}.sh "$folder/"
bytes=$(du -sb "$folder" | cut -f 1)
echo "$folder: $bytes bytes; on the GPU's machine: bash $(basename "$folder")/check.sh RESULTS"
[ "$bytes" -le "$largest" ] || { echo "bundle.sh: more than $largest bytes" >&2 && exit 1; }
