#!/usr/bin/env bash
# `dragonn sample`: a small decoder learns a text, and goes on with it.
. "$(dirname "$0")/lib.sh" "$1"
dragonn=$BIN/dragonn

for i in $(seq 200); do printf 'abcdé'; done >text.txt
"$dragonn" tokenize text.txt --output characters --characters --held-out 0.1 >/dev/null 2>&1 || fail "tokenize --characters"
"$dragonn" tokenize text.txt --output bytes --bytes --held-out 0.1 >/dev/null 2>&1 || fail "tokenize --bytes"
cat >gpt.toml <<'TOML'
seed = 3
[model]
name = "gpt2"
layers = 1
hidden = 16
heads = 2
positions = 32
dropout = 0
[data]
name = "token_shards"
path = "characters"
window = 16
[train]
max_steps = 60
batch_size = 4
[optimizer]
name = "adam"
learning_rate = 0.03
[compression]
method = "dense"
[logging]
every_steps = 100
TOML
train() { "$BIN/dragonn-train" "$@" >train.log 2>&1 || fail "training: $(tail -3 train.log)"; }
train gpt.toml --output run
train gpt.toml --output raw --set data.path=bytes --set train.max_steps=1

# says TEXT ARGUMENT...: what the model writes, the prompt first. Other lines go to sample.log.
says() {
  local expected=$1 text
  shift
  text=$("$dragonn" sample "$@" --threads 1 2>sample.log) || fail "sample $*: $(cat sample.log)"
  [ "$text" = "$expected" ] || fail "sample $*: '$text' instead of '$expected'"
}
says abcdéabcdé run --prompt abc --tokens 7 --temperature 0
grep -qE '^dragonn: read 3 tokens at [0-9.]+ a second, wrote 7 tokens at [0-9.]+ a second$' sample.log || fail "$(cat sample.log)"
says éabcdéab run --prompt - --tokens 5 --temperature 0 < <(printf éab)
says cdéa run/checkpoints/step-00000060 --prompt c --tokens 3 --top-k 1
says cdéa run --prompt c --tokens 3 --top-p 0.001
# The context: 16 tokens, and the one that they predict; behind it only on request, and up to the model's positions.
says abcdéabcdéabcdéab run --prompt ab --tokens 25 --temperature 0
grep -q 'wrote 15 tokens .*; the context is full (data.window)' sample.log || fail "$(cat sample.log)"
says abcdéabcdéabcdéabcdéabcdéab run --prompt ab --tokens 25 --temperature 0 --slide
"$dragonn" sample run --prompt ab --tokens 25 --set data.window=32 2>&1 >/dev/null | grep -q 'wrote 25 tokens' ||
  fail "data.window=32 does not widen the context"

# What is drawn depends on the seed alone, and characters that tokens cut are whole.
for name in first again other; do
  [ $name = other ] && seed=2 || seed=1
  "$dragonn" sample raw --seed $seed --slide --tokens 150 >$name.txt 2>sample.log || fail "sample raw: $(cat sample.log)"
done
cmp -s first.txt again.txt || fail "a seed gives two texts"
cmp -s first.txt other.txt && fail "two seeds give one text"
iconv -f UTF-8 -t UTF-8 first.txt >/dev/null || fail "the text is not UTF-8"
grep -q $'\xEF\xBF\xBD' first.txt || fail "random bytes are all UTF-8"

"$dragonn" export run run.safetensors >/dev/null 2>&1 || fail "export"
says abcd --config gpt.toml --weights run.safetensors --prompt a --tokens 3 --temperature 0

# refused PATTERN ARGUMENT...: one line, the exit code of wrong usage or bad data, and no text.
refused() {
  local pattern=$1 status=0
  shift
  "$dragonn" sample "$@" >refused.txt 2>refused.log || status=$?
  [ "$status" != 0 ] && [ "$(wc -l <refused.log)" = 1 ] && [ ! -s refused.txt ] && grep -qE -e "$pattern" refused.log ||
    fail "sample $*: $status: $(cat refused.log refused.txt)"
}
refused '^dragonn: expected either RUN_DIR, or --weights'
refused '^dragonn: expected either RUN_DIR, or --weights' run --weights run.safetensors
refused '^dragonn: no config file given, and none is not in a run folder' none
refused "^dragonn: the vocabulary has no character 'x'" run --prompt abx
refused '^dragonn: the prompt has 17 tokens, and the model sees 16 at most \(data.window\)' run --prompt abcdéabcdéabcdéab
refused '^dragonn: the tokenizer has 257 tokens, and the model 6 only' run --prompt a --tokenizer bytes
refused '^dragonn: temperature -1: valid' run --temperature -1
refused '^dragonn: top_p 0: valid' run --top-p 0
refused '^dragonn: top_p 1.5: valid' run --top-p 1.5
refused '^dragonn: top_k -2: valid' run --top-k -2
refused '^dragonn sample: .*--tokens' run --tokens 0
train quick.toml --output images --set train.epochs=1
refused '^dragonn: data "synthetic_images" does not keep its tokenizer' images
mkdir letters && echo '["a", "b"]' >letters/characters.json
refused '^dragonn: the model does not take tokens' images --tokenizer letters --prompt a
train gpt.toml --output encoder --set model.name=bert --set model.max_steps=32 --set train.max_steps=1
refused '^dragonn: layer layer0.attention \(attention, 2 heads\) cannot continue a text' encoder --prompt a
finish
