#!/usr/bin/env bash
# `dragonn` runs the programs beside it, and its subcommands give what the options of dragonn-train give.
. "$(dirname "$0")/lib.sh" "$1"
dragonn=$BIN/dragonn train=$BIN/dragonn-train

"$dragonn" train quick.toml --output run --workers 2 >train.log 2>&1 || fail "dragonn train: $(tail -3 train.log)"
for program in train bench compare; do
  [ "$("$dragonn" $program --version)" = "$("$BIN/dragonn-$program" --version)" ] || fail "the version of dragonn $program"
done

# same COMMAND... -- COMMAND...: both print the same, something, and succeed.
same() {
  local ours=()
  while [ "$1" != -- ]; do ours+=("$1") && shift; done
  shift
  "${ours[@]}" >ours.txt 2>ours.log || fail "${ours[*]}: $(tail -3 ours.log)"
  "$@" >theirs.txt 2>theirs.log || fail "$*: $(tail -3 theirs.log)"
  [ -s ours.txt ] && cmp -s ours.txt theirs.txt || fail "${ours[*]} prints other lines than $*"
}
same "$dragonn" evaluate run --set train.eval_batch_size=8 -- "$train" --evaluate run --set train.eval_batch_size=8
same "$dragonn" evaluate run --workers 3 --config quick.toml -- "$train" quick.toml --workers 3 --evaluate run
same "$dragonn" list -- "$train" --list
same "$dragonn" list methods dgc -- "$train" --list methods dgc
same "$dragonn" config -- "$train" --print-config
same "$dragonn" config quick.toml --all --set train.epochs=4 -- "$train" quick.toml --print-config=all --set train.epochs=4
"$dragonn" export run ours.safetensors >/dev/null 2>&1 || fail "dragonn export"
"$train" --export theirs.safetensors --from run >/dev/null 2>&1
cmp -s ours.safetensors theirs.safetensors || fail "dragonn export writes another file than --export"

# refused PATTERN COMMAND...: one line, and the exit code of wrong usage.
refused() {
  local pattern=$1 status=0
  shift
  "$@" >/dev/null 2>refused.log || status=$?
  [ "$status" = 2 ] && [ "$(wc -l <refused.log)" = 1 ] && grep -qE -e "$pattern" refused.log || fail "$*: $status: $(cat refused.log)"
}
refused "^dragonn: unknown subcommand 'trian'; did you mean 'train'\? valid: bench, compare, config, coordinator, evaluate, export, list, plan, replay, sample, tokenize, train$" \
  "$dragonn" trian run.toml
refused "^dragonn: no subcommand; valid: bench, " "$dragonn"
refused "^dragonn export: .*FILE.*dragonn export --help" "$dragonn" export run
refused "^dragonn evaluate: .*--nosuch" "$dragonn" evaluate run --nosuch
refused "^dragonn: .*subcommand" "$dragonn" --nosuch
refused "no config file given, and nothing is not in a run folder" "$dragonn" export nothing a.safetensors
refused "unknown" "$dragonn" bench nosuch
# It calls what lies beside it, and nothing else.
mkdir alone && cp "$dragonn" alone/
refused "cannot start .*/alone/dragonn-train: No such file" alone/dragonn train quick.toml
finish
