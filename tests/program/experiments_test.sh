#!/usr/bin/env bash
# scripts/experiments.py: a grid is run, compared and continued; what is done is not repeated, a failing run does not end the
# sweep, and what is wrong is said before the first run.
. "$(dirname "$0")/lib.sh" "$1"
python3 -c 'import tomllib' 2>/dev/null || { echo "skipped: no Python 3.11 here"; exit 77; }
sweep() { "$ROOT/scripts/experiments.py" --bin "$BIN" "$@"; }
quick=(--config quick.toml --set comm.workers=2 --set train.epochs=1)
grid=(--grid compression.method=topk,dense --grid compression.density=0.1,0.05 --grid seed=1,2
  --exclude compression.method=dense,compression.density=0.05)

# By options alone: 2 methods x 2 densities x 2 seeds, without the excluded.
sweep "${quick[@]}" "${grid[@]}" --output out --parallel 2 >table.txt 2>log || fail "a sweep: $(cat log)"
names="dense-density0.1-seed1 dense-density0.1-seed2 topk-density0.05-seed1 topk-density0.05-seed2 topk-density0.1-seed1 topk-density0.1-seed2"
[ "$(cd out && ls -d */ | tr -d / | xargs)" = "$names" ] || fail "the runs are $(ls out)"
for name in $names; do [ -s "out/$name/summary.json" ] || fail "$name has not ended"; done
grep -q '^seed = 2$' out/topk-density0.05-seed2/config.toml && grep -q '^density = 0.05$' out/topk-density0.05-seed2/config.toml ||
  fail "the keys of a run: $(grep -E '^(seed|density) =' out/topk-density0.05-seed2/config.toml)"
[ "$(grep -cE '^\| `(topk|dense)-density0\.(1|05)` \| [0-9.]+ \| [0-9.]+ to [0-9.]+ \| [0-9.]+ [0-9.]+ \| [0-9]+ \|' table.txt)" = 3 ] ||
  fail "the table: $(cat table.txt)"
cmp -s table.txt out/table.md || fail "table.md is another table"
[ "$(wc -l <out/report.csv)" = 7 ] && [ "$(wc -l <out/groups.csv)" = 4 ] && [ -s out/report.html ] || fail "the report: $(cat log)"
grep -q '6/6 dense-density0.1-seed[12]: accuracy' log || fail "the progress: $(cat log)"

