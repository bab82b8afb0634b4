#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The sweeps of scripts/grids/convergence*.toml on a few made-up images: what is done is not repeated, what is missing or ended
# with an error is said, --print gives commands that can be run, and runs of a file of rows need no folder.
. "$(dirname "$0")/lib.sh" "$1"
python3 -c 'import tomllib' 2>/dev/null || { echo "skipped: no Python 3.11 here"; exit 77; }

mkdir -p data/cifar10
cifar data/cifar10/data_batch_1.bin 128
cifar data/cifar10/test_batch.bin 20
export DRAGONN_DATA=$WORK/data

# sweep GRID ARGUMENT...: a single step per run.
sweep() {
  "$ROOT/scripts/experiments.py" "$ROOT/scripts/grids/$1.toml" --bin "$BIN" --set train.epochs=1 "${@:2}" 2>errors.txt
}
methods() { sweep convergence_methods --output "$@"; }
both=(--only dense-seed1 --only topk-0.01-seed1)

[ "$(methods out --print "${both[@]}" | wc -l)" = 2 ] || fail "--print does not list two runs: $(cat errors.txt)"
methods out --only dense-seed1 >table.md || fail "the dense run: $(cat errors.txt)"
grep -qE '^\| `dense` \| [0-9.]+ \| .* \| [0-9]+ \| [0-9.]+ \| - \|' table.md || fail "no row for dense: $(cat table.md)"
methods out --table "${both[@]}" >table.md && fail "--table does not say that a run is missing"
grep -q '^| `topk-0.01` | not run yet ' table.md || fail "the missing run is not in the table: $(cat table.md)"

command=$(methods out --print "${both[@]}")
[ "$(wc -l <<<"$command")" = 1 ] || fail "--print lists a run that is done: $command"
bash -c "$command" 2>/dev/null || fail "the printed command: $command"
finished=$(stat -c %Y.%i out/dense-seed1/summary.json)
methods out "${both[@]}" >table.md || fail "all runs are done: $(cat errors.txt)"
grep -qE '^\| `topk-0.01` \| ([^|]+\| ){5}1\.000 \| [0-9.]+ \| [0-9.]+% \|$' table.md || fail "no row for topk: $(cat table.md)"
[ "$finished" = "$(stat -c %Y.%i out/dense-seed1/summary.json)" ] || fail "the dense run was repeated"
for file in methods-0.01-report.html methods-0.01-report.csv methods-0.01-report.svg methods-table.md; do [ -s "out/$file" ] || fail "no $file"; done
[ "$(methods new --print | wc -l)" -ge 30 ] || fail "not all methods: $(cat errors.txt)"

bad=(--only topk-0.01-seed1 --set optimizer.learning_rate=1e30 --set train.epochs=9)
methods bad "${bad[@]}" >table.md && fail "a run that ended with an error is not an error"
grep -q 'topk-0.01-seed1: exit code 1: .*not finite' errors.txt || fail "the error: $(cat errors.txt)"
methods bad --table "${bad[@]}" 2>errors.txt
grep -q 'topk-0.01-seed1: stopped: step .*not finite' errors.txt || fail "the error of an earlier call: $(cat errors.txt)"
[ -z "$(methods bad --print "${bad[@]}")" ] || fail "a run that ended with an error is tried again"

# At equal bytes gtopk has twice the density of topk among 4 workers; the runs above are not repeated.
bytes() {
  sweep convergence_bytes --output out --grid seed=1 --only dense-seed1 --only topk-0.01-seed1 --only 'gtopk-*0.01-seed1' "$@"
}
[ "$(bytes --print | wc -l)" = 2 ] || fail "--print does not list the two runs of gtopk: $(cat errors.txt)"
bytes --rows rows.csv >table.md || fail "equal bytes: $(cat errors.txt)"
[ "$(grep -cE '^\| `(dense|g?topk-0.01|gtopk-bytes-of-topk-0.01)` \| [0-9.]+ \| [-+0-9.]+ \| [0-9.]+ to [0-9.]+ \| ' table.md)" = 4 ] ||
  fail "not four rows: $(cat table.md)"
grep -qE '^density = 0.0(2|1999)$' out/gtopk-bytes-of-topk-0.01-seed1/config.toml || fail "the density of gtopk"
[ "$(grep -cE '^resnet20,(dense|g?topk-0.01|gtopk-bytes-of-topk-0.01),1,[0-9.]+,[0-9]+$' rows.csv)" = 4 ] || fail "the rows: $(cat rows.csv)"
rm -r out/*-seed1
sed 's/^\(resnet20,dense,1\),[^,]*/\1,33.25/' rows.csv >known.csv
bytes --rows known.csv >table.md || fail "runs that are rows alone: $(cat errors.txt)"
grep -q '^| `dense` | 33.25 ' table.md && [ ! -e out/dense-seed1 ] && [ "$(wc -l <known.csv)" = 5 ] || fail "a row was run again: $(cat table.md)"

finish
