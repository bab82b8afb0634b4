#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs in the folder that scripts/gpu/bundle.sh makes, on a machine with an NVIDIA GPU. Its parts, most important first:
#   tests      the GPU's test cases
#   compress   selections beside copies and CUB's, then PyTorch's where python3 has it
#   decode     sums of sparse lists
#   step       training steps of four models in three precisions, with CUDA graphs and without
#   train      short trainings of several methods by workers that share the GPU
#   quantize   codes
#   pytorch    the same training steps in PyTorch, eager and compiled, for the time that is left; after step
#   sanitize   compute-sanitizer's memcheck and racecheck over the kernels' tests; only when asked for
# Every part has a time limit, all together take less than 8 minutes; a part that cannot run says why and the others go on.
# Writes into RESULTS, after each part anew: table.txt, results.json (the rows of all parts), logs.tar.gz, and report.html.
# Ends with 1 if a part failed.
# Usage: check.sh [--only PART,...] [--sanitize] [--cpu] [RESULTS]     RESULTS: results in the working directory if not given
# --only: these parts; --sanitize: that one too; --cpu: small sizes on the CPU, to try the script itself
set -uo pipefail
# shellcheck source=scripts/gpu/bundle_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/bundle_common.sh"
readonly seconds_in_all=460 workers=4
readonly methods=(dense topk dragonn dgc sidco_e randomk) known=(tests compress decode step train quantize pytorch sanitize)
parts=(tests compress decode step train quantize pytorch)
device=cuda numel=268435456 decode_numel=16777216 rounds=9 precisions=(float32 tf32 bf16) steps=100
models=("resnet20 --batch 128" "vgg16 --batch 128" "lstm_lm --batch 20 --set hidden=1500"
  "resnet50 --batch 64 --set stem=imagenet --sample 224x224x3 --classes 1000")

die() { echo "check.sh: $*" >&2 && exit 2; }
results=results
while [ $# -gt 0 ]; do
  case $1 in
    --only)
      [ $# -gt 1 ] || die "--only: valid are ${known[*]}"
      IFS=, read -r -a parts <<<"$2"
      for name in "${parts[@]}"; do [[ " ${known[*]} " == *" $name "* ]] || die "--only $name: valid are ${known[*]}"; done
      shift 2
      ;;
    --sanitize) parts+=(sanitize) && shift ;;
    --cpu)
      device=cpu numel=1048576 decode_numel=1048576 rounds=3 precisions=(float32) steps=4
      models=("resnet20 --batch 8" "lstm_lm --batch 4 --set hidden=100")
      shift
      ;;
    -*) die "$1: expected --only, --sanitize, --cpu or a folder for results" ;;
    *) results=$1 && shift ;;
  esac
done
mkdir -p "$results" || exit 1
results=$(cd "$results" && pwd)
unpack_bundle
mkdir logs rows
: >"$results/table.txt"
failed=0

say() { echo "$*" | tee -a "$results/table.txt"; }

# wants PART: whether it is to run.
wants() { [[ " ${parts[*]} " == *" $1 "* ]]; }

