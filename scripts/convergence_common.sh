# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the convergence scripts, from the root folder of the sources: ResNet-20 on CIFAR-10 (10,000 training images,
# the full test set of 10,000) with 4 local workers x batch 32.
# Needs DRAGONN_DATA/cifar10 with cifar10_full.tar.xz and unpack_full.py, or with the official binary files.
# Environment, beside what the scripts say: EPOCHS (30); OVERRIDES (none; "KEY=VALUE ..." for every run: smaller tries);
# DRAGONN_BIN (build/release/bin; it is built if it is not there).

readonly bin=${DRAGONN_BIN:-build/release/bin}

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

# set_command NAME SEED [--set KEY=VALUE...]: the run's command, in the array `command`. It goes on from the last
# checkpoint of a run that was interrupted.
set_command() {
  local folder override
  folder=$(run_folder "$1" "$2")
  command=("$bin/dragonn-train" configs/cifar10_resnet20.toml --output "$folder" --resume auto --workers 4
    --set "seed=$2" --set "data.path=$output/data" --set "train.epochs=${EPOCHS:-30}"
    --set train.eval_every_epochs=5 "${@:3}")
  for override in ${OVERRIDES:-}; do command+=(--set "$override"); done
}
