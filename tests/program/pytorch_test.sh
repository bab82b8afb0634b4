#!/usr/bin/env bash
# A step of every model agrees with PyTorch, and the check that says so notices a wrong gradient. Skipped without PyTorch.
. "$(dirname "$0")/lib.sh" "$1"
bench=$BIN/dragonn-bench
check=$ROOT/scripts/check_against_pytorch.py
export OMP_NUM_THREADS=1  # small arrays are no work for more
python3 -W ignore -c 'import torch' 2>/dev/null || { echo "skipped: python3 has no PyTorch (module torch)"; exit 77; }

# small MODEL: options of `dragonn-bench step` that make a small instance of it.
small() {
  case $1 in
    bert) echo --batch 2 --classes 40 --sample 9 --set layers=2 --set hidden=16 --set max_steps=12 --set dropout=0.0 ;;
    gpt2) echo --batch 2 --classes 40 --sample 9 --set layers=2 --set hidden=16 --set heads=2 --set positions=12 --set dropout=0.0 ;;
    lstm_lm) echo --batch 2 --classes 40 --sample 9 --set hidden=16 --set dropout=0.0 ;;
    lstm_speech) echo --batch 5 --classes 9 --sample 24x33 --set layers=2 --set hidden=7 --set channels=3 ;;
    mlp) echo --batch 4 --classes 5 --sample 12 --set hidden='[7,5]' ;;
    mlp_mixer) echo --batch 3 --sample 10x9x3 --set layers=2 --set hidden=12 --set token_units=8 --set channel_units=20 ;;
    vit) echo --batch 3 --sample 10x9x3 --set layers=2 --set hidden=12 --set heads=3 ;;
    xml_linear) echo --batch 5 --classes 50 --sample 20 ;;
    alexnet) echo --batch 3 --sample 63x67x3 --set width=0.125 --set local_response=true ;;
    googlenet | senet18) echo --batch 3 --sample 13x11x3 --set width=0.25 ;;
    inception_v4) echo --batch 3 --sample 9x11x3 --set width=0.125 ;;
    resnet18 | resnet50 | vgg*) echo --batch 2 --sample 20x20x3 ;;
    *) echo --batch 2 --sample 16x16x3 ;;
  esac
}

# dump FOLDER OPTION...: one step of a model.
dump() { "$bench" step --progress-every 1e6 --rounds 1 --threads 1 --dump "$@" >/dev/null; }

# expect CODE PATTERN FOLDER...: the check ends with CODE, and its output has PATTERN.
expect() {
  local code=$1 pattern=$2 output status=0
  shift 2
  output=$(timeout 250 python3 "$check" "$@" 2>&1) || status=$?
  [ "$status" = "$code" ] && grep -qE -e "$pattern" <<<"$output" ||
    fail "the check of $* ends with $status instead of $code: $(grep -v '^ok' <<<"$output" | tail -8)"
}

# agree MODEL...: all of them in one run of the check, which takes seconds to start.
agree() {
  local model
  [ $# -gt 0 ] || fail "dragonn-train --list names no such model"
  for model in "$@"; do dump "$model" --model "$model" $(small "$model") || fail "a dump of $model"; done
  expect 0 ": 0 of [0-9]+ arrays of ${*: -1} differ" "$@"
  rm -rf "$@"
}

models=$("$BIN/dragonn-train" --list | sed -n 's/^model \([a-z0-9_]*\):.*/\1/p')
# The models run in groups: the dumps of the large ones need half a gigabyte.
agree $(grep '^vgg' <<<"$models")
agree $(grep '^resnet' <<<"$models" | grep -v '101\|152')  # these two are resnet50 with more blocks
agree $(grep -v '^vgg\|^resnet' <<<"$models")

# Settings that lead elsewhere.
dump gru --model lstm_speech $(small lstm_speech) --set cell=gru --set bidirectional=true --set lookahead=0 || fail "gru"
dump tied --model bert $(small bert) --set tied=false || fail "untied"
dump gpt2 --model gpt2 $(small gpt2) --set tied=false || fail "an untied gpt2"
dump pad --model resnet20 --batch 2 --sample 9x9x1 --set shortcut=projection || fail "convolutions in shortcuts"
dump se --model senet18 --batch 3 --sample 11x9x3 --set width=0.25 --set form=residual || fail "a residual senet"
dump v4 --model inception_v4 --batch 3 --sample 75x77x1 --set width=0.125 --set stem=imagenet || fail "a large stem"
dump vgg --model vgg11 --batch 3 --sample 33x35x3 --set width=0.125 --set form=imagenet || fail "an original vgg"
dump mlp --model mlp --batch 3 --sample 4x5x2 --set activation=gelu || fail "an mlp of images"
expect 0 ": 0 of 6 arrays of mlp differ" gru tied gpt2 pad se v4 vgg mlp

# Faults are noticed: another array of the same shape, a file that is gone or cut off, dropout, an unknown model.
cp mlp/parameter.output.weight.npy mlp/gradient.output.weight.npy
expect 1 "^FAIL .* gradient.output.weight$" mlp
head -c 100 pad/logits.npy >cut && mv cut pad/logits.npy
expect 2 "logits.npy: not an array" pad
rm tied/labels.npy
expect 2 "No such file.*tied/labels.npy" tied
sed -i 's/"model": "lstm_speech"/"model": "lstm_sneeze"/' gru/model.json
expect 2 "model lstm_sneeze: known here are mlp, " gru
dump dropped --model mlp --sample 12 --set dropout=0.5 || fail "a dump with dropout"
expect 2 "dropout = 0.5" dropped

finish
