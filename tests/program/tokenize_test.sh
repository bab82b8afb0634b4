#!/usr/bin/env bash
# `dragonn tokenize`: text to shards, and a training on them.
. "$(dirname "$0")/lib.sh" "$1"
dragonn=$BIN/dragonn

for i in $(seq 400); do echo "Line $i of a text that a small vocabulary of byte pairs has seen before."; done >text.txt
echo "Another text." >other.txt
"$dragonn" tokenize text.txt other.txt --output tokens --train 300 --held-out 0.1 --shard-tokens 2000 >out.txt 2>out.log ||
  fail "tokenize: $(cat out.log)"
grep -qE '^[0-9]+ tokens to train on, [0-9]+ to evaluate on, vocabulary 300: tokens$' out.txt || fail "$(cat out.txt)"
"$dragonn" tokenize text.txt other.txt --output tokens --tokenizer tokens --held-out 0.1 --shard-tokens 2000 2>/dev/null |
  grep -q 'nothing was left to do' || fail "a second call does something"

cat >gpt.toml <<'TOML'
seed = 3
[model]
name = "bert"
layers = 1
hidden = 16
heads = 2
max_steps = 16
dropout = 0
[data]
name = "token_shards"
path = "tokens"
window = 16
[train]
max_steps = 3
batch_size = 2
[compression]
method = "topk"
density = 0.05
TOML
for workers in 1 3; do
  "$BIN/dragonn-train" gpt.toml --workers $workers --output run$workers >train.log 2>&1 || fail "training: $(tail -3 train.log)"
  grep -q '"kind":"eval"' run$workers/metrics.jsonl || fail "no evaluation with $workers workers"
done

# refused PATTERN COMMAND...: one line, and the exit code of wrong usage or of bad data.
refused() {
  local pattern=$1 status=0
  shift
  "$@" >/dev/null 2>refused.log || status=$?
  [ "$status" != 0 ] && [ "$(wc -l <refused.log)" = 1 ] && grep -qE -e "$pattern" refused.log || fail "$*: $status: $(cat refused.log)"
}
refused '^dragonn tokenize: Exactly 1 option' "$dragonn" tokenize text.txt --output x
refused '^dragonn tokenize: Exactly 1 option' "$dragonn" tokenize text.txt --output x --bytes --train 300
refused '^dragonn tokenize: .*--train' "$dragonn" tokenize text.txt --output x --train 100
refused "^dragonn: unknown rule for bytes that are not UTF-8 'skip'; valid: bytes, error, replace" \
  "$dragonn" tokenize text.txt --output x --bytes --invalid skip
refused '^dragonn: .*none.txt' "$dragonn" tokenize none.txt --output x --bytes
refused '^dragonn: tokens has token shards of other texts' "$dragonn" tokenize other.txt --output tokens --bytes
printf 'fine \xff' >bad.txt
refused '^dragonn: bad.txt: byte 0xff at offset 5 is not UTF-8' "$dragonn" tokenize bad.txt --output x --bytes
mkdir broken && echo 'a b c' >broken/vocab.bpe && echo '{}' >broken/encoder.json
refused "^dragonn: broken/vocab.bpe:1: 'a b c' is no merge" "$dragonn" tokenize text.txt --output x --tokenizer broken
# The same tokens as tiktoken's, of the vocabulary above.
if python3 -c 'import tiktoken' 2>/dev/null; then
  python3 "$ROOT/scripts/check_tokenizer.py" --bin "$BIN" --tokenizer tokens --megabytes 1 >check.log 2>&1 || fail "$(cat check.log)"
  grep -q '^--invalid bytes: [0-9]* tokens restore the bytes' check.log || fail "$(cat check.log)"
else
  python3 "$ROOT/scripts/check_tokenizer.py" --bin "$BIN" --tokenizer tokens >check.log 2>&1
  [ $? = 77 ] && grep -q '^skipped: ' check.log || fail "without tiktoken: $(cat check.log)"
fi
truncate -s -1 tokens/train_000000.bin
"$BIN/dragonn-train" gpt.toml --output run >/dev/null 2>train.log && fail "a truncated shard is accepted"
grep -q "tokens/train_000000.bin: the header's number of tokens is" train.log || fail "$(cat train.log)"
finish
