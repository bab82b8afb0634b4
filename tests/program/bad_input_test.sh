#!/usr/bin/env bash
# Bad input ends with one line that names the thing and what would be valid, with the right exit code and nothing written.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train

expect_error 2 "no such file: absent.toml" -- "$train" absent.toml

# A quick run ends early and says so; a value that is no number is refused.
DRAGONN_QUICK=2 "$train" quick.toml --workers 2 --output short >short.log 2>&1 || fail "DRAGONN_QUICK=2: $(cat short.log)"
grep -q '"steps": 2,' short/summary.json || fail "DRAGONN_QUICK=2 does not end after 2 steps"
grep -q 'DRAGONN_QUICK ends the run after step 2' short/summary.json || fail "DRAGONN_QUICK=2 passes in silence"
expect_error 2 "DRAGONN_QUICK=soon: expected a number of steps, at least 1" -- env DRAGONN_QUICK=soon "$train" quick.toml
expect_error 2 "unknown option --epochs; use --set train.epochs=3" -- "$train" --epochs 3 quick.toml
expect_error 2 "comm.workers=99999: expected integer" -- "$train" quick.toml --workers 99999
expect_error 2 "compresion.*did you mean 'compression'" -- "$train" quick.toml --set compresion.density=0.1
expect_error 2 "densty.*did you mean 'compression.density'" -- "$train" quick.toml --set compression.densty=0.1
expect_error 2 "batch_size.*integer" -- "$train" quick.toml --set train.batch_size=many
expect_error 2 "compression.density=1.5: expected number in \(0, 1\]" -- "$train" quick.toml --set compression.density=1.5
expect_error 2 "compression.density=0: expected number in \(0, 1\]" -- "$train" quick.toml --set compression.density=0
expect_error 2 "topkk.*did you mean 'topk'" -- "$train" quick.toml --set compression.method=topkk
expect_error 2 "resnet21.*did you mean" -- "$train" quick.toml --set model.name=resnet21
expect_error 2 "device=gpu: expected.*did you mean 'cuda'" -- "$train" quick.toml --set device=gpu
expect_error 2 "did you mean 'optimizer.learning_rate'" -- "$train" quick.toml --set optimizer.lr=0.1
# Options of other programs, misspelt ones, and too many words.
expect_error 2 "unknown option --epochs; use --set train.epochs=3" -- "$train" quick.toml --epochs 3
expect_error 2 "unknown option --epochs; use --set train.epochs=3" -- "$train" --epochs=3 quick.toml
expect_error 2 "unknown option --lr; use --set optimizer.learning_rate=0.1" -- "$train" quick.toml --lr 0.1
expect_error 2 "unknown option --batch-size; use --set train.batch_size=VALUE" -- "$train" quick.toml --batch-size
expect_error 2 "unknown option --resum; did you mean --resume" -- "$train" quick.toml --resum auto
expect_error 2 "unknown option --quux; see dragonn-train --help" -- "$train" quick.toml --quux
expect_error 2 "unexpected argument 'more.toml'" -- "$train" quick.toml more.toml
expect_error 2 "no config file given" -- "$train"
expect_error 2 "no config file given, and nothing is not in a run folder" -- "$train" --evaluate nothing
expect_error 2 "unknown kind 'modles'; did you mean 'models'" -- "$train" --list modles
expect_error 2 "unknown model 'resnet21'; did you mean" -- "$train" --list models resnet21
expect_error 2 "no component 'sidco_gpp'; did you mean 'sidco_gp'" -- "$train" --list sidco_gpp
printf '[train\nepochs = 1\n' >broken.toml
expect_error 2 "broken.toml:1" -- "$train" broken.toml
sed 's/^batch_size/batchsize/' quick.toml >unknown.toml
expect_error 2 "unknown.toml:$(grep -n batchsize unknown.toml | cut -d: -f1):1: train.batchsize.*batch_size" -- "$train" unknown.toml
sed 's/^density = .*/density = -1/' quick.toml >range.toml
expect_error 2 "range.toml:[0-9]+:[0-9]+: compression.density = -1: expected number in \(0, 1\]" -- "$train" range.toml

# More workers than samples; a model that does not fit the data.
expect_error 2 "samples" -- "$train" quick.toml --set data.train_samples=8 --workers 9
expect_error 2 "vgg16.*6" -- "$train" quick.toml --set model.name=vgg16

# What could block for ever is refused.
mkfifo pipe
expect_error 2 "pipe is no regular file, but a FIFO" -- "$train" pipe
expect_error 2 "/dev/zero is no regular file, but a device" -- "$train" /dev/zero
for rank in 0 1; do
  expect_error 2 "rank $rank of 2, comm.rendezvous: pipe is no regular file, but a FIFO" -- env RANK=$rank WORLD_SIZE=2 \
    "$train" quick.toml --set comm.backend=tcp --set comm.rendezvous=file:pipe --output pipes
done
[ -p pipe ] || fail "the pipe was replaced"

