#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The comparison with PyTorch says why it does not run where something is missing; where nothing is, both sides send
# what an allreduce has to, and what was measured is not measured again. Skipped, with the reason, without PyTorch.
. "$(dirname "$0")/lib.sh" "$1"
peers=$ROOT/scripts/peers
config=$ROOT/configs/cifar10_resnet20.toml
unset DRAGONN_DATA

# status_of CODE COMMAND...: the command ends with CODE; what it says goes to output.log.
status_of() {
  local code=$1 status=0
  shift
  "$@" >output.log 2>&1 || status=$?
  [ "$status" = "$code" ] || fail "exit code $status instead of $code: $* ($(tail -3 output.log))"
}

# Without PyTorch.
mkdir absent
echo 'raise ImportError("no torch for this test")' >absent/torch.py
echo >absent/numpy.py
for command in "compare.py --bin $BIN" "ddp.py --config $config --hooks none --steps 1" "step_side_by_side.py --bin $BIN" \
  "loader_side_by_side.py --bin $BIN" "attention_side_by_side.py --bin $BIN" "gpt_twin.py $ROOT/configs/shakespeare_gpt.toml" \
  "torchft_diloco.py $ROOT/configs/shakespeare_diloco.toml --output torchft" "local_steps.py --bin $BIN --data ." \
  "local_twin.py $ROOT/configs/shakespeare_diloco.toml --output local" "local_curves.py $ROOT/configs/shakespeare_diloco.toml" \
  "hooks.py"; do
  # shellcheck disable=SC2086: a command and its arguments
  status_of 77 env PYTHONPATH="$WORK/absent" python3 "$peers"/$command
  grep -qE '^skipped: .*no torch for this test' output.log ||
    fail "$command does not say why it is skipped: $(cat output.log)"
done
status_of 2 python3 "$peers/compare.py" --bin "$BIN" --parts speed
grep -q "no 'speed': expected some of compute, throughput, accuracy" output.log ||
  fail "a part that there is not: $(cat output.log)"
status_of 2 python3 "$peers/compare.py" --bin "$WORK"
status_of 2 python3 "$peers/local_steps.py" --methods muon --data .
grep -q "no 'muon': expected some of dense, topk, diloco, sparseloco, streaming" output.log ||
  fail "a method that there is not: $(cat output.log)"
[ "$failures" = 0 ] || finish

reason=$(python3 -W ignore -c 'import numpy, torch' 2>&1) || { echo "skipped: ${reason##*$'\n'}"; exit 77; }

# Training steps: one model, one variant.
status_of 0 python3 "$peers/step_side_by_side.py" --bin "$BIN" --models mlp --threads 1 --variants eager --rounds 1 \
  --seconds 0.1 --json steps.json --baseline 'arena: MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=65536'
grep -qE '^\| mlp \| 1 \| [0-9.e+]+ \| [0-9.e+]+ \| eager, (default|tuned|arena) \|' output.log || fail "no row of steps: $(cat output.log)"
grep -q '"ratio": [0-9]' steps.json || fail "no ratio of steps: $(cat steps.json)"
for baseline in default tuned arena; do
  grep -q "\"eager, $baseline\": \[" steps.json || fail "PyTorch was not measured with the baseline $baseline: $(cat steps.json)"
done
grep -q '^- PyTorch, tuned: MALLOC_MMAP_MAX_=0 ' output.log || fail "the page does not name the variables: $(cat output.log)"
grep -q '^- PyTorch, arena: MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=65536$' output.log || fail "a user's baseline: $(cat output.log)"
for baseline in 'arena' 'arena: x' 'tuned: A=1'; do
  status_of 2 python3 "$peers/step_side_by_side.py" --bin "$BIN" --baseline "$baseline"
  grep -q "argument --baseline: '$baseline': " output.log || fail "--baseline '$baseline': $(cat output.log)"
done
cp steps.json before.json
status_of 0 python3 "$peers/step_side_by_side.py" --bin "$BIN" --models mlp --threads 1 --json steps.json
cmp -s steps.json before.json || fail "a row of steps was measured again"
status_of 2 python3 "$peers/step_side_by_side.py" --bin "$BIN" --models alexnet9
grep -q -- '--models alexnet9: valid are resnet20_32' output.log || fail "a model that there is not: $(cat output.log)"
status_of 0 python3 "$peers/attention_side_by_side.py" --bin "$BIN" --steps 16 --threads 1 --width 32 --heads 2 --rounds 1 \
  --repeats 1 --json attention.json
grep -q '"ratio": [0-9]' attention.json || fail "no ratio of attention: $(cat attention.json)"
status_of 0 python3 "$peers/products_side_by_side.py" --bin "$BIN" --shapes mlp --threads 1 --rounds 1 --seconds 0.01 \
  --libraries onednn,mkl --table products.md
for product in forward weights; do
  grep -qE "^\| mlp \| 128 x 512 x 784 \| $product \| 1 \| [1-9][0-9.]* \|" products.md || fail "no product $product: $(cat output.log)"
done
status_of 2 python3 "$peers/products_side_by_side.py" --bin "$BIN" --libraries atlas
grep -q -- '--libraries atlas: valid are onednn, openblas, blis, mkl' output.log || fail "an unknown library: $(cat output.log)"

# The twin of a GPT learns a text of one line; dragonn does, too.
for _ in $(seq 60); do echo "A line of a text that is always the same."; done >text.txt
"$BIN/dragonn" tokenize text.txt --characters --held-out 0.2 --output tokens >/dev/null 2>&1 || fail "no tokens"
twin=("$ROOT/configs/shakespeare_gpt.toml" --set data.path=tokens --set train.max_steps=80 --set train.epochs=60
  --set model.hidden=32 --set schedule.warmup_steps=0 --set schedule.decay_steps=80 --set optimizer.learning_rate=0.01)
