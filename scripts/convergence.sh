#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains ResNet-20 on CIFAR-10 (10,000 training images, the full test set of 10,000) with 4 local workers x batch 32 for 30
# epochs: dense, and topk, dgc and dragonn at density 0.01 after the density warm-up of DGC (0.25, 0.0625, 0.0156 in the
# first three epochs). Each method runs with both memories on the first seed; the better one goes on with the other seeds.
# Prints the table of docs/results.md (test accuracy after the last epoch, mean and range over the seeds), writes
# OUTPUT/report.html, and with --check fails where a method misses its mark: dense at least 65 %, every method within 2
# points of dense.
# A run that is there already is not repeated, and one that was interrupted goes on from its last checkpoint.
# Usage: scripts/convergence.sh [--check] [OUTPUT]      OUTPUT: runs/convergence if not given
# Environment: SEEDS ("1 2 3"), and what scripts/convergence_common.sh says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/convergence_common.sh

check=false
[ "${1:-}" != --check ] || { check=true; shift; }
readonly check
read -r -a seeds <<<"${SEEDS:-1 2 3}"
readonly seeds
readonly methods=(topk dgc dragonn) memories=(residual momentum_correction)

set_up "${1:-runs/convergence}"

# run NAME SEED [--set KEY=VALUE...]
run() {
  ! is_done "$1" "$2" || return 0
  set_command "$@"
  "${command[@]}"
}

run_method() { # METHOD MEMORY SEED
  run "$1-$2" "$3" --set "compression.method=$1" --set "compression.memory=$2" --set compression.density=0.01
}

# accuracy NAME-seedN: in percent, after the last epoch.
accuracy() {
  tr -d ' \n' <"$output/$1/summary.json" | sed -n 's/.*"final":{"test":{[^}]*"accuracy":\([0-9.e-]*\).*/\1/p' |
    awk '{ printf "%.2f\n", 100 * $1 }'
}

# row LABEL NAME: a line of the table, from the accuracies of all seeds.
row() {
  local seed
  for seed in "${seeds[@]}"; do accuracy "$2-seed$seed"; done |
    awk -v label="$1" 'NR == 1 { low = high = $1 } { sum += $1; if ($1 < low) low = $1; if ($1 > high) high = $1; all = all " " $1 }
      END { printf "| %s | %.2f | %.2f to %.2f |%s |\n", label, sum / NR, low, high, all }'
}

mean() { row x "$1" | awk -F'|' '{ print $3 + 0 }'; }

names=(dense)
for seed in "${seeds[@]}"; do run dense "$seed" --set compression.method=dense; done
for method in "${methods[@]}"; do
  for memory in "${memories[@]}"; do run_method "$method" "$memory" "${seeds[0]}"; done
  better=$(for memory in "${memories[@]}"; do
    echo "$(accuracy "$method-$memory-seed${seeds[0]}") $memory"
  done | sort -rn | head -1 | cut -d' ' -f2)
  for seed in "${seeds[@]:1}"; do run_method "$method" "$better" "$seed"; done
  names+=("$method-$better")
done

table=$output/table.md
{
  echo "| method | mean test accuracy, % | range | by seed (${seeds[*]}) |"
  echo "|---|---|---|---|"
  row dense dense
  for name in "${names[@]:1}"; do row "${name/-/, }" "$name"; done
} >"$table"
for method in "${methods[@]}"; do
  for memory in "${memories[@]}"; do
    [[ " ${names[*]} " == *" $method-$memory "* ]] ||
      echo "Not chosen: $method with $memory, $(accuracy "$method-$memory-seed${seeds[0]}") % at seed ${seeds[0]}."
  done
done >>"$table"
cat "$table"

folders=()
for name in "${names[@]}"; do
  for seed in "${seeds[@]}"; do folders+=("$output/$name-seed$seed"); done
done
"$bin/dragonn-compare" "${folders[@]}" --output "$output/report.html" --csv "$output/report.csv"

$check || exit 0
failures=0
dense=$(mean dense)
awk -v a="$dense" 'BEGIN { exit !(a >= 65) }' || { echo "convergence: dense reached $dense %, not 65 %" >&2; failures=1; }
for name in "${names[@]:1}"; do
  awk -v a="$(mean "$name")" -v b="$dense" 'BEGIN { exit !(a >= b - 2) }' ||
    { echo "convergence: $name is more than 2 points below dense" >&2; failures=1; }
done
exit "$failures"
