#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains with several methods and seeds, and prints two tables: all methods at one density, and all at the density at which
# they send as many bytes as topk does at that density. Both have the mean and the range over the seeds.
# The density for equal bytes is found by `dragonn-train --dry-run`; the table shows what was sent. Warm-ups are scaled by the
# same factor (DGC's: 0.25, 0.0625, ... by epoch). So a method that sends less for an entry also begins with more entries.
# TASK=resnet20: CIFAR-10 as scripts/convergence.sh trains it, with momentum correction and DGC's warm-up for all methods.
# TASK=words: configs/wikitext2_lstm_small.toml without a warm-up; dgc clips locally, to the norm over the square root of the
# number of workers, as its paper does for recurrent models, and all others clip the mean gradient.
# Runs are shared with scripts/convergence_methods.sh, not repeated, and continued if they were interrupted. Several of these
# scripts may work on one OUTPUT. --print shows the commands of the runs that are not done yet, one a line.
# Ends with 1 if a run is missing or ended with an error.
# Usage: scripts/convergence_bytes.sh [--print | --table] [OUTPUT]
#   OUTPUT: runs/convergence if not given (runs/words with TASK=words); --table: the tables of what is there, without training
# Environment: SEEDS ("1 2 3"), METHODS ("dense topk dgc dragonn gtopk oktopk sidco_e"), DENSITIES ("0.01 0.001"), TASK
# (resnet20), ROWS (none; a CSV file of finished runs with the same settings: they are not repeated, and new ones are
# added), and what scripts/convergence_common.sh says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/convergence_common.sh

action=$(action_of "${1:-}")
[ "$action" = train ] || shift
readonly action task=${TASK:-resnet20}
read -r -a seeds <<<"${SEEDS:-1 2 3}"
read -r -a methods <<<"${METHODS:-dense topk dgc dragonn gtopk oktopk sidco_e}"
read -r -a densities <<<"${DENSITIES:-0.01 0.001}"
readonly seeds methods densities
common=() warm_up=(0.25 0.0625 0.015625 0.00390625) quality=accuracy folder=runs/convergence
case $task in
  resnet20) common=(logging.every_steps=1 compression.memory=momentum_correction) ;;
  words)
    config=configs/wikitext2_lstm_small.toml warm_up=() quality=perplexity folder=runs/words
    EPOCHS=${EPOCHS:-6}
    common=(logging.every_steps=1 "data.path=${DRAGONN_DATA:-}/text/wikitext-2" train.eval_every_epochs=1)
    prepare_data() { :; }  # the text is used where it is
    ;;
  *) echo "convergence_bytes: TASK=$task: expected resnet20 or words" >&2; exit 2 ;;
esac
set_up "${1:-$folder}"

# bytes_of METHOD DENSITY: that a worker sends in a step, predicted.
bytes_of() {
  local setting arguments=()
  for setting in "${common[@]}" "compression.method=$1" "compression.density=$2" compression.density_schedule=constant; do
    arguments+=(--set "$setting")
  done
  [ "$task" = words ] || arguments+=(--set "data.path=$output/data")
  "$bin/dragonn-train" "$config" --dry-run "${workers[@]}" "${arguments[@]}" |
    sed -n 's/.* sent per worker and step (\([0-9]*\) bytes.*/\1/p'
}

# equal_density METHOD DENSITY: at which METHOD sends as many bytes as topk at DENSITY, by bisection in logarithms.
equal_density() {
  local wanted low high middle sent i
  wanted=$(bytes_of topk "$2")
  low=$(awk -v d="$2" 'BEGIN { print d / 100 }') high=1
  for i in $(seq 14); do
    middle=$(awk -v a="$low" -v b="$high" 'BEGIN { printf "%.6g\n", sqrt(a * b) }')
    sent=$(bytes_of "$1" "$middle")
    if [ "$sent" -gt "$wanted" ]; then high=$middle; else low=$middle; fi
  done
  awk -v d="$low" 'BEGIN { printf "%.4g\n", d }'
}

# warm_up_list DENSITY FACTOR: FACTOR times the densities of the epochs before the schedule is at DENSITY, as TOML.
warm_up_list() {
  printf '%s\n' "${warm_up[@]}" |
    awk -v density="$1" -v f="$2" 'BEGIN { printf "[" }
      $1 > density { d = $1 * f; printf "%s%.6g", (NR > 1 ? "," : ""), (d > 1 ? 1 : d) }
      END { print "]" }'
}

