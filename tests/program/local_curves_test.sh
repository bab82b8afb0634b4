#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Local steps of dragonn-train, and of dragonn.LocalSteps around PyTorch's AdamW, have the same losses up to rounding: the same
# weights, windows and order, dense changes and compressed ones. So has torchft's DiLoCo where it is installed. Skipped, with the
# reason, without PyTorch and safetensors.
. "$(dirname "$0")/lib.sh" "$1"
curves=$ROOT/scripts/peers/local_curves.py
export OMP_NUM_THREADS=1 DRAGONN_LIBRARY=$BIN/../library/libdragonn.so PYTHONDONTWRITEBYTECODE=1
unset DRAGONN_DATA RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
reason=$(python3 -W ignore -c 'import numpy, torch, safetensors' 2>&1) || { echo "skipped: ${reason##*$'\n'}"; exit 77; }

# The steps take more than two epochs, each in an order of its own.
for line in $(seq 60); do echo "Line $line of a text whose lines differ by a number."; done >text.txt
"$BIN/dragonn" tokenize text.txt --characters --held-out 0.2 --output tokens >/dev/null 2>&1 || fail "no tokens"
# compare OUTPUT ARGUMENT...: twelve steps of two workers.
compare() {
  local output=$1
  shift
  timeout 250 python3 -W ignore "$curves" "$ROOT/configs/shakespeare_diloco.toml" --bin "$BIN" --set data.path=tokens \
    --set model.layers=2 --set model.hidden=32 --set data.window=32 --set model.positions=32 --set comm.workers=2 \
    --set train.epochs=9 --set train.max_steps=30 --set schedule.warmup_steps=2 --set schedule.decay_steps=30 \
    --set update.inner_steps=4 --tolerance 1e-4 "$@" >"$output" 2>&1 || fail "$*: $(tail -14 "$output")"
  awk -F'[| ]+' '$2 == 4 { first = $3 } $2 == 30 { last = $3 } END { exit !(first > 2 && last < 0.9 * first) }' "$output" ||
    fail "$*: nothing is learned: $(cat "$output")"
}
compare dense.log
grep -q '^LocalSteps differs from dragonn-train by ' dense.log || fail "no LocalSteps: $(cat dense.log)"
compare sparse.log --peers LocalSteps --set compression.method=topk --set compression.density=0.05 \
  --set compression.codec.indices=rice
timeout 250 python3 -W ignore "$curves" "$ROOT/configs/shakespeare_diloco.toml" --peers muon >output.log 2>&1
grep -q "no 'muon': expected some of LocalSteps, torchft" output.log || fail "a peer that there is not: $(cat output.log)"
finish
