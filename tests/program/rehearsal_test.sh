#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The first call on a machine with a GPU, rehearsed without one: the bundle runs in an empty root that has the programs of a
# bare system, none of this machine's other libraries, and CUDA's libraries where Python's packages put them. Every stage
# runs on the CPU and must end as it should; scripts stand in for the profilers and nvidia-smi.
# REHEARSAL=full rehearses PyTorch's stage and four_workers.sh, too:
#   REHEARSAL=full bash tests/program/rehearsal_test.sh build/cuda/bin   what goes to a GPU, with CUDA's libraries
. "$(dirname "$0")/lib.sh" "$1"
skip() { echo "skipped: $*" && exit 77; }
full() { [ "${REHEARSAL:-}" = full ]; }

for name in dragonn-bench dragonn-train dragonn-compare test_kernels test_comm test_layers test_optim test_compress \
  test_exchange test_trainer; do
  [ -x "$BIN/$name" ] || skip "$name is not built"
done
sanitized=$(ldd "$BIN/test_kernels" | grep -c libasan)
[ "$sanitized" = 0 ] || skip "programs with sanitizers are too large for a bundle"
command -v strip dpkg-query unshare chroot >/dev/null || skip "it needs strip, dpkg-query, unshare and chroot"
[ "$(id -u)" -eq 0 ] || skip "an empty root needs the rights of root"

# cuda_libraries: "NAME PATH" of the CUDA libraries that the programs are linked with: none in a build without CUDA.
cuda_libraries() {
  ldd "$BIN"/test_* "$BIN"/dragonn-* 2>/dev/null |
    awk '$2 == "=>" && $1 ~ /^lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|nvrtc)\./ && $3 ~ /^\// { print $1, $3 }' | sort -u
}

# folder_of LIBRARY: where the empty root has it: in a folder of Python's packages, as pip installs them, but NCCL in /opt,
# as if only the system had it. Without Python all are in /opt.
folder_of() {
  local packages=/usr/lib/python3/dist-packages/nvidia
  if [[ $1 == libnccl* ]] || [ ! -d "$WORK/root$packages" ]; then
    echo /opt/cuda/lib
  elif [[ $1 == libcudnn* ]]; then
    echo $packages/cudnn/lib
  else
    echo $packages/cu13/lib
  fi
}

# add_cuda_libraries ROOT: empty files in their places, over which the libraries are mounted; they stay empty in a build
# without CUDA, whose programs need none. There is no driver.
add_cuda_libraries() {
  local library path
  {
    cuda_libraries
    printf '%s /dev/null\n' libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2
  } | sort -u -k 1,1 | while read -r library path; do
    mkdir -p "$1$(folder_of "$library")" && : >"$1$(folder_of "$library")/$library"
    echo "$path $(folder_of "$library")/$library"
  done >mounts.txt
}

# make_root FOLDER: the programs of a bare Debian or Ubuntu, with the libraries that they need; not those of C++.
make_root() {
  local program library
  mkdir -p "$1"/{usr/{bin,sbin,lib,lib64},etc,tmp,proc,dev/shm,root}
  for library in bin sbin lib lib64; do ln -s "usr/$library" "$1/$library"; done
  dpkg-query -L bash coreutils dash findutils grep gzip hostname libc-bin mawk sed tar 2>/dev/null |
    grep -E '^(/usr)?/s?bin/' | sort -u >programs.txt
  while read -r program; do
    [ -f "$program" ] || continue
    cp -L "$program" "$1/usr/${program##/usr/}" 2>/dev/null
    ldd "$program" 2>/dev/null | grep -o '/[^ ]*'
  done < <(sed -E 's|^/(s?bin)/|/usr/\1/|' programs.txt) | sort -u >libraries.txt
  dpkg-query -L libc6 | grep -E '/lib[^/]*\.so\.[0-9]+$' >>libraries.txt
  while read -r library; do
    mkdir -p "$1$(dirname "$(realpath -m "$library")")"
    cp -L "$library" "$1/$library" 2>/dev/null
  done <libraries.txt
  ln -sf mawk "$1/usr/bin/awk"
  ln -sf dash "$1/usr/bin/sh"
  echo 'root:x:0:0:root:/root:/bin/bash' >"$1/etc/passwd"
  echo '127.0.0.1 localhost' >"$1/etc/hosts"
  ln -s /proc/self/fd "$1/dev/fd"
}