# What a file holds neither moves the cursor nor fills the terminal.
mkdir hostile
printf 'a\033[2Jb.wav\tOK\n' >hostile/train.tsv
expect_error 1 "hostile/train.tsv:1: no audio file hostile/a\?\[2Jb.wav" -- "$train" quick.toml --set data.name=speech --set data.path=hostile
head -c 5000000 /dev/zero | tr '\0' x >hostile/train.tsv
expect_error 1 "train.tsv:1: 'x{100}\.\.\.' is not 'audio file" -- "$train" quick.toml --set data.name=speech --set data.path=hostile
printf '[model]\nname = "mlp\\u001b[2J%0200d"\n' 0 >hostile/config.toml
expect_error 2 'model.name = "mlp\\u001B\[2J0+\.\.\.: expected string, one of' -- "$train" hostile/config.toml
head -c 2000000 /dev/zero | tr '\0' '#' >hostile/config.toml
expect_error 2 "config.toml: 2000000 bytes: should be at most 1048576" -- "$train" hostile/config.toml

# Missing and damaged data.
for name in cifar10 cifar100 mnist fashion_mnist; do
  expect_error 2 "no_such_folder: no such folder.* scripts/get_data.sh $name no_such_folder$" -- \
    "$train" quick.toml --set data.name=$name --set data.path=no_such_folder
done
for name in text ptb wikitext2 tinyshakespeare masked_text an4 speech xc; do
  expect_error 2 "no_such_folder: no such folder: data.path must name the folder of $name" -- \
    "$train" quick.toml --set data.name=$name --set data.path=no_such_folder
done
mkdir cifar
head -c 30000 /dev/zero >cifar/data_batch_1.bin
head -c 30730 /dev/zero >cifar/test_batch.bin
expect_error 1 "data_batch_1.bin" -- "$train" quick.toml --set data.name=cifar10 --set data.path=cifar
head -c 30730 /dev/zero | tr '\0' '\377' >cifar/data_batch_1.bin
expect_error 1 "data_batch_1.bin.*label" -- "$train" quick.toml --set data.name=cifar10 --set data.path=cifar
[ -e runs ] && fail "a failed start left a run folder"

# A damaged checkpoint.
"$train" quick.toml --output run --workers 2 2>/dev/null || fail "the plain run"
checkpoint=$(ls -d run/checkpoints/step-* | tail -1)
place=$(($(stat -c %s "$checkpoint/model.safetensors") - 200))
printf 'xx' | dd of="$checkpoint/model.safetensors" bs=1 seek=$place conv=notrunc 2>/dev/null
expect_error 1 "model.safetensors: checksum mismatch in field '.*: the file is damaged" -- \
  "$train" quick.toml --output run --workers 2 --resume auto
expect_error 1 "model.safetensors" -- "$train" quick.toml --evaluate "$checkpoint"
truncate -s 100 "$checkpoint/model.safetensors"
expect_error 1 "model.safetensors.*cut off" -- "$train" quick.toml --output run --workers 2 --resume auto
# A checkpoint from before archives were safetensors.
rm "$checkpoint/model.safetensors"
printf 'DRAGONN\n\1' >"$checkpoint/model.bin"
expect_error 1 "model.bin: an archive in the format before safetensors: dragonn up to commit [0-9a-f]+ reads it" -- \
  "$train" quick.toml --output run --workers 2 --resume auto
older=$(ls -d run/checkpoints/step-* | head -1)
# A damaged DONE: nobody loses steps in silence, and nothing waits for a pipe.
"$train" quick.toml --output scarred --workers 2 --set checkpoint.every_steps=5 --set train.max_steps=15 2>/dev/null ||
  fail "the run whose DONE is damaged"
