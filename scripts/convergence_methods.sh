#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains ResNet-20 on CIFAR-10 as scripts/convergence.sh does, once with every method that is registered: dense, every
# sparsifier at densities 0.01 and 0.001 (after the density warm-up of DGC, with momentum correction), and every quantizer
# with the memory that it is defined with. Every step is logged.
# Prints the table of docs/results.md, and writes into OUTPUT, for each density, methods-DENSITY.html and .csv (all runs
# on one page, and their numbers) and methods-DENSITY.svg (all curves).
# A run that is there already is not repeated, and one that was interrupted goes on from its last checkpoint. A run that
# ends with an error (a gradient that is not finite) is not tried again; the table says so. Several of these scripts may
# work on one OUTPUT: each takes the next run that no other one is at. --print shows the commands of the runs that are not
# done yet, one a line, to be run from the root folder of the sources in any order.
# Ends with 1 if a run is missing or ended with an error.
# Usage: scripts/convergence_methods.sh [--print | --table] [OUTPUT]
#   OUTPUT: runs/convergence if not given; --table: the table and pages of what is there, without training
# Environment: SEED (1), METHODS (all), DENSITIES ("0.01 0.001"), and what scripts/convergence_common.sh says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/convergence_common.sh

action=$(action_of "${1:-}")
[ "$action" = train ] || shift
readonly action seed=${SEED:-1}
read -r -a densities <<<"${DENSITIES:-0.01 0.001}"
readonly densities
set_up "${1:-runs/convergence}"

# components KIND: the names that are registered.
components() { "$bin/dragonn-train" --list | sed -n "s/^$1 \([^:]*\):.*/\1/p"; }

is_wanted() { [[ -z ${METHODS:-} || " $METHODS " == *" $1 "* ]]; } # METHOD

# memory_of QUANTIZER: EF-SignSGD has its error feedback; QSGD is unbiased and has none.
memory_of() {
  case $1 in
    qsgd) echo none ;;
    *) echo residual ;;
  esac
}

# Every run: its name, and what makes its command. Parallel arrays; `arguments` is split into words.
names=() methods=() run_densities=() arguments=()
add_run() { # NAME METHOD DENSITY ARGUMENTS
  is_wanted "$2" || return 0
  names+=("$1") methods+=("$2") run_densities+=("$3") arguments+=("$4")
}
add_run dense dense "" "--set compression.method=dense"
for method in $(components quantizer); do
  add_run "$method" "$method" "" "--set logging.every_steps=1 --set compression.method=$method
    --set compression.memory=$(memory_of "$method")"
done
for density in "${densities[@]}"; do
  for method in $(components sparsifier); do
    add_run "$method-$density" "$method" "$density" "--set logging.every_steps=1 --set compression.method=$method
      --set compression.memory=momentum_correction --set compression.density=$density"
  done
done
[ ${#names[@]} -gt 0 ] || { echo "convergence_methods: METHODS=$METHODS: no such method" >&2; exit 2; }

# set_run INDEX: `command` and `folder` of a run.
set_run() {
  local words
  read -r -d '' -a words <<<"${arguments[$1]}" || true
  set_command "${names[$1]}" "$seed" "${words[@]}"
  folder=$(run_folder "${names[$1]}" "$seed")
}

# number INDEX COLUMN: of the table of runs that dragonn-compare wrote.
number() {
  csv_number "$output/methods-${run_densities[$1]:-${densities[0]}}.csv" "${names[$1]}-seed$seed" "$2"
}

# row INDEX: a line of the table.
row() {
  local error
  printf "| \`%s\` | %s | " "${methods[$1]}" "${run_densities[$1]:--}"
  set_run "$1"
  error=$(error_of "$folder")
  if [ -n "$error" ]; then
    printf 'stopped: %s | | | | |\n' "${error%%;*}"
  elif [ ! -f "$folder/summary.json" ]; then
    printf 'not run yet | | | | |\n'
  else
    echo "$(number "$1" final_accuracy),$(number "$1" selected_over_k),$(number "$1" bytes_per_step),$(
      number "$1" select_seconds),$(number "$1" select_share)" |
      awk -F, '{ printf "%.2f %% | %s | %.0f kB | %s | %s |\n", 100 * $1, $2 == "" ? "-" : sprintf("%.3f", $2),
        $3 / 1000, $4 == "" ? "-" : sprintf("%.1f", $4), $5 == "" ? "-" : sprintf("%.1f %%", 100 * $5) }'
  fi
}

# compare_runs DENSITY: the runs of one density, with dense and the quantizers, on one page.
compare_runs() {
  local folders=() i
  for i in "${!names[@]}"; do
    set_run "$i"
    [[ ${run_densities[$i]:-$1} != "$1" || ! -f $folder/metrics.jsonl ]] || folders+=("$folder")
  done
  [ ${#folders[@]} -eq 0 ] || "$bin/dragonn-compare" "${folders[@]}" --output "$output/methods-$1.html" \
    --csv "$output/methods-$1.csv" --svg "$output/methods-$1.svg" \
    --title "ResNet-20 on CIFAR-10 at density $1" >&2
}

if [ "$action" = print ]; then
  for i in "${!names[@]}"; do
    set_run "$i"
    is_over "$folder" || { printf '%q ' "${command[@]}"; echo; }
  done
  exit 0
fi
if [ "$action" = train ]; then
  for i in "${!names[@]}"; do
    set_run "$i"
    train_once "$folder"
  done
fi
for density in "${densities[@]}"; do compare_runs "$density"; done
{
  echo "| method | density | test accuracy | selected / k | sent by a worker per step | compensate and select, s | of a step |"
  echo "|---|---|---|---|---|---|---|"
  for i in "${!names[@]}"; do row "$i"; done
} >"$output/methods.md"
cat "$output/methods.md"
missing=0
for name in "${names[@]}"; do is_done "$name" "$seed" || missing=$((missing + 1)); done
[ "$missing" -eq 0 ] || { echo "convergence_methods: $missing of ${#names[@]} runs are not there" >&2; exit 1; }
