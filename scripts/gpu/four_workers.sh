#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs in the folder that scripts/gpu/bundle.sh --for convergence makes: four workers that share one GPU, threads of one
# process, train ResNet-20 on the full CIFAR-10 for 30 epochs (configs/cifar10_resnet20.toml), dense and with the main
# methods, which select from the whole model at once.
# A call trains two methods at most, and ends after --seconds, wherever it is; by RESULTS/state.tar.gz (8.5 MB) the next one goes
# on from the last epoch of the run that was interrupted, and repeats no run that is done.
# Writes into RESULTS: table.md, runs.csv, curves.svg, report.html, state.tar.gz. Ends with 1 if a run is not done.
# Usage: four_workers.sh [--seconds N] [--data DIR] [--from STATE.tar.gz] [RESULTS]     RESULTS: results if not given
#   --seconds: 540 if not given; --data: a folder with data_batch_*.bin and test_batch.bin, instead of the bundle's;
#   --from: RESULTS/state.tar.gz of the call before, if RESULTS does not have it
# Environment: METHODS ("dense dragonn topk dgc gtopk sidco_e"), PER_CALL (2: methods that a call trains), SEED (1), EPOCHS (30),
# WORKERS (4), DEVICE (cuda), OVERRIDES (none; "KEY=VALUE ..." for every run).
set -uo pipefail
# shellcheck source=scripts/gpu/bundle_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/bundle_common.sh"
readonly workers=${WORKERS:-4} seed=${SEED:-1} per_call=${PER_CALL:-2}
read -r -a methods <<<"${METHODS:-dense dragonn topk dgc gtopk sidco_e}"

data=''
take_options "seconds data from" "$@"
[[ $per_call =~ ^[1-9][0-9]*$ ]] || die "PER_CALL $per_call: expected a number of methods"
[ -z "$data" ] || data=$(cd "$data" && pwd) || exit 2
unpack_bundle
[ -f configs/cifar10_resnet20.toml ] || die "this bundle is for other stages: make one by bundle.sh --for convergence"
find_cuda_libraries
[ "${DEVICE:-cuda}" = cpu ] || read_ahead
output=$PWD/runs
mkdir -p "$output"

# find_data: $output/data with the full set. JPEG files, where the bundle has them, are a tenth of the official files.
find_data() {
  local python
  if [ -n "$data" ]; then
    ln -s "$data" "$output/data"
  elif [ -f data/cifar10/unpack_full.py ]; then
    for python in python3 /usr/bin/python3; do
      LD_LIBRARY_PATH=$machine_library_path "$python" -c 'import PIL, numpy' 2>/dev/null || continue
      LD_LIBRARY_PATH=$machine_library_path "$python" data/cifar10/unpack_full.py "$output/data" >/dev/null && return
      die "CIFAR-10 cannot be unpacked"
    done
    die "unpacking CIFAR-10 needs python3 with Pillow and numpy"
  else
    die "the bundle has no full CIFAR-10: expected --data DIR"
  fi
}

# set_run METHOD: `command` and `folder` of a run, which goes on from its last checkpoint. One bucket, beside that of biases and
# normalization, costs a GPU the least waits.
set_run() {
  # shellcheck disable=SC2206 # words of OVERRIDES
  local settings=("seed=$seed" "data.path=$output/data" "train.epochs=${EPOCHS:-30}" train.eval_every_epochs=5
    "compression.method=$1" "device=${DEVICE:-cuda}" compression.bucket=model compression.include_vectors=no
    checkpoint.every_epochs=1 checkpoint.keep=1 ${OVERRIDES:-})
  folder=$output/$1-seed$seed
  command=(bin/dragonn-train configs/cifar10_resnet20.toml --output "$folder" --resume auto --workers "$workers"
    "${settings[@]/#/--set=}")
}

# error_of FOLDER: the error that ended the run, if one did: then it is the log's last line.
error_of() { [ ! -f "$1/log.txt" ] || tail -1 "$1/log.txt" | sed -n 's/^[^ ]* error //p'; }

is_over() { [ -f "$1/summary.json" ] || [ -n "$(error_of "$1")" ]; } # FOLDER

# number METHOD COLUMN: of the table of runs that dragonn-compare wrote. Labels, in quotes, may have commas.
number() {
  awk -F, -v run="$1-seed$seed" -v column="$2" '{ gsub(/"[^"]*"/, "label") }
    NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i }
    $1 == run && at { print $at }' "$results/runs.csv"
}

# train METHOD: as far as the time goes.
train() {
  local left=$((seconds - SECONDS)) status=0
  set_run "$1"
  ! is_over "$folder" || return 0
  if [ "$left" -lt 10 ] || [ "$trained" -ge "$per_call" ]; then echo "$1: not run in this call" && return; fi
  trained=$((trained + 1))
  timeout --kill-after=10 "$left" "${command[@]}" >train.log 2>&1 </dev/null || status=$?
  case $status in
    0) echo "$1: done" ;;
    124 | 137) echo "$1: interrupted, goes on in the next call" ;;
    *) echo "$1: failed ($status): $(grep -a -m 1 ' E ' train.log || tail -n 1 train.log)" ;;
  esac
}

row() { # METHOD
  local epochs
  set_run "$1"
  epochs=$(grep -a '"kind":"step"' "$folder/metrics.jsonl" 2>/dev/null | tail -n 1 | sed -n 's/.*"epoch":\([0-9.]*\).*/\1/p')
  printf "| \`%s\` | %.2f | %s | %s | %s |\n" "$1" "$epochs" "$(number "$1" final_accuracy)" "$(number "$1" bytes_per_step)" \
    "$(error_of "$folder" | grep . || ([ -f "$folder/summary.json" ] && echo "done") || echo interrupted)"
}

# report: the table and curves of all runs so far.
report() {
  local folders=() method
  for method in "${methods[@]}"; do
    set_run "$method"
    [ ! -s "$folder/metrics.jsonl" ] || folders+=("$folder")
  done
  [ ${#folders[@]} -gt 0 ] || return 0
  bin/dragonn-compare "${folders[@]}" --output "$results/report.html" --csv "$results/runs.csv" \
    --svg "$results/curves.svg" --title "ResNet-20 on CIFAR-10, $workers workers on one GPU" >/dev/null
  {
    printf '%s\n' "| method | epochs | test accuracy | bytes sent by a worker per step | |" "|---|---|---|---|---|"
    for method in "${methods[@]}"; do row "$method"; done
  } | tee "$results/table.md"
}

# save: the runs, without the checkpoints of those that are over.
save() {
  local excluded=() method
  for method in "${methods[@]}"; do
    set_run "$method"
    ! is_over "$folder" || excluded+=(--exclude "./$(basename "$folder")/checkpoints")
  done
  tar -C "$output" --exclude ./data "${excluded[@]}" -czf state.tar.gz . && mv state.tar.gz "$results/state.tar.gz"
  echo "state.tar.gz: $(stat -c %s "$results/state.tar.gz") bytes"
}

restore state.tar.gz "$output"
find_data
trained=0
for method in "${methods[@]}"; do train "$method"; done
report
save
for method in "${methods[@]}"; do [ -f "$output/$method-seed$seed/summary.json" ] || exit 1; done