# pack: what there is so far, in few files: some machines give back no more.
pack() {
  local file separator=''
  {
    printf '{"commit": "%s", "date": "%s", "device": "%s", "parts": {' "$(cat commit.txt)" "$(date -u +%Y-%m-%d)" "$gpu"
    for file in rows/*.json; do
      [ -s "$file" ] || continue
      printf '%s\n"%s": ' "$separator" "$(basename "$file" .json)"
      cat "$file"
      separator=,
    done
    printf '}}\n'
  } >results.json && mv results.json "$results/results.json"
  tar -czf "$results/logs.tar.gz" logs
}

# error_of LOG: the line that names the error, or else the last one.
error_of() { grep -a -m 1 -E ' E |^(dragonn-[a-z]+|pytorch_rows.py|skipped): | ERROR: ' "$1" || tail -n 1 "$1"; }

# part NAME LIMIT COMMAND...: output goes to logs/NAME.log. Says how it ended; returns its status.
part() {
  local name=$1 limit=$2 left=$((seconds_in_all - SECONDS)) begin=$SECONDS status=0
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    say "$name: not run, the time is used up" && failed=$((failed + 1)) && return 1
  fi
  timeout --kill-after=5 "$limit" "$@" >"logs/$name.log" 2>&1 </dev/null || status=$?
  case $status in
    0) say "$name: done in $((SECONDS - begin)) s" ;;
    124 | 137) say "$name: stopped at its limit of $limit s" && failed=$((failed + 1)) ;;
    *) say "$name: failed ($status): $(error_of "logs/$name.log")" && failed=$((failed + 1)) ;;
  esac
  pack
  return $status
}

summarize_device() {
  local query=name,driver_version,memory.total,memory.free,clocks.max.sm,clocks.max.memory
  command -v nvidia-smi >/dev/null || say "nvidia-smi: not on this machine"
  gpu=$(nvidia-smi --query-gpu=$query --format=csv,noheader 2>/dev/null | head -n 1)
  say "commit $(cat commit.txt), $(date -u +%Y-%m-%d), ${gpu:-no GPU} ($query)"
}

run_tests() {
  local program name
  for program in bin/test_*; do
    name=$(basename "$program")
    part "$name" 60 "$program" "--test-case=gpu: *"
    say "  $(grep -a 'test cases:' "logs/$name.log" | tail -n 1 | cut -d '|' -f 2,3), of these skipped: $(
      grep -a -c 'MESSAGE: .*skipped: ' "logs/$name.log")"
  done
}

# Cases that provoke errors of the API check for them themselves. A run that was stopped has no summary.
run_sanitize() {
  local tool log
  if ! command -v compute-sanitizer >/dev/null; then say "compute-sanitizer: not on this machine" && return; fi
  for tool in memcheck racecheck; do
    part "sanitizer_$tool" 150 compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 50 \
      --report-api-errors no bin/test_kernels "--test-case=gpu: *"
    log=logs/sanitizer_$tool.log
    say "  $(grep -a 'SUMMARY:' "$log" | tail -n 1 | grep . || echo "no summary; reported so far: $(
      grep -a -c -E '^=+ (Invalid|Error|Warning|Race|Misaligned|Program hit)' "$log")")"
  done
}

# bench NAME LIMIT SUBCOMMAND OPTION...: its rows go to rows/NAME.json, its table to RESULTS/table.txt.
bench() {
  local name=$1 limit=$2 subcommand=$3
  shift 3
  part "bench_$name" "$limit" bin/dragonn-bench "$subcommand" --device $device --json "rows/$name.json" "$@" &&
    cat "logs/bench_$name.log" >>"$results/table.txt"
}

# pytorch NAME LIMIT OPTION...: likewise of scripts/gpu/pytorch_rows.py. Rows that it wrote before it was stopped count.
pytorch() {
  local name=$1 limit=$2
  shift 2
  if ! python3 -c 'import torch' 2>/dev/null; then say "$name: python3 has no PyTorch here" && return; fi
  part "$name" "$limit" python3 python/pytorch_rows.py "$@" --json "rows/$name.json"
  cat "logs/$name.log" >>"$results/table.txt"
}

run_compress() {
  bench compress 120 compress --numel $numel --density 0.001 --sparsifier all --kernel all --rounds $rounds
  [ ! -s rows/compress.json ] || pytorch pytorch_select 40 select --rows rows/compress.json --rounds $rounds
}

run_decode() { bench decode 30 decode --numel $decode_numel --rounds $rounds; }

run_quantize() { bench quantize 30 quantize --numel $numel --rounds $rounds; }

run_step() {
  local precision model name
  for precision in "${precisions[@]}"; do
    for model in "${models[@]}"; do
      read -r -a words <<<"$model"
      name=${words[0]}
      bench "step_${name}_$precision" 20 step --model "${words[@]}" --device-math "$precision" --graphs both --rounds $rounds
    done
  done
}

run_pytorch() {
  local limit=$((seconds_in_all - SECONDS - 5))
  if ! compgen -G 'rows/step_*.json' >/dev/null; then say "pytorch: no training steps to compare with" && return; fi
  pytorch pytorch_step $limit step --rows rows/step_*.json --rounds $rounds --seconds $((limit - 60))
}

# train METHOD: workers on one GPU, as processes where MPI is there, else as threads of one.
train() {
  local method=$1 data
  if [ -f data/cifar10/data_batch_1.bin ]; then data=(--set data.name=cifar10 --set data.path=data/cifar10); else
    data=(--set data.name=synthetic_images --set data.train_samples=2000 --set data.test_samples=500); fi
  local run=(bin/dragonn-train check.toml "${data[@]}" --set "compression.method=$method" --output "runs/$method")
  if [ -x mpi/bin/mpirun ]; then
    part "train_$method" 60 mpirun -np $workers "${run[@]}" || return
  else
    part "train_$method" 60 "${run[@]}" --workers $workers || return
  fi
  cp "runs/$method/summary.json" "rows/train_$method.json"
  say "  $(sed -n 's/^ *"\(throughput_samples_per_second\|accuracy\|bytes_sent_total\|device\)": */\1 /p' \
    "runs/$method/summary.json" | sort -u | paste -sd ' ')"
}

write_config() {
  cat >check.toml <<TOML
device = "$device"
[model]
name = "resnet20"
[data]
name = "synthetic_images"
[train]
epochs = 100
max_steps = $steps
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

run_train() {
  write_config
  use_bundled_mpi || say "mpirun is not in the bundle: workers are threads"
  for method in "${methods[@]}"; do train "$method"; done
  [ ! -d runs ] || part compare 20 bin/dragonn-compare runs/* --output "$results/report.html" --csv train.csv
  [ ! -s train.csv ] || cat train.csv >>"$results/table.txt"
}

find_cuda_libraries >libraries.txt
[ ! -s libraries.txt ] || say "$(cat libraries.txt)"
summarize_device
for name in "${known[@]}"; do
  if wants "$name"; then "run_$name"; fi
done
say "$failed parts failed, $SECONDS s"
pack
[ "$failed" -eq 0 ]
