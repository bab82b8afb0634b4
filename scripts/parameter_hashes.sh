#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains every method, and the variants of collectives that exchange in another way, for 40 steps on generated images, and
# prints one line per run: workers, method or variant, hash of the parameters. Two versions of the program compute the same
# where `diff` of their tables is empty (on one machine: oneDNN's bits depend on the processor).
# Environment: DRAGONN_BIN (build/release/bin).
# Usage: scripts/parameter_hashes.sh [WORKERS...]     WORKERS: 3 4 if not given
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
  -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/parameter_hashes.sh && exit 0 ;;
esac
readonly bin=${DRAGONN_BIN:-build/release/bin}
[ $# -gt 0 ] || set -- 3 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# hash_line NAME METHOD SETTING...: of a run with the settings of compression that are given.
hash_line() {
  local settings=(device=cpu model.name=mlp 'model.hidden=[48,32]' train.batch_size=4 train.max_steps=40 train.eval_every_epochs=0
    logging.level=error compression.density=0.02 "compression.method=$2" "${@:3}")
  "$bin/dragonn-train" configs/synthetic_quick.toml --workers "$workers" --output "$folder/run" "${settings[@]/#/--set=}" \
    </dev/null >"$folder/log" 2>&1 || { cat "$folder/log" >&2 && return 1; }
  printf '%s %-44s %s\n' "$workers" "$1" "$(sed -n 's/.*"parameters_hash": *"\([0-9a-f]*\)".*/\1/p' "$folder/run/summary.json")"
  rm -rf "$folder/run"
}

for workers in "$@"; do
  for method in $("$bin/dragonn-train" --list method | awk '{ print $1 }'); do
    hash_line "$method" "$method"
    hash_line "$method, a bucket per tensor, vectors too" "$method" compression.bucket=tensor compression.include_vectors=yes
  done
  for variant in gtopk.put_back=exact gtopk.put_back=naive gtopk.put_back=paper oktopk.balance=always oktopk.balance=never; do
    method=${variant%%.*} setting=${variant#*.}
    hash_line "$method, ${setting/=/ = }" "$method" "compression.$variant"
  done
  for layout in fixed padded unpadded; do hash_line "topk, layout = $layout" topk "compression.allgather.layout=$layout"; done
  hash_line "topk, decode = dense" topk compression.allgather.decode=dense
  hash_line "dsa, switch = 0" dsa compression.dsa.switch=0
  hash_line "topk, overlap" topk compression.overlap=true
  hash_line "dense, rabenseifner" dense comm.dense_algorithm=rabenseifner
done
