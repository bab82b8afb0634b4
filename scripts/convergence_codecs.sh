#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Accuracy by codec of values: trains ResNet-20 on CIFAR-10 (as scripts/convergence.sh does) and the word model on
# WikiText-2 with three seeds each: dense, METHOD at density 0.01 as papers send it, and METHOD with every lossy codec of
# values that is registered, whose indices are in the shortest code.
# Prints the table of docs/results.md: the result of the last epoch (mean and range over the seeds), bits of an entry, and
# the bytes that a worker has sent when a run reaches 95 % of dense's result, with their share of the bytes of float32. It
# writes into OUTPUT, for each model, codecs-MODEL.html, .csv and .svg.
# A run that is there already is not repeated, and one that was interrupted goes on from its last checkpoint. A run that
# ends with an error is not tried again; the table says so. Several of these scripts may work on one OUTPUT. --print shows
# the commands of the runs that are not done yet, one a line; --table the table of what is there, without training.
# Ends with 1 if a run is missing or ended with an error.
# Usage: scripts/convergence_codecs.sh [--print | --table] [OUTPUT]
#   OUTPUT: runs/convergence-codecs if not given
# Environment: SEEDS ("1 2 3"), MODELS ("resnet20 lstm"), CODECS (all, as "dense float32 float16 ..."), METHOD (topk),
# DENSITY (0.01), SUBSET (none; "TRAINING TEST": only the first so many images of either set, for ResNet-20 alone, which
# the table says below it), and what scripts/convergence_common.sh says; EPOCHS of the word model are those of its config
# unless given. Its data is DRAGONN_DATA/text/wikitext-2. An OUTPUT holds runs of one METHOD, DENSITY, SUBSET and EPOCHS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/convergence_common.sh

action=$(action_of "${1:-}")
[ "$action" = train ] || shift
readonly action method=${METHOD:-topk} density=${DENSITY:-0.01}
set_up "${1:-runs/convergence-codecs}"
value_codecs() { "$bin/dragonn-train" --list value_codecs | awk '$1 != "float32" { print $1 }'; }
read -r -a seeds <<<"${SEEDS:-1 2 3}"
read -r -a models <<<"${MODELS:-resnet20 lstm}"
read -r -d '' -a codecs <<<"${CODECS:-dense float32 $(value_codecs)}" || true
read -r -a subset <<<"${SUBSET:-}"
readonly seeds models codecs subset
if [ ${#subset[@]} -gt 0 ]; then
  [[ ${subset[*]} =~ ^[1-9][0-9]*\ [1-9][0-9]*$ ]] || {
    echo "convergence_codecs: SUBSET: '$SUBSET': expected two numbers of images above 0, as \"1024 1000\"" >&2
    exit 2
  }
  [ "${models[*]}" = resnet20 ] || {
    echo "convergence_codecs: SUBSET is of CIFAR-10: expected MODELS=resnet20, not '${models[*]}'" >&2
    exit 2
  }
fi

# set_model MODEL: `config`, and the model's own words of the command.
set_model() {
  case $1 in
    resnet20)
      config=configs/cifar10_resnet20.toml own=() result=final_accuracy
      [ ${#subset[@]} -eq 0 ] ||
        own=(--set "data.train_limit=${subset[0]}" --set "data.test_limit=${subset[1]}")
      ;;
    lstm)
      config=configs/wikitext2_lstm_small.toml result=final_perplexity
      own=(--set "data.path=$DRAGONN_DATA/text/wikitext-2")
      [ -n "${EPOCHS:-}" ] || own+=(--set "train.epochs=$(awk '$1 == "epochs" { print $3 }' "$config")")
      ;;
    *) echo "convergence_codecs: MODELS: no '$1': expected resnet20 or lstm" >&2; exit 2 ;;
  esac
}

# set_run MODEL CODEC SEED: `command` and `folder` of a run.
set_run() {
  local words=(--set "compression.method=$method" --set "compression.density=$density")
  set_model "$1"
  case $2 in
    dense) words=(--set compression.method=dense) ;;
    float32) ;;
    *) words+=(--set "compression.codec.values=$2") ;;
  esac
  set_command "$1-$2" "$3" "${own[@]}" --set train.eval_every_epochs=1 "${words[@]}"
  folder=$(run_folder "$1-$2" "$3")
}

