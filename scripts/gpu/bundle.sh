#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes one folder that a bare CUDA machine can run: programs and tests of the preset cuda, the shared libraries that such
# a machine lacks, and what else the wanted stages need. It may be a bare Debian or Ubuntu with a driver, CUDA's large
# libraries (cuBLAS, cuDNN, NCCL; PyTorch brings them) and python3.
# There, bash FOLDER/check.sh RESULTS runs the stages; four_workers.sh trains to the end.
# Usage: scripts/gpu/bundle.sh [--for STAGE,...] [--architectures LIST] [--bin DIR] [FOLDER]
#   --for: stages of check.sh (all of them if not given; its head names them), or convergence, for four_workers.sh: dragonn-train and
#     all of CIFAR-10 where DRAGONN_DATA has it as JPEG files (cifar10_full.tar.xz and unpack_full.py)
#   --architectures: GPUs to build for, as CMake takes them: 90 if not given, "80;90" for more; --bin: take the programs
#     from DIR instead of building the preset; FOLDER: build/gpu_bundle if not given, made anew
# Environment: DRAGONN_DATA (a folder with cifar10/: a part of it goes along; else training uses synthetic images).
# The official files are 180 MB, and hardly smaller packed: where they do not fit, four_workers.sh takes them by --data.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly largest=45000000 # bytes: some machines take no more
readonly all_stages=smoke,profile,pytorch,rest,memcheck

die() { echo "bundle.sh: $*" >&2 && exit 2; }
bin='' folder=build/gpu_bundle architectures=90 for=$all_stages
while [ $# -gt 0 ]; do
  case $1 in
    --for | --architectures | --bin)
      [ $# -gt 1 ] || die "$1: expected a value"
      declare "${1#--}=$2" && shift 2
      ;;
    -*) die "$1: expected --for, --architectures, --bin or a folder" ;;
    *) folder=$1 && shift ;;
  esac
done

# wants STAGE...: whether one of them is wanted.
wants() {
  local stage
  for stage in "$@"; do [[ " ${stages[*]} " != *" $stage "* ]] || return 0; done
  return 1
}

IFS=, read -r -a stages <<<"$for"
programs=()
for stage in "${stages[@]}"; do
  case $stage in # the tests are those with cases for a GPU
    smoke) programs+=(dragonn-bench test_kernels test_comm) ;;
    profile) programs+=(dragonn-bench dragonn-train) ;;
    pytorch) ;;
    rest) programs+=(dragonn-{bench,train,compare} test_{kernels,comm,layers,optim,compress,exchange,trainer}) ;;
    memcheck) programs+=(test_kernels) ;;
    convergence) programs+=(dragonn-train dragonn-compare) ;;
    *) die "--for $stage: valid are ${all_stages//,/ } convergence" ;;
  esac
done
mapfile -t programs < <(printf '%s\n' "${programs[@]}" | sort -u | grep .)
if [ -z "$bin" ]; then
  scripts/install_deps.sh cuda
  export DRAGONN_CUDA_ARCHITECTURES=$architectures
  # shellcheck source=scripts/build.sh
  . scripts/build.sh
  [ ${#programs[@]} -eq 0 ] || build cuda "${programs[@]}"
  bin=build/cuda/bin
fi
for name in "${programs[@]}"; do
  [ -x "$bin/$name" ] || { echo "bundle.sh: $bin lacks $name" >&2 && exit 1; }
done

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/{bin,lib,fallback,configs}

# add_libraries FILE...: what they are linked with, but for the driver's and the large ones of CUDA, and for libc, whose
# parts and the dynamic loader must be of one version. In fallback/, which is used where a machine has none or too old
# ones: CUDA's runtime, and the libraries of C++.
add_libraries() {
  local library
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
    case $(basename "$library") in
      libcuda.* | libcublas* | libcudnn* | libnccl* | libnv*) ;;
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux*) ;;
      libcudart.* | libstdc++.so* | libgcc_s.so*) cp -Lu "$library" "$stage/fallback/" ;;
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

# The first samples of CIFAR-10: enough for a hundred steps and an evaluation.
add_data() {
  local source=${DRAGONN_DATA:-}/cifar10 record=3073
  [ -f "$source/data_batch_1.bin" ] || source+=/cifar-10-batches-bin
  [ -f "$source/data_batch_1.bin" ] || return 0
  mkdir -p "$stage/data/cifar10"
  head -c $((2000 * record)) "$source/data_batch_1.bin" >"$stage/data/cifar10/data_batch_1.bin"
  head -c $((500 * record)) "$source/test_batch.bin" >"$stage/data/cifar10/test_batch.bin"
}

for name in "${programs[@]}"; do
  strip -o "$stage/bin/$name" "$bin/$name"
  add_libraries "$bin/$name"
done
if wants pytorch rest; then
  mkdir "$stage/python"
  cp scripts/gpu/pytorch_rows.py scripts/pytorch_models.py scripts/runs.py "$stage/python/"
fi
! wants rest || { add_mpi && add_data; }
if wants convergence; then
  cp configs/cifar10_resnet20.toml "$stage/configs/"
  mkdir -p "$stage/data/cifar10"
  cp "${DRAGONN_DATA:-}"/cifar10/{cifar10_full.tar.xz,unpack_full.py} "$stage/data/cifar10/" 2>/dev/null ||
    echo "bundle.sh: no ${DRAGONN_DATA:-}/cifar10/cifar10_full.tar.xz: four_workers.sh will need --data" >&2
fi
{ git describe --always --dirty 2>/dev/null || echo "no commit"; } >"$stage/commit.txt"
printf '%s\n' "${stages[@]}" >"$stage/stages.txt"

rm -rf "$folder"
mkdir -p "$folder"
# All programs hold the same kernels, next to each other in the archive: a large dictionary finds them again. A bare system
# may lack xz.
tar -C "$stage" --sort=name -c . | xz -T1 --lzma2=preset=2,dict=128MiB >"$folder/payload.tar.xz"
mkdir "$folder/unpack"
cp -L "$(command -v xz)" "$(ldd "$(command -v xz)" | awk '$1 ~ /^liblzma/ {print $3}')" "$folder/unpack/"
cp scripts/gpu/bundle_common.sh "$folder/"
[ "${stages[*]}" = convergence ] || cp scripts/gpu/check.sh "$folder/"
! wants convergence || cp scripts/gpu/four_workers.sh "$folder/"
bytes=$(du -sb "$folder" | cut -f 1)
echo "$folder: $bytes bytes, for the stages ${stages[*]}"
[ "$bytes" -le "$largest" ] ||
  { echo "bundle.sh: more than $largest bytes: name fewer stages (--for)" >&2 && exit 1; }