# add_python ROOT: the distribution's smallest python3, which has no packages but NVIDIA's; without it there is none.
add_python() {
  local version file
  version=$(dpkg-query -W -f='${Depends}' python3-minimal 2>/dev/null | grep -o 'python3\.[0-9]*' | head -n 1)
  [ -n "$version" ] || return 0
  for file in $(dpkg-query -L "$version-minimal" "lib$version-minimal" | grep -E '^/usr/(bin|lib)/' | sort); do
    [ ! -f "$file" ] || { mkdir -p "$1/$(dirname "$file")" && cp -L "$file" "$1/$file"; }
  done
  for file in $(ldd "/usr/bin/$version" | grep -o '/[^ ]*'); do cp -Ln "$file" "$1/$file" 2>/dev/null; done
  ln -sf "$version" "$1/usr/bin/python3"
  mkdir -p "$1/usr/lib/python3/dist-packages/nvidia"
}

# add_tool ROOT NAME SCRIPT: a program that stands in for one of NVIDIA's.
add_tool() { printf '#!/bin/sh\n%s\n' "$3" >"$1/usr/bin/$2" && chmod +x "$1/usr/bin/$2"; }

# add_tools ROOT: the profilers and compute-sanitizer run the program that they are called for.
# shellcheck disable=SC2016 # the tools'
add_tools() {
  local name run='while [ "${1#bin/}" = "$1" ]; do shift; done; echo "'
  for name in ncu nsys; do add_tool "$1" $name "$run$name\"; exec \"\$@\""; done
  add_tool "$1" compute-sanitizer "$run========= ERROR SUMMARY: 0 errors\"; exec \"\$@\""
  add_tool "$1" nvidia-smi 'echo "no GPU, 0.0, 0 MiB, 0 MiB, 0 MHz, 0 MHz"'
}

# add_torch ROOT: Python with PyTorch and all its packages instead of the smallest one, where this machine's has PyTorch and
# is in a folder of its own; else 1.
add_torch() {
  local prefix library
  prefix=$(python3 -c 'import sys, torch; print(sys.prefix)' 2>/dev/null)
  [ -n "$prefix" ] && [ "$prefix" != /usr ] || return 1
  find "$prefix"/bin/python3 "$prefix"/lib/python3*/{lib-dynload,site-packages/torch/lib} '(' -name '*.so*' -o -name python3 ')' -print0 |
    xargs -0 ldd 2>/dev/null | grep -o '=> /[^ ]*' | cut -c 4- | grep -v "^$prefix" | sort -u | while read -r library; do
    [ -e "$1/$library" ] || { mkdir -p "$1$(dirname "$library")" && cp -L "$library" "$1/$library"; }
  done
  mkdir -p "$1$prefix" && echo "$prefix $prefix" >>mounts.txt
  ln -sf "$prefix/bin/python3" "$1/usr/bin/python3"
}

# in_root COMMAND...: with file systems of its own, and an environment that knows nothing of this machine.
in_root() {
  # shellcheck disable=SC2016 # the inner shell's
  unshare --mount --pid --fork bash -c '
    root=$1 && shift
    mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev/shm" || exit 70
    for device in null zero random urandom; do
      : >"$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device" || exit 70
    done
    while read -r path place; do
      [ "$path" = /dev/null ] || mount --bind "$(realpath "$path")" "$root$place" || exit 70
    done <mounts.txt
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ASAN_OPTIONS=detect_leaks=0 \
      chroot "$root" "$@"' bash "$WORK/root" "$@"
}

# check EXPECTED_STATUS ARGUMENT...: check.sh in the root; what it prints is in check.txt.
check() {
  local expected=$1 status=0
  shift
  in_root bash /bundle/check.sh "$@" /results >check.txt 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "check.sh $* ends with $status instead of $expected: $(cat check.txt)"
}

# says PATTERN...: lines of what check.sh printed.
says() {
  local pattern
  for pattern in "$@"; do grep -qE "^$pattern" check.txt || fail "no line '$pattern': $(cat check.txt)"; done
}

# has_rows PART...: results.json is JSON and has rows of these parts, and is written down with its date and commit.
has_rows() {
  command -v python3 >/dev/null || return 0
  python3 - "$WORK/root/results/results.json" "$@" <<'PY' || fail "results.json lacks some of $*"
import json, sys
results = json.load(open(sys.argv[1]))
missing = [part for part in sys.argv[2:] if not results["parts"].get(part)]
assert results["commit"] and results["date"] and not missing, missing
PY
}

# has_logs PART...: logs.tar.gz has what these parts printed.
has_logs() {
  local part
  tar -tzf root/results/logs.tar.gz >packed.txt
  for part in "$@"; do grep -qx "logs/$part.log" packed.txt || fail "logs.tar.gz has no log of $part: $(cat packed.txt)"; done
}

