# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the convergence scripts, from the root folder of the sources: a config on CIFAR-10 (10,000 training images,
# the full test set of 10,000), as a rule ResNet-20 with 4 local workers x batch 32.
# Needs DRAGONN_DATA/cifar10 with cifar10_full.tar.xz and unpack_full.py, or with the official binary files.
# Environment, beside what the scripts say: EPOCHS (30); OVERRIDES (none; "KEY=VALUE ..." for every run: smaller tries);
# DRAGONN_BIN (build/release/bin; it is built if it is not there).

readonly bin=${DRAGONN_BIN:-build/release/bin}

# action_of ARGUMENT: what a script is asked for by its first argument: print or table if it says --print or --table, else
# to train.
action_of() {
  case $1 in
    --print | --table) echo "${1#--}" ;;
    -*) echo "$(basename "$0"): unknown option $1: expected --print or --table" >&2; return 2 ;;
    *) echo train ;;
  esac
}

# set_up OUTPUT: programs and data; from then on runs are folders in OUTPUT.
set_up() {
  output=$1
  [ -n "${DRAGONN_DATA:-}" ] || { echo "convergence: set DRAGONN_DATA to the folder with cifar10/" >&2; exit 2; }
  if [ ! -x "$bin/dragonn-train" ] || [ ! -x "$bin/dragonn-compare" ]; then
    [ -z "${DRAGONN_BIN:-}" ] || { echo "convergence: DRAGONN_BIN=$bin: no such programs" >&2; exit 2; }
    scripts/install_deps.sh
    . scripts/build.sh
    build release dragonn-train dragonn-compare
  fi >&2
  mkdir -p "$output"
  prepare_data
}

# prepare_data: $output/data with data_batch_1.bin alone and the full test_batch.bin.
prepare_data() {
  local source=$DRAGONN_DATA/cifar10 full=$output/data.full
  [ ! -f "$output/data/test_batch.bin" ] || return 0
  mkdir -p "$full" "$output/data"
  if [ -f "$source/unpack_full.py" ]; then
    # The distribution's python3, for which these are packaged.
    /usr/bin/python3 -c 'import PIL, numpy' 2>/dev/null || {
      echo "convergence: unpacking $source needs the packages python3-pil and python3-numpy" >&2
      exit 2
    }
    /usr/bin/python3 "$source/unpack_full.py" "$full"
    source=$full
  fi
  cp "$source/data_batch_1.bin" "$output/data/"
  cp "$source/test_batch.bin" "$output/data/"
  rm -rf "$full"
}

# run_folder NAME SEED
run_folder() { echo "$output/$1-seed$2"; }

is_done() { [ -f "$(run_folder "$1" "$2")/summary.json" ]; } # NAME SEED

# The config, launcher and workers of all runs. A script may set them anew.
config=configs/cifar10_resnet20.toml launcher=() workers=(--workers 4)

# set_command NAME SEED [--set KEY=VALUE...]: the run's command, in the array `command`. It goes on from the last
# checkpoint of a run that was interrupted.
set_command() {
  local folder override
  folder=$(run_folder "$1" "$2")
  command=("${launcher[@]}" "$bin/dragonn-train" "$config" --output "$folder" --resume auto "${workers[@]}"
    --set "seed=$2" --set "data.path=$output/data" --set "train.epochs=${EPOCHS:-30}"
    --set train.eval_every_epochs=5 "${@:3}")
  for override in ${OVERRIDES:-}; do command+=(--set "$override"); done
}

# error_of FOLDER: the error that ended the run, if one did: then it is the log's last line.
error_of() { [ ! -f "$1/log.txt" ] || tail -1 "$1/log.txt" | sed -n 's/^[^ ]* error //p'; }

is_over() { [ -f "$1/summary.json" ] || [ -n "$(error_of "$1")" ]; } # FOLDER

# train_once FOLDER: runs `command`, unless the run is over or another script is at it. A run that ends with an error is
# over; one that ends otherwise ends the script.
train_once() {
  local status=0
  ! is_over "$1" || return 0
  flock --nonblock --conflict-exit-code 99 "$1.lock" "${command[@]}" || status=$?
  [ "$status" -eq 99 ] || [ "$status" -eq 0 ] || [ -n "$(error_of "$1")" ] || exit "$status"
}

# csv_number FILE RUN COLUMN: of the table of runs that dragonn-compare wrote. Labels, in quotes, may have commas.
csv_number() {
  awk -F, -v run="$2" -v column="$3" '{ gsub(/"[^"]*"/, "label") }
    NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i }
    $1 == run && at { print $at }' "$1"
}
