#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains the small twins of the papers' experiments (configs/papers/*/*_small.toml), each dense, and with its own method at
# densities 0.01 and 0.001. Prints a table, and writes it to OUTPUT/twins.md: the quality at the end of each run, and
# whether the sparsified ones end near the dense one: within 1 point at 0.01 and 2 points at 0.001 (accuracy, precision at
# 1, character error rate), or within 5 % (perplexity).
# A run that is there already is not repeated, and one that was interrupted goes on from its last checkpoint. A run that
# ends with an error (a gradient that is not finite) is not tried again; the table says so. Several of these scripts may
# work on one OUTPUT: each takes the next run that no other one is at. --print shows the commands of the runs that are not
# done yet, one a line.
# Ends with 1 if a run is missing or ended with an error; not if a twin ends too far from dense: that is a result.
# Usage: scripts/paper_twins.sh [--print | --table] [OUTPUT [TWIN...]]
#   OUTPUT: runs/paper_twins if not given; TWIN: PAPER/NAME without _small, all if not given; --table: no training
# Environment: DRAGONN_DATA (folder with cifar10, an4 and text/wikitext-2), DRAGONN_BIN (build/release/bin), OVERRIDES
# (none; "KEY=VALUE ..." for every run: smaller tries).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/convergence_common.sh
prepare_data() { :; } # all data sets are taken where they are

action=$(action_of "${1:-}")
[ "$action" = train ] || shift
readonly action
set_up "${1:-runs/paper_twins}"
[ $# -eq 0 ] || shift
readonly variants=(dense 0.01 0.001)

twins=("$@")
if [ $# -eq 0 ]; then
  for file in configs/papers/*/*_small.toml; do
    file=${file#configs/papers/} twins+=("${file%_small.toml}")
  done
fi
for twin in "${twins[@]}"; do
  [ -f "configs/papers/${twin}_small.toml" ] ||
    { echo "paper_twins: $twin: no file configs/papers/${twin}_small.toml" >&2; exit 2; }
done

folder_of() { echo "$output/${1//\//-}-$2"; } # TWIN VARIANT

# data_of CONFIG: the folder of its data; empty for generated data.
data_of() {
  case $(sed -n '/^\[data\]/,/^\[train\]/s/^name = "\(.*\)"$/\1/p' "$1") in
    cifar10) echo "$DRAGONN_DATA/cifar10" ;;
    an4) echo "$DRAGONN_DATA/an4" ;;
    wikitext2 | masked_text) echo "$DRAGONN_DATA/text/wikitext-2" ;;
  esac
}

# set_twin TWIN VARIANT: the run's command, in the array `command`.
set_twin() {
  local file=configs/papers/${1}_small.toml data override
  data=$(data_of "$file")
  command=("$bin/dragonn-train" "$file" --output "$(folder_of "$1" "$2")" --resume auto)
  [ -z "$data" ] || command+=(--set "data.path=$data")
  if [ "$2" = dense ]; then
    command+=(--set compression.method=dense)
  else
    command+=(--set "compression.density=$2")
  fi
  for override in ${OVERRIDES:-}; do command+=(--set "$override"); done
}

method_of() { sed -n 's/^method = "\(.*\)"$/\1/p' "configs/papers/${1}_small.toml"; } # TWIN

# quality FOLDER: "name value" of the quality at the end, shares in percent; empty if the run is not done.
quality() {
  local name value
  [ -f "$1/summary.json" ] || return 0
  for name in perplexity character_error_rate precision_at_1 accuracy; do
    value=$(tr -d ' \n' <"$1/summary.json" | sed -n "s/.*\"final\":{\"test\":{[^}]*\"$name\":\([0-9.e+-]*\).*/\1/p")
    [ -n "$value" ] || continue
    awk -v name="$name" -v value="$value" 'BEGIN { printf "%s %.2f\n", name, name == "perplexity" ? value : 100 * value }'
    return 0
  done
}

# cell FOLDER: what the table says of a run.
cell() {
  local error
  error=$(error_of "$1")
  if [ -n "$error" ]; then
    echo "stopped: ${error%%;*}"
  elif [ -f "$1/summary.json" ]; then
    quality "$1" | cut -d' ' -f2
  else
    echo "not run yet"
  fi
}

# verdict TWIN: "yes", or the densities at which the twin does not end near dense, or is not known to.
verdict() {
  local density dense verdict=
  dense=$(quality "$(folder_of "$1" dense)")
  for density in 0.01 0.001; do
    verdict+=$(echo "$dense" "$(quality "$(folder_of "$1" "$density")")" | awk -v density="$density" '
      NF != 4 { printf "unknown at %s; ", density; next }
      { worse = $1 == "perplexity" || $1 == "character_error_rate" ? $4 - $2 : $2 - $4
        room = $1 == "perplexity" ? 0.05 * $2 : density == "0.01" ? 1 : 2
        if (worse > room) printf "not at %s: %.2f worse; ", density, worse }')
  done
  verdict=${verdict%; }
  echo "${verdict:-yes}"
}

# row TWIN: a line of the table.
row() {
  local variant name
  name=$(quality "$(folder_of "$1" dense)" | cut -d' ' -f1)
  printf '| `%s` | `%s` | %s |' "$1" "$(method_of "$1")" "${name:--}"
  for variant in "${variants[@]}"; do printf ' %s |' "$(cell "$(folder_of "$1" "$variant")")"; done
  printf ' %s |\n' "$(verdict "$1")"
}

missing=0
for twin in "${twins[@]}"; do
  for variant in "${variants[@]}"; do
    folder=$(folder_of "$twin" "$variant")
    set_twin "$twin" "$variant"
    if [ "$action" = print ]; then
      is_over "$folder" || { printf '%q ' "${command[@]}"; echo; }
      continue
    fi
    [ "$action" = table ] || train_once "$folder"
    [ -f "$folder/summary.json" ] || missing=$((missing + 1))
  done
done
[ "$action" != print ] || exit 0
{
  echo "| twin | method | quality | dense | 0.01 | 0.001 | near dense |"
  echo "|---|---|---|---|---|---|---|"
  for twin in "${twins[@]}"; do row "$twin"; done
} >"$output/twins.md"
cat "$output/twins.md"
[ "$missing" -eq 0 ] || { echo "paper_twins: $missing of $((3 * ${#twins[@]})) runs are not there" >&2; exit 1; }
