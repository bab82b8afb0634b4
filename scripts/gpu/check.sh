#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs in the folder that scripts/gpu/bundle.sh makes, on a machine with an NVIDIA GPU: device summary, the GPU's tests,
# dragonn-bench compress, decode and step, short trainings of several methods by workers that share the GPU. Every part
# has a time limit, all together take less than 8 minutes; a part that cannot run says why and the others go on.
# Writes RESULTS/*.json, RESULTS/*.log, RESULTS/table.txt. Ends with 1 if a part failed.
# Usage: check.sh [--sanitize] [RESULTS]     --sanitize: also compute-sanitizer's memcheck and racecheck, which take their
# time from the other parts; RESULTS: results in the working directory if not given
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly seconds_in_all=460 workers=4
readonly methods=(dense topk dragonn dgc sidco_e randomk)

sanitize='' results=results
while [ $# -gt 0 ]; do
  case $1 in
    --sanitize) sanitize=yes && shift ;;
    -*) echo "check.sh: $1: expected --sanitize or a folder for results" >&2 && exit 2 ;;
    *) results=$1 && shift ;;
  esac
done
mkdir -p "$results" || exit 1
results=$(cd "$results" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
tar -C "$root" -xzf "$here/payload.tar.gz" || { echo "check.sh: $here/payload.tar.gz is not what bundle.sh wrote" >&2 && exit 1; }
cd "$root" || exit 1
: >"$results/table.txt"
failed=0

say() { echo "$*" | tee -a "$results/table.txt"; }

# error_of LOG: the line that names the error, or else the last one.
error_of() { grep -a -m 1 -E ' E |^dragonn-[a-z]+: | ERROR: ' "$1" || tail -n 1 "$1"; }

# part NAME LIMIT COMMAND...: output goes to RESULTS/NAME.log. Says how it ended; returns its status.
part() {
  local name=$1 limit=$2 left=$((seconds_in_all - SECONDS)) begin=$SECONDS status=0
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    say "$name: not run, the time is used up" && failed=$((failed + 1)) && return 1
  fi
  timeout --kill-after=5 "$limit" "$@" >"$results/$name.log" 2>&1 </dev/null || status=$?
  case $status in
    0) say "$name: done in $((SECONDS - begin)) s" ;;
    124 | 137) say "$name: stopped at its limit of $limit s" && failed=$((failed + 1)) ;;
    *) say "$name: failed ($status): $(error_of "$results/$name.log")" && failed=$((failed + 1)) ;;
  esac
  return $status
}

# CUDA's libraries are this machine's: where the linker does not find them, in the usual places.
find_cuda_libraries() {
  local name folder
  export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  for name in libcudart.so.13 libcublas.so.13 libcudnn.so.9 libnccl.so.2; do
    ldconfig -p 2>/dev/null | grep -q "$name" && continue
    folder=$(timeout 20 find /usr/local /opt /usr/lib -name "$name" -printf '%h\n' 2>/dev/null | head -n 1)
    if [ -n "$folder" ]; then LD_LIBRARY_PATH+=:$folder; else say "$name: not found on this machine"; fi
  done
}

summarize_device() {
  local query=name,driver_version,memory.total,memory.free,clocks.max.sm,clocks.max.memory
  if ! command -v nvidia-smi >/dev/null; then say "nvidia-smi: not on this machine"; fi
  nvidia-smi --query-gpu=$query --format=csv 2>/dev/null | tee "$results/device.csv"
  say "commit $(cat commit.txt), $(date -u +%Y-%m-%d), $(sed -n 2p "$results/device.csv" 2>/dev/null)"
}

run_gpu_tests() {
  local program name
  for program in bin/test_*; do
    name=$(basename "$program")
    part "$name" 100 "$program" "--test-case=gpu: *"
    say "  $(grep -a 'test cases:' "$results/$name.log" | tail -n 1 | cut -d '|' -f 2,3), of these skipped: $(
      grep -a -c 'MESSAGE: .*skipped: ' "$results/$name.log")"
  done
}

sanitize_tests() {
  local tool
  if ! command -v compute-sanitizer >/dev/null; then say "compute-sanitizer: not on this machine" && return; fi
  for tool in memcheck racecheck; do
    part "sanitizer_$tool" 100 compute-sanitizer --tool $tool --error-exitcode 1 bin/test_kernels "--test-case=gpu: *"
  done
}

# bench NAME LIMIT SUBCOMMAND OPTION...: its rows go to RESULTS/NAME.json, its table to RESULTS/table.txt.
bench() {
  local name=$1 limit=$2 subcommand=$3
  shift 3
  part "bench_$name" "$limit" bin/dragonn-bench "$subcommand" --device cuda --json "$results/$name.json" "$@" &&
    cat "$results/bench_$name.log" >>"$results/table.txt"
}

run_benchmarks() {
  bench compress 140 compress --numel 268435456 --density 0.001 --sparsifier all --kernel all --rounds 9
  bench quantize 30 quantize --numel 268435456 --rounds 9
  bench decode 30 decode --rounds 9
  bench step 50 step --batch 128 --model resnet20 --model vgg16
}

# Open MPI below a folder of its own. A container may lack shared memory between processes that one copy would need.
use_bundled_mpi() {
  export OPAL_PREFIX=$root/mpi PATH="$root/mpi/bin:$PATH"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  export OMPI_MCA_mca_base_component_show_load_errors=0 OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader,tcp
  export OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_pcompress_base_silence_warning=1
}

# train METHOD: workers on one GPU, as processes where MPI is there, else as threads of one.
train() {
  local method=$1 data
  if [ -d data/cifar10 ]; then data=(--set data.name=cifar10 --set data.path=data/cifar10); else
    data=(--set data.name=synthetic_images --set data.train_samples=2000 --set data.test_samples=500); fi
  local run=(bin/dragonn-train check.toml "${data[@]}" --set "compression.method=$method" --output "runs/$method")
  if [ -x mpi/bin/mpirun ]; then
    part "train_$method" 60 mpirun -np $workers "${run[@]}" || return
  else
    part "train_$method" 60 "${run[@]}" --workers $workers || return
  fi
  cp "runs/$method/summary.json" "$results/train_$method.json"
  cp "runs/$method/metrics.jsonl" "$results/train_$method.jsonl"
  say "  $(sed -n 's/^ *"\(throughput_samples_per_second\|accuracy\|bytes_sent_total\|device\)": */\1 /p' \
    "runs/$method/summary.json" | sort -u | paste -sd ' ')"
}

write_config() {
  cat >check.toml <<'TOML'
device = "cuda"
[model]
name = "resnet20"
[data]
name = "synthetic_images"
[train]
epochs = 100
max_steps = 100
batch_size = 32
eval_every_epochs = 0
[optimizer]
name = "sgd"
learning_rate = 0.1
momentum = 0.9
[compression]
density = 0.01
[checkpoint]
every_epochs = 0
TOML
}

find_cuda_libraries
summarize_device
run_gpu_tests
[ -z "$sanitize" ] || sanitize_tests
run_benchmarks
write_config
if [ -x mpi/bin/mpirun ]; then use_bundled_mpi; else say "mpirun is not in the bundle: workers are threads"; fi
for method in "${methods[@]}"; do train "$method"; done
if [ -d runs ]; then part compare 20 bin/dragonn-compare runs/* --output "$results/report.html" --csv "$results/train.csv"; fi
say "$failed parts failed, $SECONDS s"
[ "$failed" -eq 0 ]