# Every run: its name, and what makes its command. `settings` is split into words; settings have no blanks.
declare -A settings=() density_of=()
names=()
add_run() { # NAME DENSITY SETTING...
  [ -z "${settings[$1]:-}" ] || return 0
  names+=("$1") density_of[$1]=$2 settings[$1]="${*:3}"
}
dense=(compression.method=dense) # with CIFAR-10 the run of the other scripts
[ "$task" != words ] || dense=("${common[@]}" "${dense[@]}")
add_run dense "" "${dense[@]}"
declare -A name_at=() # "equal METHOD DENSITY": the run of a row, equal being density or bytes
for density in "${densities[@]}"; do
  for method in "${methods[@]}"; do
    [ "$method" != dense ] || continue
    own=("${common[@]}" "compression.method=$method")
    [ "$task $method" != "words dgc" ] || own+=(train.clip=local_sqrt_workers)
    add_run "$method-$density" "$density" "${own[@]}" "compression.density=$density"
    name_at["density $method $density"]=$method-$density
    name_at["bytes $method $density"]=$method-$density
    [ "$method" != topk ] && [ "$(bytes_of "$method" "$density")" != "$(bytes_of topk "$density")" ] || continue
    equal=$(equal_density "$method" "$density")
    factor=$(awk -v a="$equal" -v b="$density" 'BEGIN { print a / b }')
    own+=("compression.density=$equal")
    [ ${#warm_up[@]} -eq 0 ] || own+=(compression.density_schedule=list "compression.list.densities=$(warm_up_list "$density" "$factor")")
    add_run "$method-bytes-of-topk-$density" "$equal" "${own[@]}"
    name_at["bytes $method $density"]=$method-bytes-of-topk-$density
  done
done

# set_run NAME SEED: `command` and `folder` of a run.
set_run() {
  local setting arguments=()
  for setting in ${settings[$1]}; do arguments+=(--set "$setting"); done
  set_command "$1" "$2" "${arguments[@]}"
  folder=$(run_folder "$1" "$2")
}

# kept_row NAME SEED: quality and bytes per step of a run in ROWS; nothing if it is not there.
kept_row() {
  [ -z "${ROWS:-}" ] || [ ! -f "$ROWS" ] ||
    awk -F, -v task="$task" -v run="$1" -v seed="$2" '$1 == task && $2 == run && $3 == seed { print $4, $5; exit }' "$ROWS"
}

# final FOLDER: accuracy in percent, or perplexity, after the last epoch.
final() {
  tr -d ' \n' <"$1/summary.json" | sed -n "s/.*\"final\":{\"test\":{[^}]*\"$quality\":\([0-9.e+-]*\).*/\1/p" |
    awk -v q="$quality" '{ printf "%.2f\n", q == "accuracy" ? 100 * $1 : $1 }'
}

# result NAME SEED: quality and bytes per step of a finished run.
result() {
  if [ -n "$(kept_row "$1" "$2")" ]; then
    kept_row "$1" "$2"
  elif is_done "$1" "$2"; then
    echo "$(final "$(run_folder "$1" "$2")")" "$(csv_number "$output/bytes.csv" "$1-seed$2" bytes_per_step)"
  fi
}

# row NAME METHOD: a line of a table.
row() {
  local seed quality_and_bytes values=() sent=()
  for seed in "${seeds[@]}"; do
    set_run "$1" "$seed"
    read -r -a quality_and_bytes <<<"$(result "$1" "$seed")"
    if [ ${#quality_and_bytes[@]} -gt 0 ]; then
      values+=("${quality_and_bytes[0]}")
      sent+=("${quality_and_bytes[1]}")
    elif [ -n "$(error_of "$folder")" ]; then
      values+=(stopped)
    else
      values+=(missing)
    fi
  done
  echo "${values[*]}" | awk -v method="$2" -v density="${density_of[$1]:--}" -v sent="${sent[*]:-}" -v dense="$dense_mean" '
    { n = 0; for (i = 1; i <= NF; ++i) if ($i + 0 == $i) { sum += $i; if (!n++ || $i < low) low = $i; if (n == 1 || $i > high) high = $i }
      kb = 0; m = split(sent, s, " "); for (i = 1; i <= m; ++i) kb += s[i] / m / 1000
      if (!n) { printf "| `%s` | %s | | | %s | | |\n", method, density, $0; next }
      printf "| `%s` | %s | %.2f | %.2f to %.2f | %s | %s | %.0f kB |\n", method, density, sum / n, low, high, $0,
        dense == "" ? "" : sprintf("%+.2f", sum / n - dense), kb }'
}

if [ "$action" != table ]; then
  for seed in "${seeds[@]}"; do
    for name in "${names[@]}"; do
      [ -z "$(kept_row "$name" "$seed")" ] || continue
      set_run "$name" "$seed"
      if [ "$action" = train ]; then
        train_once "$folder"
      elif ! is_over "$folder"; then
        printf '%q ' "${command[@]}"
        echo
      fi
    done
  done
fi
[ "$action" != print ] || exit 0

missing=0 folders=()
for seed in "${seeds[@]}"; do
  for name in "${names[@]}"; do
    set_run "$name" "$seed"
    if is_done "$name" "$seed"; then
      folders+=("$folder")
    elif [ -z "$(kept_row "$name" "$seed")" ]; then
      missing=$((missing + 1))
    fi
  done
done
[ ${#folders[@]} -eq 0 ] ||
  "$bin/dragonn-compare" "${folders[@]}" --output "$output/bytes.html" --csv "$output/bytes.csv" >/dev/null
if [ -n "${ROWS:-}" ]; then
  [ -f "$ROWS" ] || echo "task,run,seed,$quality,bytes_per_step" >"$ROWS"
  for seed in "${seeds[@]}"; do
    for name in "${names[@]}"; do
      if [ -z "$(kept_row "$name" "$seed")" ] && is_done "$name" "$seed"; then
        read -r -a values <<<"$(result "$name" "$seed")"
        printf '%s,%s,%s,%s,%.0f\n' "$task" "$name" "$seed" "${values[@]}" >>"$ROWS"
      fi
    done
  done
fi
dense_mean=
dense_mean=$(row dense dense | awk -F'|' '$4 + 0 > 0 { print $4 + 0 }')
{
  for equal in density bytes; do
    for density in "${densities[@]}"; do
      if [ "$equal" = density ]; then echo "Density $density:"; else echo "As many bytes as \`topk\` at density $density:"; fi
      echo
      echo "| method | density | mean $quality | range | by seed (${seeds[*]}) | less dense's | sent by a worker per step |"
      echo "|---|---|---|---|---|---|---|"
      row dense dense
      for method in "${methods[@]}"; do
        [ "$method" = dense ] || row "${name_at["$equal $method $density"]}" "$method"
      done
      echo
    done
  done
} >"$output/bytes.md"
cat "$output/bytes.md"
[ "$missing" -eq 0 ] || { echo "convergence_bytes: $missing runs are not there" >&2; exit 1; }
