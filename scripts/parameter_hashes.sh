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
  -h | --help)
    awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/parameter_hashes.sh
    exit 0
    ;;
esac
readonly bin=${DRAGONN_BIN:-build/release/bin}
[ $# -gt 0 ] || set -- 3 4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# hash_line WORKERS NAME OVERRIDE...
hash_line() {
  local workers=$1 name=$2 arguments=() override
  shift 2
  for override in "$@"; do arguments+=(--set "$override"); done
  "$bin/dragonn-train" configs/synthetic_quick.toml --workers "$workers" --output "$folder/run" --set device=cpu \
    --set 'model.name="mlp"' --set 'model.hidden=[48,32]' --set train.batch_size=4 --set train.max_steps=40 \
    --set train.eval_every_epochs=0 --set compression.density=0.02 --set 'logging.level="error"' "${arguments[@]}" \
    </dev/null >"$folder/log" 2>&1 || { cat "$folder/log" >&2; return 1; }
  printf '%s %-44s %s\n' "$workers" "$name" \
    "$(sed -n 's/.*"parameters_hash": *"\([0-9a-f]*\)".*/\1/p' "$folder/run/summary.json")"
  rm -rf "$folder/run"
}

for workers in "$@"; do
  for method in $("$bin/dragonn-train" --list method | awk '{ print $1 }'); do
    hash_line "$workers" "$method" "compression.method=\"$method\""
    hash_line "$workers" "$method, a bucket per tensor, vectors too" "compression.method=\"$method\"" \
      'compression.bucket="tensor"' 'compression.include_vectors="yes"'
  done
  for variant in gtopk.put_back=exact gtopk.put_back=naive gtopk.put_back=paper oktopk.balance=always oktopk.balance=never; do
    method=${variant%%.*} setting=${variant#*.}
    hash_line "$workers" "$method, ${setting/=/ = }" "compression.method=\"$method\"" "compression.$method.${setting%%=*}=\"${setting#*=}\""
  done
  for layout in fixed padded unpadded; do
    hash_line "$workers" "topk, layout = $layout" 'compression.method="topk"' "compression.allgather.layout=\"$layout\""
  done
  hash_line "$workers" "topk, decode = dense" 'compression.method="topk"' 'compression.allgather.decode="dense"'
  hash_line "$workers" "dsa, switch = 0" 'compression.method="dsa"' compression.dsa.switch=0
  hash_line "$workers" "topk, overlap" 'compression.method="topk"' compression.overlap=true
  hash_line "$workers" "dense, rabenseifner" 'compression.method="dense"' 'comm.dense_algorithm="rabenseifner"'
done