# Nothing is repeated; further values are added; --print and --table run nothing.
stamps() { stat -c %Y.%i out/*/summary.json; }
before=$(stamps)
sweep "${quick[@]}" "${grid[@]}" --output out >again.txt 2>log || fail "the same sweep again: $(cat log)"
[ "$before" = "$(stamps)" ] && cmp -s table.txt again.txt && grep -q '6 of 6 runs are finished already' log || fail "it is repeated: $(cat log)"
sweep "${quick[@]}" "${grid[@]}" --grid seed=1,2,3 --output out --print >commands.txt || fail "--print"
[ "$(wc -l <commands.txt)" = 3 ] || fail "--print: $(cat commands.txt)"
sweep "${quick[@]}" "${grid[@]}" --grid seed=1,2,3 --output out --table >table.txt 2>log && fail "--table does not say that runs are missing"
grep -q 'experiments: topk-density0.1-seed3: not run yet' log && [ "$before" = "$(stamps)" ] || fail "--table: $(cat log)"
bash -c "$(grep topk-density0.1-seed3 commands.txt)" 2>log || fail "a printed command: $(cat log)"
sweep "${quick[@]}" "${grid[@]}" --grid seed=1,2,3 --output out >table.txt 2>log || fail "a third seed: $(cat log)"
grep -q '7 of 9 runs are finished already' log && [ "$(wc -l <out/groups.csv)" = 4 ] || fail "a third seed: $(cat log)"

# A run that was interrupted goes on from its checkpoint.
"$ROOT/scripts/experiments.py" --bin "$BIN" "${quick[@]}" --set train.epochs=100 --set checkpoint.every_steps=100 --output cut \
  --grid seed=1,2 >/dev/null 2>log &
process=$!
wait_until $process has_checkpoint cut/run-seed1
kill -TERM $process
wait $process
[ $? = 143 ] && grep -q 'stopped with 2 of 2 runs left' log && [ ! -e cut/run-seed2 ] || fail "a sweep that is stopped: $(cat log)"
sweep "${quick[@]}" --set train.epochs=100 --set checkpoint.every_steps=100 --output cut --grid seed=1 >/dev/null 2>log || fail "it goes on: $(cat log)"
grep -q 'resumes from' cut/run-seed1/log.txt || fail "it begins anew"

# A failing run is the last word, and the others are done.
sweep "${quick[@]}" --output bad --grid optimizer.learning_rate=1e30,0.05 --set train.epochs=9 >table.txt 2>log
[ $? = 1 ] || fail "a failing run is no failure: $(cat log)"
grep -qE '^experiments: learning_rate1e\+30: exit code 1: .*not finite' log || fail "the failing run: $(cat log)"
[ -s bad/learning_rate0.05/summary.json ] && grep -q learning_rate0.05 bad/table.md || fail "it ended the sweep"

# A file: variants, a key of the user's own component, a target, several configs.
cp "$BIN/../plugins/every_nth.so" .
mkdir -p sweeps
cp quick.toml sweeps/first.toml
sed 's/^hidden = .*/hidden = [8]/' quick.toml >sweeps/second.toml
cat >sweeps/all.toml <<TOML
config = ["first.toml", "second.toml"]
output = "files"
parallel = 2
launcher = ["env", "TRIED=1"]
[set]
train.epochs = 1
comm.workers = 2
plugins = ["every_nth.so"]
[grid]
compression.density = [0.1, 0.05]
seed = [4]
[[variant]]
name = "dense"
set.compression.method = "dense"
grid.compression.density = []
[[variant]]
name = "nth"
set.compression.method = "every_nth"
[[variant]]
name = "narrow"
when.model.hidden = [[8], [9]]
set.compression.method = "topk"
grid = { compression.density = [], seed = [] }
[[exclude]]
compression.method = "every_nth"
compression.density = 0.05
[report]
metric = "loss"
baseline = "first-dense"
target_share = 0.5
title = "a title"
TOML
sweep sweeps/all.toml >table.txt 2>log || fail "a file: $(cat log)"
[ "$(cd files && ls -d */ | tr -d / | xargs)" = "first-dense-seed4 first-nth-density0.1-seed4 second-dense-seed4 second-narrow second-nth-density0.1-seed4" ] ||
  fail "the runs of the file: $(ls files)"
grep -qE '^\| `first-dense` \| [0-9.]+ \| \+0.0000 \|' table.txt && grep -q 'mean loss | to first-dense' table.txt &&
  grep -q '^Lower is better' table.txt || fail "the table: $(cat table.txt)"
for file in first-report.html second-report.html first-groups.csv; do [ -s files/$file ] || fail "no $file"; done
grep -q 'a title' files/first-report.html || fail "the page has no title"

# What is wrong is said before anything is run.
refuse() { # PATTERN ARGUMENT...
  local status=0
  sweep "${@:2}" --output refused >/dev/null 2>log || status=$?
  [ $status = 2 ] && grep -qE "^experiments: $1" log && ! grep -q Traceback log || fail "${*:2}: $status, $(cat log)"
  [ ! -e refused ] || fail "${*:2}: something was run"
}
refuse "method_topkk and 1 more: .*did you mean 'topk'|topkk.*did you mean" --config quick.toml --grid compression.method=topk,topkk --grid seed=1,2
refuse ".*1 of 2 runs are refused|density0: .*compression.density=0" --config quick.toml --grid compression.density=0,0.1
refuse "lr0.1: .*did you mean 'optimizer.learning_rate'" --config quick.toml --grid optimizer.lr=0.1
refuse "two runs have the name run-seed1" --config quick.toml --grid seed=1,1
refuse "exclude: train.epoch is no key of the sweep" --config quick.toml --grid seed=1 --exclude train.epoch=1
refuse "the sweep has no run" --config quick.toml --grid seed=1 --exclude seed=1
refuse "--grid seed: expected KEY=VALUE" --config quick.toml --grid seed
refuse "no config" --grid seed=1
printf '%s\n' 'config = "../quick.toml"' '[[variant]]' 'when.seed = 1' >sweeps/when.toml
refuse "sweeps/when.toml: when.seed = 1: expected a list of values" sweeps/when.toml
refuse "absent.toml: No such file" absent.toml
refuse "run: .*absent.toml" --config absent.toml
printf 'config = "quick.toml"\nruns = 3\n' >keys.toml
refuse "keys.toml: unknown key 'runs'; valid: config, " keys.toml
printf 'config = "quick.toml"\n[grid]\nseed = 3\n' >keys.toml
refuse "keys.toml: grid.seed = 3: expected a list" keys.toml
printf 'config = "quick.toml"\n[report]\nbaseline = "dense"\n' >keys.toml
refuse "report.baseline = dense: expected one of run" keys.toml
sweep "${quick[@]}" --set train.epochs=2 "${grid[@]}" --output out >/dev/null 2>log && fail "a changed sweep keeps runs of another"
grep -q 'out/topk-density0.1-seed1 and 5 more: an earlier run there has train.epochs = 1, not 2: remove it' log &&
  [ "$(stamps | wc -l)" = 9 ] || fail "a changed sweep: $(cat log)"
finish