# pack OPTION...: the bundle; that of programs with sanitizers may be too large for a machine with a GPU.
pack() {
  DRAGONN_DATA='' "$ROOT/scripts/gpu/bundle.sh" --bin "$BIN" "$@" >bundle.txt 2>&1 ||
    { [ "$sanitized" != 0 ] && grep -q 'more than [0-9]* bytes' bundle.txt; } || fail "the bundle: $(cat bundle.txt)"
}

make_root root
add_python root
add_cuda_libraries root
in_root true || { [ $? -ne 70 ] || skip "this process may mount nothing"; }
in_root bash -c 'ldconfig && tar --version | head -n 1' >base.txt 2>&1 || fail "the empty root: $(cat base.txt)"

pack "$WORK/root/bundle"
tail -n 1 bundle.txt
check 0 --cpu --only smoke,profile,pytorch,rest,memcheck
says '== smoke' 'test_kernels: done' 'test_comm: done' 'bench_compress: done' 'bench_step_resnet20_float32: done' \
  '== profile' 'ncu: not on this machine' 'timers_dense: done' 'timers_dragonn: done' '  a step of resnet20.*"forward":' \
  '== pytorch' 'pytorch.*: skipped: ' \
  '== rest' 'test_layers: done' 'test_trainer: done' 'test_exchange: done' 'test_compress: done' 'test_optim: done' \
  'bench_decode: done' 'bench_quantize: done' 'bench_step_lstm_lm_float32: done' 'train_dense: done' 'train_dragonn: done' 'compare: done' \
  '== memcheck' 'compute-sanitizer: not on this machine' '0 parts failed' 'CUDA.s libraries: '
grep -E '=> not found|lib(cu|nccl|nvrtc)[^ ]*: not found' check.txt | grep -v '^libcuda.so.1: not found on this machine' &&
  fail "a library is missing: $(cat check.txt)"
has_rows compress decode quantize step_resnet20_float32 step_lstm_lm_float32 train_dense train_dragonn
has_logs test_kernels test_comm bench_compress timers_dragonn bench_decode train_randomk compare
for file in table.txt results.json logs.tar.gz report.html; do [ -s "root/results/$file" ] || fail "check.sh wrote no $file"; done

# A later call keeps the rows of the earlier ones.
check 0 --cpu --only memcheck
has_rows compress train_dense

# Without a GPU each part that needs one says so in a line.
if ! command -v nvidia-smi >/dev/null; then
  check 1 --only smoke --seconds 60
  says 'nvidia-smi: not on this machine' 'bench_compress: failed \(2\): dragonn-bench: --device cuda: '
fi
bash root/bundle/check.sh --only speed >check.txt 2>&1 && fail "a stage that is unknown"
says 'check.sh: --only speed: valid are smoke profile '

# With the tools of a machine that has a GPU: all parts that need them.
add_tools root
check 0 --cpu --only profile,memcheck
says 'ncu_select: done' 'ncu_dragonn: done' 'ncu_step: done' 'nsys_step: done' \
  'sanitizer_memcheck: done' '  ========= ERROR SUMMARY' 'sanitizer_racecheck: done' 'commit .*no GPU, 0.0'
has_rows compress train_dense
has_logs ncu_select ncu_dragonn ncu_step nsys_step sanitizer_racecheck bench_compress

if ! full; then
  echo "without PyTorch's stage: it is for REHEARSAL=full"
elif ! add_torch root; then
  echo "without PyTorch's stage: no python3 here has PyTorch in a folder of its own"
else
  check 0 --cpu --only pytorch --variants eager,eager_channels_last --seconds 3000 --patience 10
  says 'pytorch_select: done' 'pytorch_step: done'
  has_rows pytorch_select pytorch_step compress
fi

if full; then
  rm -rf root/bundle
  pack --for convergence "$WORK/root/bundle"
  mkdir root/data
  cifar root/data/data_batch_1.bin 64
  cifar root/data/test_batch.bin 20
  environment=(METHODS="dense dragonn" EPOCHS=1 WORKERS=2 DEVICE=cpu)
  in_root env "${environment[@]}" bash /bundle/four_workers.sh --seconds 5000 --data /data /results/trained >four.txt 2>&1 ||
    fail "four_workers.sh: $(cat four.txt)"
  for file in table.md runs.csv curves.svg report.html state.tar.gz; do
    [ -s "root/results/trained/$file" ] || fail "four_workers.sh wrote no $file: $(cat four.txt)"
  done
fi

finish