# each_run CALL...: CALL MODEL CODEC SEED for every run.
each_run() {
  local model codec seed
  for model in "${models[@]}"; do
    for codec in "${codecs[@]}"; do
      for seed in "${seeds[@]}"; do "$@" "$model" "$codec" "$seed"; done
    done
  done
}
print_run() { set_run "$@"; is_over "$folder" || { printf '%q ' "${command[@]}"; echo; }; }
train_run() { set_run "$@"; train_once "$folder"; }
count_missing() { is_done "$1-$2" "$3" || missing=$((missing + 1)); }

# compare_runs MODEL: its runs on one page.
compare_runs() {
  local folders=() codec seed
  for codec in "${codecs[@]}"; do
    for seed in "${seeds[@]}"; do
      folder=$(run_folder "$1-$codec" "$seed")
      [ ! -f "$folder/metrics.jsonl" ] || folders+=("$folder")
    done
  done
  [ ${#folders[@]} -eq 0 ] || "$bin/dragonn-compare" "${folders[@]}" --output "$output/codecs-$1.html" \
    --csv "$output/codecs-$1.csv" --svg "$output/codecs-$1.svg" --title "Codecs of values, $1, $method, density $density" >&2
}

# numbers MODEL CODEC COLUMN: one for each seed that has it.
numbers() {
  local seed
  for seed in "${seeds[@]}"; do csv_number "$output/codecs-$1.csv" "$1-$2-seed$seed" "$3"; done | sed '/^$/d'
}

mean() { awk '{ sum += $1 } END { if (NR > 0) print sum / NR }'; }

# row MODEL CODEC: a line of the table.
row() {
  local done=0 seed error
  printf '| %s | `%s` | ' "$1" "$2"
  for seed in "${seeds[@]}"; do
    error=$(error_of "$(run_folder "$1-$2" "$seed")")
    [ -z "$error" ] || { printf 'seed %s stopped: %s | | | |\n' "$seed" "${error%%;*}"; return; }
    ! is_done "$1-$2" "$seed" || done=$((done + 1))
  done
  [ "$done" -eq ${#seeds[@]} ] || { printf '%s of %s runs done | | | |\n' "$done" "${#seeds[@]}"; return; }
  set_model "$1"
  numbers "$1" "$2" "$result" | awk -v share="$([ "$result" = final_accuracy ] && echo 1 || echo 0)" '
    { value = share ? 100 * $1 : $1; sum += value; if (NR == 1 || value < low) low = value; if (NR == 1 || value > high) high = value }
    END { printf "%.2f%s, %.2f to %.2f | ", sum / NR, share ? " %" : "", low, high }'
  numbers "$1" "$2" bits_per_entry | mean | awk '{ bits = sprintf("%.1f", $1) } END { printf "%s | ", NR ? bits : "-" }'
  if [ "$(numbers "$1" "$2" bytes_to_target | wc -l)" -lt ${#seeds[@]} ]; then
    echo 'not reached by every seed | |'
    return
  fi
  echo "$(numbers "$1" "$2" bytes_to_target | mean) $(numbers "$1" float32 bytes_to_target | mean)" |
    awk '{ printf "%.1f MB | %s |\n", $1 / 1e6, (NF > 1 ? sprintf("%.2f", $1 / $2) : "") }'
}

case $action in
  print) each_run print_run; exit 0 ;;
  train) each_run train_run ;;
esac
for model in "${models[@]}"; do compare_runs "$model"; done
{
  echo "| model | values | result, range over the seeds | bits/entry | sent to 95 % of dense | of float32's |"
  echo "|---|---|---|---|---|---|"
  for model in "${models[@]}"; do
    for codec in "${codecs[@]}"; do row "$model" "$codec"; done
  done
  [ ${#subset[@]} -eq 0 ] || printf '\nA subset of CIFAR-10: the first %s training images and the first %s test images.\n' \
    "${subset[@]}"
} >"$output/codecs.md"
cat "$output/codecs.md"
missing=0
each_run count_missing
[ "$missing" -eq 0 ] || { echo "convergence_codecs: $missing runs are not there" >&2; exit 1; }