status_of 0 python3 "$peers/gpt_twin.py" "${twin[@]}" --bin "$BIN" --json twin.json
"$BIN/dragonn-train" "${twin[@]}" --output gpt >/dev/null 2>train.log || fail "dragonn's GPT: $(tail -1 train.log)"
losses=$(sed -nE 's/.*"loss": ([0-9.e-]+).*/\1/p' twin.json)$(sed -nE 's/.*"kind":"eval".*"loss":([0-9.e-]+).*/ \1/p' gpt/metrics.jsonl | tail -1)
awk '{ exit !(NF == 2 && $1 < 1 && $2 < 1) }' <<<"$losses" || fail "losses of the twin and of dragonn: $losses"
status_of 2 python3 "$peers/gpt_twin.py" "${twin[@]}" --set optimizer.name=sgd --bin "$BIN"
grep -q 'optimizer.name = sgd: expected adamw' output.log || fail "a twin with another optimizer: $(cat output.log)"

# Loaders: an epoch of a few images.
if python3 -W ignore -c 'import torchvision' 2>/dev/null; then
  status_of 0 python3 "$peers/loader_side_by_side.py" --bin "$BIN" --images 24 --batch 4 --threads 1 --rounds 1
  grep -qE '^\| 1 \| [0-9]+ \| [0-9]+ \| (default|tuned) \| [0-9.]+ \|$' output.log || fail "no row of loaders: $(cat output.log)"
fi

reason=$("$ROOT/scripts/netns_cluster.sh" check 2>&1) || { echo "skipped: $reason"; exit 77; }

# Two hosts: ResNet-20 has 269,722 parameters of 4 bytes, and each of two ranks sends as many; top-k at 1 % sends less.
# The count may be off by an exchange of the 20.
compare=(python3 "$peers/compare.py" --bin "$BIN" --json peers.json --parts throughput --models resnet20 --rates 1gbit
  --hosts 2 --hooks plain --methods dense,topk --batch 2 --rounds 1 --steps 20)
status_of 0 "${compare[@]}"
# sent SIDE METHOD: bytes by a host's interface per step, of the first such run.
sent() { sed -nE "s/.*\"side\": \"$1\", \"method\": \"$2\".*\"sent_per_step\": ([0-9]+).*/\1/p" peers.json | head -n 1; }
for dense in "ddp plain" "dragonn dense"; do
  # shellcheck disable=SC2086: two words
  bytes=$(sent $dense)
  ((bytes > 1000000 && bytes < 1200000)) || fail "$dense: $bytes bytes per step"
done
topk=$(sent dragonn topk)
((topk > 19 * 8 * 2697 / 20 && topk < 100000)) || fail "topk: $topk bytes per step"
grep -qE '^\| PyTorch DDP \| [0-9.,]+ \(eager, (default|tuned)\); 1,[01][0-9]{2} kB \|$' output.log || fail "no row of DDP: $(cat output.log)"
cp peers.json before.json
status_of 0 "${compare[@]}"
cmp -s before.json peers.json || fail "what was measured is measured again"
! grep -q 'round 1' output.log || fail "a run again: $(cat output.log)"
status_of 1 "${compare[@]}" --hooks plain,fp16 --minutes 0
grep -q '2 runs are not there' output.log || fail "missing runs are not counted: $(cat output.log)"

# The hooks of DDP and of dragonn, in turns: what is sent tells them apart.
hooks=(python3 "$peers/hooks.py" --models resnet20 --rates 1gbit --hosts 2 --rounds 2 --steps 2 --warmup 3 --batch 2 --json hooks.json
  --hooks no_sync,plain,dragonn,blocking)
export DRAGONN_LIBRARY=$BIN/../library/libdragonn.so
status_of 0 "${hooks[@]}"
for hook in no_sync:0:20000 plain:1000000:1300000 dragonn:2000:100000 blocking:2000:100000; do
  IFS=: read -r name least most <<<"$hook"
  bytes=$(sed -nE "s/.*\"hook\": \"$name\".*\"sent_per_step\": ([0-9]+).*\"turns\": \[[0-9.e-]+, [0-9.e-]+\].*/\1/p" hooks.json)
  ((bytes >= least && bytes <= most)) || fail "hook $name: $bytes bytes per step: $(cat hooks.json)"
done
grep -qE '^\| dragonn, during backward \| 2 \| [0-9,]+ \| [0-9,]+ ms \| [0-9.]+ \| [0-9]+ kB \|$' output.log || fail "no row: $(cat output.log)"
grep -qE '"hook": "dragonn".*"exposed": [0-9.e-]+' hooks.json || fail "no time behind the last gradient: $(cat hooks.json)"
cp hooks.json before.json
status_of 0 "${hooks[@]}"
cmp -s before.json hooks.json || fail "what was measured is measured again"

# Both models of the comparison.
for model in resnet20 vgg16; do
  status_of 0 python3 "$peers/ddp.py" --config "$ROOT/configs/cifar10_$model.toml" --hooks none --steps 1 --warmup 1 --batch 2 \
    --output "$model.json"
done

# Training of a rank alone reads the files, and learns images that have one grey level per class.
mkdir cifar
cifar cifar/data_batch_1.bin 40
cp cifar/data_batch_1.bin cifar/test_batch.bin
status_of 0 python3 "$peers/ddp.py" --config "$config" --hooks none --epochs 4 --batch 4 --data cifar --output ddp.json
[ "$(grep -c '"accuracy"' ddp.json)" = 4 ] || fail "not four epochs: $(cat ddp.json)"
finish