hash=$(parameters_hash scarred)
for damage in emptied changed folder pipe missing all; do
  rm -rf damaged
  cp -r scarred damaged
  done=damaged/checkpoints/step-00000015/DONE
  way_out="older one: damaged/checkpoints/step-00000010"
  case $damage in
    emptied) : >$done; words="DONE is empty" ;;
    changed) printf 'S' | dd of=$done bs=1 conv=notrunc 2>/dev/null; words="DONE is not what a save writes" ;;
    folder) rm $done; mkdir $done; words="DONE is no regular file, but a folder" ;;
    pipe) rm $done; mkfifo $done; words="DONE is no regular file" ;;
    missing) rm $done; words="no such file: $done" ;;
    all) for file in damaged/checkpoints/*/DONE; do : >"$file"; done; words="DONE is empty" way_out="no older one is complete" ;;
  esac
  expect_error 1 "E .*$words.*$way_out" -- "$train" quick.toml --output damaged --workers 2 --resume auto
  expect_error 1 "E .*$words.*$way_out" -- "$train" quick.toml --evaluate damaged
  expect_error 2 "E damaged/checkpoints/step-00000015 is not a complete checkpoint: .*DONE" -- \
    "$train" quick.toml --output damaged --resume damaged/checkpoints/step-00000015
  cmp -s {scarred,damaged}/config.toml && cmp -s {scarred,damaged}/metrics.jsonl || fail "a refused resume writes ($damage)"
  [ $damage = all ] && continue
  "$train" quick.toml --output damaged --workers 2 --set checkpoint.every_steps=5 --set train.max_steps=15 \
    --resume damaged/checkpoints/step-00000010 2>/dev/null || fail "no way out ($damage)"
  [ "$(parameters_hash damaged)" = "$hash" ] || fail "other parameters after $damage"
  [ -e damaged/checkpoints/step-00000015.kept-1 ] || fail "the damaged checkpoint is gone ($damage)"
done
# A checkpoint on another number of workers: more than there are samples; without a rank's file; with another rank's.
expect_error 2 "E .*3 workers for 2 training samples: at most 2" -- \
  "$train" quick.toml --output other --workers 3 --set data.train_samples=2 --resume "$older"
cp -r "$older" lacking
mv lacking/rank-0001.safetensors away
for workers in 1 2 3; do
  expect_error 1 "lacking/rank-0001.safetensors is missing" -- \
    "$train" quick.toml --output other --workers "$workers" --resume lacking
done
cp lacking/rank-0000.safetensors lacking/rank-0001.safetensors
expect_error 1 "lacking/rank-0001.safetensors was saved by rank 0" -- \
  "$train" quick.toml --output other --workers 1 --resume lacking
# Work of rank 0 for all ranks concerns all: no rank is named.
expect_error 2 "E --resume nothing: no such folder" -- "$train" quick.toml --output other --workers 2 --resume nothing
: >file
expect_error 2 "E --output file is a file" -- "$train" quick.toml --output file --workers 2
# A checkpoint of another model names both.
wide="$older holds the model 'mlp' of [0-9]+ parameters, and the config names the model 'mlp' of [0-9]+:"
expect_error 2 "E $wide" -- "$train" quick.toml --output other --workers 2 --set "model.hidden=[17]" --resume "$older"
expect_error 2 "E $wide" -- "$train" quick.toml --set "model.hidden=[17]" --evaluate "$older"
expect_error 2 "E $older holds the model 'mlp' of [0-9]+ parameters, and the config names the model 'resnet20'" -- \
  "$train" quick.toml --set model.name=resnet20 --evaluate "$older"
# A resumed run says what has changed.
"$train" quick.toml --output run --workers 2 --set train.epochs=4 --resume "$older" 2>changed.txt || fail "a longer run"
grep -q 'W resumed after step [0-9]*; changed since the checkpoint: train.epochs 3 -> 4$' changed.txt ||
  fail "no change in: $(cat changed.txt)"

# Weights that are no numbers are not blamed on the learning rate.
"$train" --export weights --from run 2>/dev/null || fail "the export of run"
printf '\0\0\300\177' | dd of=weights bs=1 seek=$(($(stat -c %s weights) - 4)) conv=notrunc 2>/dev/null
expect_error 2 "E .*weights: tensor '[a-z0-9.]+': its value at \[[0-9, ]+\] is NaN" -- \
  "$train" quick.toml --output unread --workers 2 --set train.init_from=weights
[ -e unread ] && fail "refused weights left a run folder"

# A run folder has its config: neither evaluating nor resuming it needs another.
for folder in run run/ "$older"; do
  "$train" --evaluate "$folder" 2>errors.txt | grep -q '"accuracy"' || fail "evaluating $folder: $(cat errors.txt)"
done
"$train" --resume run 2>errors.txt || fail "resuming run by itself: $(cat errors.txt)"

# Inspection needs no config.
"$train" --print-config | grep -q '^learning_rate = ' || fail "no defaults without a config"
"$train" --print-config=all | grep -q '^#   sample_ratio = ' || fail "no settings of all components"
"$train" --print-config quick.toml >printed.toml || fail "--print-config ahead of the config"
"$train" printed.toml --print-config | diff printed.toml - || fail "the printed config is another one"
"$train" --list data | grep -q '^cifar10  *' || fail "the table data names no data set"
"$train" --list sidco_gp | grep -q '^method *sidco_gp$' || fail "a method's name alone does not print it"
"$train" --list collectives gtopk | grep -q 'words of 4 bytes' || fail "no traffic of a collective"
"$train" --version | grep -q '^dragonn-train [0-9]' || fail "no version"
"$train" --help | awk 'length > 80 { exit 1 }' || fail "--help is wider than 80 columns"

# A sparsifier without error feedback is a loss that is said, and the end of a run says it again.
"$train" quick.toml --output lossy --workers 2 --set compression.memory=none 2>lossy.txt || fail "a run without memory"
[ "$(grep -c 'are lost' lossy.txt)" = 2 ] || fail "the loss is not said twice: $(cat lossy.txt)"
grep -q 'I Finished in .* accuracy .*less than dense' lossy.txt || fail "no final report: $(cat lossy.txt)"
grep -q "parameters $(parameters_hash lossy)" lossy/log.txt || fail "no hash in the log"

# A full disk, where one can be made: nothing half-written stays.
if mkdir full && mount -t tmpfs -o size=48k tmpfs full 2>/dev/null; then
  expect_error 1 "(not enough disk|No space left).*" -- "$train" quick.toml --output full/run --workers 4
  [ -z "$(find full -name '*.tmp' -o -name '*.partial')" ] || fail "half-written files on the full disk"
  umount full
else
  echo "skipped: mounting a small file system is not allowed here"
fi
finish
