#!/usr/bin/env bash
# Bad input ends with one line that names the thing and what would be valid, with the right exit code and nothing written.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train

expect_error 2 "no such file: absent.toml" -- "$train" absent.toml
expect_error 2 "compresion.*did you mean 'compression'" -- "$train" quick.toml --set compresion.density=0.1
expect_error 2 "densty.*did you mean 'compression.density'" -- "$train" quick.toml --set compression.densty=0.1
expect_error 2 "batch_size.*integer" -- "$train" quick.toml --set train.batch_size=many
expect_error 2 "compression.density=1.5: expected number in \(0, 1\]" -- "$train" quick.toml --set compression.density=1.5
expect_error 2 "compression.density=0: expected number in \(0, 1\]" -- "$train" quick.toml --set compression.density=0
expect_error 2 "topkk.*did you mean 'topk'" -- "$train" quick.toml --set compression.method=topkk
expect_error 2 "resnet21.*did you mean" -- "$train" quick.toml --set model.name=resnet21
expect_error 2 "device=gpu: expected.*cuda" -- "$train" quick.toml --set device=gpu
printf '[train\nepochs = 1\n' >broken.toml
expect_error 2 "broken.toml:1" -- "$train" broken.toml
sed 's/^batch_size/batchsize/' quick.toml >unknown.toml
expect_error 2 "unknown.toml:$(grep -n batchsize unknown.toml | cut -d: -f1):1: train.batchsize.*batch_size" -- "$train" unknown.toml
sed 's/^density = .*/density = -1/' quick.toml >range.toml
expect_error 2 "range.toml:[0-9]+:[0-9]+: compression.density = -1: expected number in \(0, 1\]" -- "$train" range.toml

# More workers than samples; a model that does not fit the data.
expect_error 2 "samples" -- "$train" quick.toml --set data.train_samples=8 --workers 9
expect_error 2 "vgg16.*6" -- "$train" quick.toml --set model.name=vgg16

# Missing and damaged data.
expect_error 2 "no_such_folder" -- "$train" quick.toml --set data.name=cifar10 --set data.path=no_such_folder
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
printf 'x' | dd of="$checkpoint/model.bin" bs=1 seek=200 conv=notrunc 2>/dev/null
expect_error 1 "model.bin.*(checksum|damaged|truncated)" -- "$train" quick.toml --output run --workers 2 --resume auto
expect_error 1 "model.bin" -- "$train" quick.toml --evaluate "$checkpoint"
truncate -s 100 "$checkpoint/model.bin"
expect_error 1 "model.bin.*truncated" -- "$train" quick.toml --output run --workers 2 --resume auto
older=$(ls -d run/checkpoints/step-* | head -1)
expect_error 2 "2 workers" -- "$train" quick.toml --output other --workers 3 --resume "$older"
expect_error 2 "nothing" -- "$train" quick.toml --output other --resume nothing

# A full disk, where one can be made: nothing half-written stays.
if mkdir full && mount -t tmpfs -o size=48k tmpfs full 2>/dev/null; then
  expect_error 1 "(not enough disk|No space left).*" -- "$train" quick.toml --output full/run --workers 4
  [ -z "$(find full -name '*.tmp' -o -name '*.partial')" ] || fail "half-written files on the full disk"
  umount full
else
  echo "skipped: mounting a small file system is not allowed here"
fi
finish
