#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/convergence_methods.sh and scripts/convergence_bytes.sh on a few made-up images: what is done is not repeated, what is missing or ended with an
# error is said, and --print gives commands that can be run.
. "$(dirname "$0")/lib.sh" "$1"

mkdir -p data/cifar10
cifar data/cifar10/data_batch_1.bin 128
cifar data/cifar10/test_batch.bin 20

# methods ENVIRONMENT... -- ARGUMENT...: runs the script with a single step per run.
methods() {
  local environment=()
  while [ "$1" != -- ]; do environment+=("$1"); shift; done
  shift
  env DRAGONN_DATA="$WORK/data" DRAGONN_BIN="$BIN" EPOCHS=1 DENSITIES=0.01 "${environment[@]}" \
    "$ROOT/scripts/convergence_methods.sh" "$@" 2>errors.txt
}

[ "$(methods METHODS='dense topk' -- --print "$WORK/out" | wc -l)" = 2 ] || fail "--print does not list two runs"
methods METHODS='dense' -- "$WORK/out" >table.md || fail "the dense run: $(cat errors.txt)"
grep -qE '^\| `dense` \| - \| [0-9.]+ % \| - \| [0-9]+ kB \| ' table.md || fail "no row for dense: $(cat table.md)"
methods METHODS='dense topk' -- --table "$WORK/out" >table.md && fail "--table does not say that a run is missing"
grep -q '^| `topk` | 0.01 | not run yet ' table.md || fail "the missing run is not in the table: $(cat table.md)"

command=$(methods METHODS='dense topk' -- --print "$WORK/out")
[ "$(wc -l <<<"$command")" = 1 ] || fail "--print lists a run that is done: $command"
(cd "$ROOT" && bash -c "$command" 2>/dev/null) || fail "the printed command: $command"
finished=$(stat -c %Y.%i "$WORK/out/dense-seed1/summary.json")
methods METHODS='dense topk' -- "$WORK/out" >table.md || fail "all runs are done: $(cat errors.txt)"
grep -qE '^\| `topk` \| 0.01 \| [0-9.]+ % \| 1\.000 \| [0-9]+ kB \| [0-9.]+ \| [0-9.]+ % \|$' table.md ||
  fail "no row for topk: $(cat table.md)"
[ "$finished" = "$(stat -c %Y.%i "$WORK/out/dense-seed1/summary.json")" ] || fail "the dense run was repeated"
for file in methods-0.01.html methods-0.01.csv methods-0.01.svg methods.md; do
  [ -s "$WORK/out/$file" ] || fail "no $file"
done

methods METHODS=topk OVERRIDES='optimizer.learning_rate=1e30 train.epochs=9' -- "$WORK/bad" >table.md &&
  fail "a run that ended with an error is not an error"
grep -q '^| `topk` | 0.01 | stopped: step .* not finite' table.md || fail "the error is not in the table: $(cat table.md)"
[ -z "$(methods METHODS=topk -- --print "$WORK/bad")" ] || fail "a run that ended with an error is tried again"

# At equal bytes gtopk has twice the density of topk among 4 workers; the runs above are not repeated.
bytes() {
  env DRAGONN_DATA="$WORK/data" DRAGONN_BIN="$BIN" EPOCHS=1 DENSITIES=0.01 SEEDS=1 METHODS="dense topk gtopk" \
    "$ROOT/scripts/convergence_bytes.sh" "$@" 2>errors.txt
}
[ "$(bytes --print "$WORK/out" | wc -l)" = 2 ] || fail "--print does not list the two runs of gtopk: $(cat errors.txt)"
bytes "$WORK/out" >table.md || fail "equal bytes: $(cat errors.txt)"
[ "$(grep -cE '^\| `(dense|topk|gtopk)` \| (-|0\.01|0\.02|0\.01999) \| [0-9.]+ \| [0-9.]+ to [0-9.]+ \| ' table.md)" = 6 ] ||
  fail "not six rows: $(cat table.md)"

finish
