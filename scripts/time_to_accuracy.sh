#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Time to accuracy on a slow network: trains ResNet-20 and VGG-16 on CIFAR-10 on the hosts of scripts/netns_cluster.sh, a
# rank on each: dense, gtopk, oktopk, and DRAGONN's selection with the collectives allgather and oktopk. Needs root.
# Prints the table of docs/results.md, and writes into OUTPUT, for each model, MODEL.html, .csv and .svg.
# A run that is there already is not repeated, and one that was interrupted goes on from its last checkpoint. The times
# mean something only if nothing else runs on the machine.
# Ends with 1 if a run is missing or ended with an error.
# Usage: scripts/time_to_accuracy.sh [--print | --table] [OUTPUT]
#   OUTPUT: runs/time-to-accuracy if not given; --print: the commands of the runs that are not done yet, one a line, to be
#   run from the root folder of the sources; --table: the table and pages of what is there, without training
# Environment: HOSTS (4), RATE (100mbit), SEED (1), MODELS ("resnet20 vgg16"), METHODS (all that are named above, as
# "dense gtopk oktopk dragonn-allgather dragonn-oktopk"), DENSITY (0.01), and what scripts/convergence_common.sh says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/convergence_common.sh

action=$(action_of "${1:-}")
[ "$action" = train ] || shift
readonly action seed=${SEED:-1} hosts=${HOSTS:-4} rate=${RATE:-100mbit}
read -r -a models <<<"${MODELS:-resnet20 vgg16}"
read -r -a methods <<<"${METHODS:-dense gtopk oktopk dragonn-allgather dragonn-oktopk}"
readonly models methods
set_up "${1:-runs/time-to-accuracy}"
launcher=(scripts/netns_cluster.sh run "$hosts" "$rate" --) workers=()

# method_settings METHOD: what makes a run, beside the config of its model. The methods of gTop-k and Ok-Topk exchange the
# whole model at once, as their papers do.
method_settings() {
  case $1 in
    dense) echo compression.method=dense ;;
    gtopk | oktopk) echo "compression.method=$1 compression.bucket=model" ;;
    dragonn-allgather) echo compression.method=dragonn ;;
    dragonn-oktopk) echo compression.method=dragonn compression.collective=oktopk ;;
    *) echo "time_to_accuracy: METHODS: no '$1'" >&2; return 2 ;;
  esac
}

# set_run MODEL METHOD: `command`, `name` and `folder` of a run.
set_run() {
  local setting settings arguments=()
  name=$1-$2
  config=configs/cifar10_$1.toml
  [ -f "$config" ] || { echo "time_to_accuracy: MODELS: no $config" >&2; exit 2; }
  settings=$(method_settings "$2")
  for setting in $settings; do arguments+=(--set "$setting"); done
  [ "$2" = dense ] || arguments+=(--set "compression.density=${DENSITY:-0.01}")
  case $2 in dragonn-*) arguments+=(--set compression.dragonn.memory=8) ;; esac
  set_command "$name" "$seed" "${arguments[@]}" --set checkpoint.every_epochs=1
  folder=$(run_folder "$name" "$seed")
}

# compare_runs MODEL: its runs on one page.
compare_runs() {
  local folders=() method
  for method in "${methods[@]}"; do
    set_run "$1" "$method"
    [ ! -f "$folder/metrics.jsonl" ] || folders+=("$folder")
  done
  [ ${#folders[@]} -eq 0 ] || "$bin/dragonn-compare" "${folders[@]}" --output "$output/$1.html" --csv "$output/$1.csv" \
    --svg "$output/$1.svg" --title "$1 on CIFAR-10, $hosts hosts at $rate" >&2
}

# row MODEL METHOD: a line of the table.
row() {
  local error column
  set_run "$@"
  printf '| `%s` | `%s` | ' "$1" "$2"
  error=$(error_of "$folder")
  if [ -n "$error" ]; then
    printf 'stopped: %s | | | | |\n' "${error%%;*}"
  elif [ ! -f "$folder/summary.json" ]; then
    printf 'not run yet | | | | |\n'
  else
    for column in final_accuracy target_accuracy seconds_to_target time_to_target_speedup_over_dense seconds bytes_per_step; do
      csv_number "$output/$1.csv" "$name-seed$seed" "$column"
    done | paste -sd, | awk -F, '
      function or_dash(value, format) { return value == "" ? "-" : sprintf(format, value) }
      { printf "%.2f %% | %s | %s | %s | %.0f kB |\n", 100 * $1,
          $3 == "" ? sprintf("not at %.2f %%", 100 * $2) : sprintf("%.0f s to %.2f %%", $3, 100 * $2),
          or_dash($4, "%.2f"), or_dash($5, "%.0f s"), $6 / 1000 }'
  fi
}

missing=0
for model in "${models[@]}"; do
  for method in "${methods[@]}"; do
    set_run "$model" "$method"
    case $action in
      print) is_over "$folder" || { printf '%q ' "${command[@]}"; echo; } ;;
      train) train_once "$folder" ;;
    esac
    is_done "$name" "$seed" || missing=$((missing + 1))
  done
done
[ "$action" != print ] || exit 0
for model in "${models[@]}"; do compare_runs "$model"; done
{
  echo "| model | method | test accuracy | time to 95 % of dense's | dense's time over it | whole run | sent by a host per step |"
  echo "|---|---|---|---|---|---|---|"
  for model in "${models[@]}"; do
    for method in "${methods[@]}"; do row "$model" "$method"; done
  done
} >"$output/time_to_accuracy.md"
cat "$output/time_to_accuracy.md"
[ "$missing" -eq 0 ] || { echo "time_to_accuracy: $missing of $((${#models[@]} * ${#methods[@]})) runs are not there" >&2; exit 1; }
