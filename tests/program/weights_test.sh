#!/usr/bin/env bash
# Weights leave a checkpoint and enter a run, bit for bit; PyTorch computes the same logits from them. What needs PyTorch is
# skipped without it and the package safetensors.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
export OMP_NUM_THREADS=1

value() { sed -n "s/.*\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" "$1/summary.json"; }

# images.toml: four steps of resnet20 on small images, so that the running moments have moved.
sed -e 's/^name = "mlp"/name = "resnet20"/' -e '/^hidden/d' -e 's/^channels = 1/channels = 3/' \
  -e 's/^epochs.*/epochs = 1\nmax_steps = 4/' quick.toml >images.toml
"$train" images.toml --workers 2 --output run >log 2>&1 || fail "resnet20: $(tail -3 log)"
"$train" --export w.safetensors --from run >log 2>&1 || fail "--export: $(cat log)"
grep -q "wrote 97 tensors of resnet20 after step 4 to w.safetensors" log || fail "the export says: $(cat log)"
"$train" --export again.safetensors --from run/checkpoints/step-00000004 >log 2>&1 || fail "--from a checkpoint: $(cat log)"
cmp w.safetensors again.safetensors || fail "a run and its checkpoint give two files"

# Back, bit for bit: a run that learns nothing keeps the parameters, and evaluates as the first.
"$train" images.toml --workers 2 --output back --set train.init_from=w.safetensors --set optimizer.learning_rate=0 \
  --set train.max_steps=1 >log 2>&1 || fail "train.init_from: $(tail -3 log)"
grep -q "starts from the weights in w.safetensors" log || fail "train.init_from passes in silence"
[ "$(value back parameters_hash)" = "$(value run parameters_hash)" ] || fail "parameters change on their way back"

# Weights of another head: missing and superfluous tensors are listed, wrong ones end the run before it writes anything.
sed 's/^name = "resnet20"/name = "resnet32"/' images.toml >deeper.toml
"$train" deeper.toml --output deeper --set train.init_from=w.safetensors --set train.max_steps=1 >log 2>&1 ||
  fail "weights of a shallower network: $(cat log)"
grep -q "train.init_from: w.safetensors lacks tensors of the model, which keep their initial values: 60 (" deeper/summary.json ||
  fail "missing tensors are not listed"
expect_error 2 "w.safetensors: tensor 'output.weight': its shape is \[4, 64\], and the model's is \[7, 64\]" -- \
  "$train" images.toml --output bad --set train.init_from=w.safetensors --set data.classes=7
head -c 3000 w.safetensors >cut.safetensors
expect_error 1 "cut.safetensors: the header's length is [0-9]+, and 2992 bytes follow it" -- \
  "$train" images.toml --workers 2 --output bad --set train.init_from=cut.safetensors
expect_error 2 "no such file: absent.safetensors" -- "$train" images.toml --output bad --set train.init_from=absent.safetensors
[ ! -e bad ] || fail "a refused run wrote $(ls bad)"
expect_error 2 "no config file given, and nothing is not in a run folder" -- "$train" --export w --from nothing
expect_error 2 "export back: it is a folder" -- "$train" --export back --from run

python3 -W ignore -c 'import torch, safetensors' 2>/dev/null || {
  [ "$failures" = 0 ] && echo "skipped: python3 has no PyTorch and safetensors (modules torch, safetensors)" && exit 77
  finish
}

# dump MODEL WEIGHTS OPTION...: the logits of a model with these weights, in the folder MODEL.
dump() {
  local model=$1 weights=$2
  shift 2
  "$BIN/dragonn-bench" step --progress-every 1e6 --rounds 1 --threads 1 --product-side 64 --model "$model" "$@" \
    --weights "$weights" --dump "$model" >log 2>&1 || fail "a dump of $model: $(tail -3 log)"
}

# trained MODEL KEY=VALUE...: MODEL.safetensors of one step on small images.
trained() {
  local model=$1 options=() option
  shift
  for option in "$@"; do options+=(--set "$option"); done
  "$train" images.toml --output "run-$model" --set "model.name=$model" --set train.max_steps=1 "${options[@]}" >log 2>&1 &&
    "$train" --export "$model.safetensors" --from "run-$model" >log 2>&1 || fail "weights of $model: $(tail -3 log)"
}

dump resnet20 w.safetensors --sample 6x6x3 --classes 4
trained mlp
dump mlp mlp.safetensors --sample 6x6x3 --classes 4
trained vgg11 'model.form="imagenet"' model.width=0.125 data.height=40 data.width=40
dump vgg11 vgg11.safetensors --sample 40x40x3 --classes 4 --set form=imagenet --set width=0.125
check=$HERE/weights_check.py
timeout 250 python3 "$check" "$ROOT/scripts" logits w.safetensors resnet20 mlp.safetensors mlp vgg11.safetensors vgg11 >log 2>&1 ||
  fail "PyTorch's logits differ: $(tail -5 log)"
trained mlp seed=4
timeout 250 python3 "$check" "$ROOT/scripts" logits mlp.safetensors mlp >log 2>&1 && fail "other weights have the same logits: $(cat log)"

# A gpt2 goes from the package transformers to us and back: equal logits, and equal losses of 20 steps of AdamW.
python3 -W ignore -c 'import transformers' 2>/dev/null || {
  [ "$failures" = 0 ] && echo "skipped: python3 has no transformers" && exit 77
  finish
}
timeout 250 python3 "$check" "$ROOT/scripts" make-gpt2 theirs >log 2>&1 || fail "transformers makes no GPT-2: $(tail -3 log)"
cat >gpt2.toml <<'TOML'
[model]
name = "gpt2"
layers = 2
hidden = 16
heads = 2
positions = 16
dropout = 0
[data]
name = "token_shards"
path = "theirs"
vocabulary = 50
window = 12
[train]
max_steps = 20
epochs = 20
batch_size = 6
init_from = "theirs/model.safetensors"
[optimizer]
name = "adamw"
learning_rate = 0.01
beta2 = 0.95
weight_decay = 0.1
weight_decay_norm_bias = false
[schedule]
name = "constant"
[compression]
method = "dense"
[logging]
every_steps = 1
TOML
"$train" gpt2.toml --output run-gpt2 >log 2>&1 || fail "gpt2: $(tail -3 log)"
grep -q "lacks tensors\|has tensors" log && fail "transformers' tensors do not fit: $(cat log)"
mkdir -p ours
"$train" --export ours/model.safetensors --from run-gpt2 >log 2>&1 || fail "an export of gpt2: $(cat log)"
grep -q "wrote ours/config.json" log || fail "no config.json: $(cat log)"
small="--sample 12 --classes 50 --batch 3 --set layers=2 --set hidden=16 --set heads=2 --set positions=16 --set dropout=0.0"
for folder in theirs ours; do
  dump gpt2 $folder/model.safetensors $small
  mv gpt2 dump-$folder
done
timeout 250 python3 "$check" "$ROOT/scripts" logits theirs/model.safetensors dump-theirs ours/model.safetensors dump-ours >log 2>&1 ||
  fail "transformers' logits differ: $(tail -5 log)"
timeout 250 python3 "$check" "$ROOT/scripts" steps theirs run-gpt2 >log 2>&1 || fail "losses of steps differ: $(tail -5 log)"

finish
