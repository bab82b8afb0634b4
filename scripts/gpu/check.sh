#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs in the folder that scripts/gpu/bundle.sh makes, on a machine with an NVIDIA GPU. Its stages, most important first:
#   smoke      the driver and missing libraries; the GPU's test cases of kernels and comm; selections of 2^28 floats beside
#              copies and CUB's; training steps of resnet20 and resnet50 in tf32 and bf16, with CUDA graphs and without
#   profile    where the time of the selection's sweep and of a training step goes: by ncu, nsys and dragonn's own timers
#   pytorch    the same selections and training steps in PyTorch, eager and compiled, row by row for the time that is left
#   rest       all other tests, sums of sparse lists, codes, training steps, and short trainings by workers that share the GPU
#   memcheck   compute-sanitizer's memcheck and racecheck over the kernels' tests; only when asked for
# Every part of a stage has a time limit, and all together have one; a part that cannot run says why and the others go on.
# Writes into RESULTS, after each part anew: table.txt, results.json (the rows of all parts), logs.tar.gz, and report.html.
# A later call continues: it keeps the rows that RESULTS/logs.tar.gz has, and PyTorch's stage needs those of smoke or rest.
# Ends with 1 if a part failed.
# Usage: check.sh [OPTION...] [RESULTS]     RESULTS: results in the working directory if not given
#   --only STAGE,...       these stages, in the order above; if not given, all for which the bundle was made but memcheck
#   --seconds N            for all together, 540 if not given
#   --from LOGS.tar.gz     RESULTS/logs.tar.gz of an earlier call, if RESULTS does not have it
#   --precisions LIST      of PyTorch's training steps: of float32,tf32,bf16; if not given those that were measured here
#   --variants LIST        of PyTorch's training steps (pytorch_rows.py step --help); if not given all
#   --small, --cpu         small sizes, to try the script itself; the same on the CPU
#   --patience N           every time limit of a part N times as long, for machines that are slow or busy
set -uo pipefail
# shellcheck source=scripts/gpu/bundle_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/bundle_common.sh"
readonly known=(smoke profile pytorch rest memcheck) workers=4
readonly methods=(dense topk dragonn dgc sidco_e randomk)
only='' precisions='' variants='' patience=1 # options
device=cuda numel=268435456 decode_numel=16777216 rounds=9 steps=100 samples=32 cases='gpu: *'
maths=(tf32 bf16 float32) first_maths=(tf32 bf16) # of smoke
readonly resnet50="resnet50 --batch 64 --set stem=imagenet --sample 224x224x3 --classes 1000"
models=("resnet20 --batch 128" "$resnet50" "vgg16 --batch 128" "lstm_lm --batch 20 --set hidden=1500"
  "bert --batch 32 --sample 512 --classes 30522 --set layers=12 --set hidden=768 --set heads=12"
  "gpt2 --batch 8 --sample 1024 --classes 50257")
first_models=(resnet20 resnet50) step_options=() profiled_step="$resnet50 --device-math bf16"

make_small() {
  numel=131072 decode_numel=131072 rounds=3 steps=4 samples=4
  models=("resnet20 --batch 8" "lstm_lm --batch 4 --set hidden=100") first_models=(resnet20) step_options=(--product-side 256)
  profiled_step="resnet20 --batch 8"
}

arguments=()
for argument in "$@"; do
  case $argument in
    --small) make_small ;;
    # A build without CUDA has no case of a GPU's: a few others stand for them.
    --cpu) make_small && device=cpu cases='*empty*' maths=(float32) first_maths=(float32) ;;
    *) arguments+=("$argument") ;;
  esac
