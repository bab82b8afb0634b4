#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The first call on a machine with a GPU, rehearsed without one: the bundle runs in an empty root that has the programs of a
# bare system, and none of this machine's other libraries. Every stage runs on the CPU and must end as it should.
. "$(dirname "$0")/lib.sh" "$1"
skip() { echo "skipped: $*" && exit 77; }

for name in dragonn-bench dragonn-train dragonn-compare test_kernels test_comm test_layers test_optim test_compress test_trainer; do
  [ -x "$BIN/$name" ] || skip "$name is not built"
done
! ldd "$BIN/test_kernels" | grep -q libasan || skip "programs with sanitizers are too large for a bundle"
command -v strip dpkg-query unshare chroot >/dev/null || skip "it needs strip, dpkg-query, unshare and chroot"
[ "$(id -u)" -eq 0 ] || skip "an empty root needs the rights of root"

# cuda_libraries: "NAME PATH" of the CUDA libraries that the programs are linked with: none in a build without CUDA.
cuda_libraries() {
  ldd "$BIN"/test_* "$BIN"/dragonn-* "$BIN"/select_lab 2>/dev/null |
    awk '$2 == "=>" && $1 ~ /^lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|nvrtc)\./ && $3 ~ /^\// { print $1, $3 }' | sort -u
}

# make_root FOLDER: the programs of a bare Debian or Ubuntu, with the libraries that they need; not those of C++. CUDA's
# libraries have places in /opt, as on a machine with a GPU.
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
  cuda_libraries >cuda_libraries.txt
  mkdir -p "$1/opt/cuda/lib"
  while read -r library _; do : >"$1/opt/cuda/lib/$library"; done <cuda_libraries.txt
}

# add_python ROOT: the distribution's smallest python3, which has no packages; without it there is none.
add_python() {
  local version file
  version=$(dpkg-query -W -f='${Depends}' python3-minimal 2>/dev/null | grep -o 'python3\.[0-9]*' | head -n 1)
  [ -n "$version" ] || return 0
  for file in $(dpkg-query -L "$version-minimal" "lib$version-minimal" | grep -E '^/usr/(bin|lib)/' | sort); do
    [ ! -f "$file" ] || { mkdir -p "$1/$(dirname "$file")" && cp -L "$file" "$1/$file"; }
  done
  for file in $(ldd "/usr/bin/$version" | grep -o '/[^ ]*'); do cp -Ln "$file" "$1/$file" 2>/dev/null; done
  ln -sf "$version" "$1/usr/bin/python3"
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
    while read -r library path; do
      mount --bind "$(realpath "$path")" "$root/opt/cuda/lib/$library" || exit 70
    done <cuda_libraries.txt
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
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

make_root root
add_python root
in_root true || { [ $? -ne 70 ] || skip "this process may mount nothing"; }
in_root bash -c 'ldconfig && tar --version | head -n 1' >base.txt 2>&1 || fail "the empty root: $(cat base.txt)"

DRAGONN_DATA='' "$ROOT/scripts/gpu/bundle.sh" --bin "$BIN" "$WORK/root/bundle" >bundle.txt 2>&1 || fail "the bundle: $(cat bundle.txt)"
check 0 --cpu --only smoke,profile,variants,pytorch,rest,memcheck
says '== smoke' 'test_kernels: done' 'test_comm: done' 'bench_compress: done' 'bench_step_resnet20_float32: done' \
  '== profile' 'timers_dense: done' 'timers_dragonn: done' '  a step of resnet20.*"forward":' \
  '== variants' '(lab: skipped|select_lab.cu: not in this bundle|variants: no nvcc here)' \
  '== pytorch' 'pytorch.*: skipped: ' \
  '== rest' 'test_layers: done' 'test_trainer: done' 'test_compress: done' 'test_optim: done' 'bench_decode: done' \
  'bench_quantize: done' 'bench_step_lstm_lm_float32: done' 'train_dense: done' 'train_dragonn: done' 'compare: done' \
  '== memcheck' 'compute-sanitizer: not on this machine' '0 parts failed'
grep -q '=> not found' check.txt && fail "a library is missing: $(cat check.txt)"
has_rows compress decode quantize step_resnet20_float32 step_lstm_lm_float32 train_dense train_dragonn
for file in table.txt results.json logs.tar.gz report.html; do [ -s "root/results/$file" ] || fail "check.sh wrote no $file"; done

# A later call keeps the rows of the earlier ones.
check 0 --cpu --only variants
has_rows compress train_dense

# Without a GPU each part that needs one says so in a line.
if ! command -v nvidia-smi >/dev/null; then
  check 1 --only smoke --seconds 60
  says 'nvidia-smi: not on this machine' 'bench_compress: failed \(2\): dragonn-bench: --device cuda: '
fi
bash root/bundle/check.sh --only speed >check.txt 2>&1 && fail "a stage that is unknown"
says 'check.sh: --only speed: valid are smoke profile '

finish