done
take_options "only seconds from precisions variants patience" "${arguments[@]}"
IFS=, read -r -a stages <<<"$only"
for name in "${stages[@]}"; do [[ " ${known[*]} " == *" $name "* ]] || die "--only $name: valid are ${known[*]}"; done
[[ $patience =~ ^[1-9][0-9]*$ ]] || die "--patience $patience: expected a number"
readonly seconds_in_all=$seconds
unpack_bundle
mkdir -p logs rows
[ ${#stages[@]} -gt 0 ] || mapfile -t stages < <(grep -v memcheck stages.txt)
: >"$results/table.txt"
failed=0 gpu=''

say() { echo "$*" | tee -a "$results/table.txt"; }

# wants STAGE: whether it is to run.
wants() { [[ " ${stages[*]} " == *" $1 "* ]]; }

# has FILE: whether it is in this bundle; says so if it is not.
has() { [ -e "$1" ] || { say "$(basename "$1"): not in this bundle ($(paste -sd ' ' stages.txt))" && return 1; }; }

# pack: what there is so far, in few files: some machines give back no more.
pack() {
  local file separator=''
  {
    printf '{"commit": "%s", "date": "%s", "device": "%s", "parts": {' "$(cat commit.txt)" "$(date -u +%Y-%m-%d)" "$gpu"
    for file in rows/*.json; do
      [ -s "$file" ] || continue
      printf '%s\n"%s": %s' "$separator" "$(basename "$file" .json)" "$(cat "$file")"
      separator=,
    done
    printf '}}\n'
  } >results.json && mv results.json "$results/results.json"
  tar -czf logs.tar.gz logs rows && mv logs.tar.gz "$results/logs.tar.gz"
}

# error_of LOG: the line that names the error, or else the last one.
error_of() {
  grep -a -m 1 -E ' E |^(dragonn-[a-z]+|pytorch_rows|skipped): | ERROR: ' "$1" || tail -n 1 "$1"
}

# limited NAME LIMIT COMMAND...: output goes to logs/NAME.log, the status and seconds to logs/NAME.status.
limited() {
  local name=$1 limit=$(($2 * patience)) left=$((seconds_in_all - SECONDS)) begin=$SECONDS status=0
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    status=unused
  else
    timeout --kill-after=5 "$limit" "$@" >"logs/$name.log" 2>&1 </dev/null || status=$?
  fi
  echo "$status $((SECONDS - begin))" >"logs/$name.status"
}

# report NAME: says how it ended; returns its status. A part that is skipped (77) has not failed.
report() {
  local name=$1 status spent
  read -r status spent <"logs/$name.status" && rm "logs/$name.status"
  [[ $status =~ ^(0|77)$ ]] || failed=$((failed + 1))
  case $status in
    0) say "$name: done in $spent s" ;;
    77) say "$name: skipped: $(error_of "logs/$name.log" | sed 's/^skipped: //')" ;;
    124 | 137) say "$name: stopped at its limit, after $spent s" ;;
    unused) say "$name: not run, the time is used up" && return 1 ;;
    *) say "$name: failed ($status): $(error_of "logs/$name.log")" ;;
  esac
  pack
  return "$status"
}

# part NAME LIMIT COMMAND...
part() { limited "$@" && report "$1"; }

# run_tests NAME...: the GPU's cases of these test programs, which run beside each other.
run_tests() {
  local name
  for name in "$@"; do [ ! -e "bin/$name" ] || limited "$name" 150 "bin/$name" "--test-case=$cases" & done
  wait
  for name in "$@"; do
    has "bin/$name" || continue
    report "$name"
    say "  $(grep -a 'test cases:' "logs/$name.log" | tail -n 1 | cut -d '|' -f 2,3), of these skipped: $(
      grep -a -c 'MESSAGE: .*skipped: ' "logs/$name.log")"
  done
}

# bench NAME LIMIT SUBCOMMAND OPTION...: its rows go to rows/NAME.json, its table to RESULTS/table.txt.
bench() {
  part "bench_$1" "$2" bin/dragonn-bench "$3" --device $device --json "rows/$1.json" "${@:4}" &&
    cat "logs/bench_$1.log" >>"$results/table.txt"
}

# run_steps yes|no: the training steps that smoke measures first, or those that are left for rest.
run_steps() {
  local precision model first
  for model in "${models[@]}"; do
    for precision in "${maths[@]}"; do
      first=no
      [[ " ${first_models[*]} " != *" ${model%% *} "* || " ${first_maths[*]} " != *" $precision "* ]] || first=yes
      # shellcheck disable=SC2086 # words
      [ "$first" != "$1" ] || bench "step_${model%% *}_$precision" 60 step --model $model --device-math "$precision" \
        --graphs both --rounds $rounds "${step_options[@]}"
    done
  done
}

run_smoke() {
  run_tests test_kernels test_comm
  has bin/dragonn-bench || return
  bench compress 120 compress --numel $numel --density 0.001 --sparsifier all --kernel all --rounds $rounds
  run_steps yes
}

# The profilers count, and do not time, several passes over 1 GiB: a few kernels of the sweep, and one training step.
run_profile() {
  has bin/dragonn-bench || return
  local sweep=(bin/dragonn-bench compress --device "$device" --numel "$numel" --density 0.001 --rounds 1 --threads 1) method
  # shellcheck disable=SC2206 # words
  local one_step=(bin/dragonn-bench step --device "$device" --graphs off --rounds 1 --model $profiled_step)
  if command -v ncu >/dev/null; then
    part ncu_select 120 ncu --clock-control none --set full --kernel-name 'regex:select_kernel|sweep_kernel' \
      --launch-skip 1 --launch-count 2 "${sweep[@]}" --kernel select_threshold
    part ncu_dragonn 120 ncu --clock-control none --set full --kernel-name 'regex:select|sweep|digit|sample|compact' \
      --launch-skip 8 --launch-count 8 "${sweep[@]}" --sparsifier dragonn
    part ncu_step 120 ncu --clock-control none --nvtx --nvtx-include 'timed step/' --launch-count 1200 --csv \
      --metrics gpu__time_duration.sum,dram__bytes.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed "${one_step[@]}"
  else
    say "ncu: not on this machine"
  fi
  if command -v nsys >/dev/null; then
    part nsys_step 90 nsys profile --trace=cuda,nvtx --output=step --force-overwrite=true --stats=true "${one_step[@]}"
  fi
  has bin/dragonn-train || return
  # Where the time of a run's step goes: its seconds by part, the last of which are steady.
  for method in dense dragonn; do
    trained "timers_$method" 1 "compression.method=$method" compression.bucket=model logging.every_steps=1 || continue
    say "  a step of resnet20, batch $samples, bucket = model: $(
      grep -a -o '"seconds":{[^}]*}' "runs/timers_$method/metrics.jsonl" | tail -n 1)"
  done
}

# pytorch NAME LIMIT OPTION...: rows of scripts/gpu/pytorch_rows.py. Those that it wrote before it was stopped count.
pytorch() {
  part "$1" "$2" env "LD_LIBRARY_PATH=$machine_library_path" python3 python/pytorch_rows.py "${@:3}" --json "rows/$1.json"
  cat "logs/$1.log" >>"$results/table.txt"
}

run_pytorch() {
  local limit=$((seconds_in_all - SECONDS - 5)) options
  has python/pytorch_rows.py || return
  if ! command -v python3 >/dev/null; then say "pytorch: skipped: python3 is not on this machine" && return; fi
  if [ -s rows/compress.json ]; then pytorch pytorch_select 60 select --rows rows/compress.json --rounds $rounds; fi
  if ! compgen -G 'rows/step_*.json' >/dev/null; then say "pytorch: no training steps to compare with" && return; fi
  ! wants rest || limit=$((limit / 2))
  # shellcheck disable=SC2206 # words
  options=(${variants:+--variants ${variants//,/ }} ${precisions:+--precisions ${precisions//,/ }})
  pytorch pytorch_step "$limit" step --rows rows/step_*.json --rounds $rounds --seconds $((limit > 80 ? limit - 60 : limit / 2)) \
    "${options[@]}"
}

run_rest() {
  run_tests test_layers test_trainer test_exchange test_compress test_optim
  if has bin/dragonn-bench; then
    bench decode 60 decode --numel $decode_numel --rounds $rounds
    bench quantize 60 quantize --numel $numel --rounds $rounds
    run_steps no
  fi
  ! has bin/dragonn-train || run_trainings
}

# trained NAME WORKERS SETTING...: a short training, by workers on one GPU: processes where MPI is there, else threads of one.
trained() {
  local name=$1 count=$2 launcher=() settings
  settings=("device=$device" model.name=resnet20 data.name=synthetic_images train.epochs=100 "train.max_steps=$steps"
    "train.batch_size=$samples" train.eval_every_epochs=0 optimizer.name=sgd optimizer.learning_rate=0.1 optimizer.momentum=0.9
    compression.density=0.01 checkpoint.every_epochs=0 "${@:3}")
  local command=(bin/dragonn-train check.toml --output "runs/${name#train_}" "${settings[@]/#/--set=}")
  : >check.toml
  if [ "$count" -gt 1 ] && [ -x mpi/bin/mpirun ]; then launcher=(mpirun -np "$count"); else command+=(--workers "$count"); fi
  part "$name" 60 "${launcher[@]}" "${command[@]}"
}

train() { # METHOD
  local method=$1 data=(data.name=cifar10 data.path=data/cifar10)
  [ -f data/cifar10/data_batch_1.bin ] || data=(data.train_samples=2000 data.test_samples=500)
  trained "train_$method" $workers "${data[@]}" "compression.method=$method" || return
  cp "runs/$method/summary.json" "rows/train_$method.json"
  say "  $(sed -n 's/^ *"\(throughput_samples_per_second\|accuracy\|bytes_sent_total\|device\)": */\1 /p' \
    "runs/$method/summary.json" | sort -u | paste -sd ' ')"
}

run_trainings() {
  local method runs
  use_bundled_mpi || say "mpirun is not in the bundle: workers are threads"
  for method in "${methods[@]}"; do train "$method"; done
  runs=$(for method in "${methods[@]}"; do [ ! -d "runs/$method" ] || echo "runs/$method"; done)
  # shellcheck disable=SC2086 # words
  [ -z "$runs" ] || part compare 20 bin/dragonn-compare $runs --output "$results/report.html" --csv train.csv
  [ ! -s train.csv ] || cat train.csv >>"$results/table.txt"
}

# Cases that provoke errors of the API check for them themselves. A run that was stopped has no summary.
run_memcheck() {
  local tool
  has bin/test_kernels || return
  if ! command -v compute-sanitizer >/dev/null; then say "compute-sanitizer: not on this machine" && return; fi
  for tool in memcheck racecheck; do
    part "sanitizer_$tool" 240 compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 50 \
      --report-api-errors no bin/test_kernels "--test-case=$cases"
    say "  $(grep -a 'SUMMARY:' "logs/sanitizer_$tool.log" | tail -n 1 | grep . || echo "no summary; reported so far: $(
      grep -a -c -E '^=+ (Invalid|Error|Warning|Race|Misaligned|Program hit)' "logs/sanitizer_$tool.log")")"
  done
}

restore logs.tar.gz .
find_cuda_libraries >libraries.txt
[ ! -s libraries.txt ] || say "$(cat libraries.txt)"
command -v nvidia-smi >/dev/null || say "nvidia-smi: not on this machine"
query=name,driver_version,memory.total,memory.free,clocks.max.sm,clocks.max.memory
gpu=$(nvidia-smi --query-gpu=$query --format=csv,noheader 2>/dev/null | head -n 1)
say "commit $(cat commit.txt), $(date -u +%Y-%m-%d), ${gpu:-no GPU} ($query)"
say "$(read_ahead)"
for name in "${known[@]}"; do
  wants "$name" || continue
  say "== $name"
  "run_$name"
done
say "$failed parts failed, $SECONDS s"
pack
[ "$failed" -eq 0 ]
