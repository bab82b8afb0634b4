#!/usr/bin/env bash
# The device of a run: a GPU is used if the build and the machine have one, and never needed.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# The processor is always there, and says nothing of "auto".
"$train" quick.toml --set device=cpu --output cpu 2>/dev/null || fail "the run on the CPU"
grep -q 'device: the CPU$' cpu/log.txt || fail "the log of a run on the CPU does not say so"

if "$train" quick.toml --set device=cuda --dry-run >plan.txt 2>/dev/null; then
  grep -q '^device: cuda:0 (' plan.txt || fail "the dry run does not name the GPU"
  "$train" quick.toml --workers 2 --output auto 2>/dev/null || fail "auto with a GPU"
  grep -q 'device: cuda:0 (.*device = "auto"' auto/log.txt || fail "auto does not take the GPU that is there"

  gpu=(quick.toml --workers 2 --set device=cuda --set compression.overlap=true --set train.epochs=1)
  "$train" "${gpu[@]}" --output whole 2>/dev/null || fail "a run on a GPU"
  "$train" "${gpu[@]}" --set train.max_steps=7 --output parts 2>/dev/null || fail "a shorter run on a GPU"
  "$train" "${gpu[@]}" --output parts --resume auto 2>/dev/null || fail "resuming on a GPU"
  [ "$(parameters_hash whole)" = "$(parameters_hash parts)" ] || fail "a resumed run on a GPU ends elsewhere"
  for device in cpu cuda; do
    "$train" quick.toml --set device=$device --evaluate whole >$device.json 2>/dev/null || fail "evaluating on $device"
  done
  [ "$(grep -o '"accuracy": [0-9.]*' cpu.json)" = "$(grep -o '"accuracy": [0-9.]*' cuda.json)" ] ||
    fail "another accuracy on a GPU: $(cat cpu.json cuda.json)"
  "$train" quick.toml --set device=cuda --set model.name=resnet20 --set train.max_steps=2 --output resnet 2>/dev/null ||
    fail "a residual network on a GPU"
  finish
  exit
fi

# Without one, "cuda" is refused before anything is written, once, on any number of ranks; "auto" gives the reason.
refusal='device = "cuda": .+; expected "cpu" or "auto"'
expect_error 2 "$refusal" -- "$train" quick.toml --set device=cuda --output refused
expect_error 2 "$refusal" -- "$train" quick.toml --set device=cuda --workers 3 --output refused
expect_error 2 "$refusal" -- "$train" quick.toml --set device=cuda --dry-run
expect_error 2 "$refusal" -- mpirun -np 3 "$train" quick.toml --set device=cuda --output refused
expect_error 2 "$refusal" -- "$train" quick.toml --set device=cuda --set data.name=cifar10 --set data.path=no_such_folder
expect_error 2 'device_math = "tf32": the CPU .*; expected "float32"' -- "$train" quick.toml --set device_math=tf32 --output refused
expect_error 2 'device_math=fp8: expected' -- "$train" quick.toml --set device_math=fp8
for subcommand in compress decode step profile; do
  status=0
  output=$(timeout 100 "$BIN/dragonn-bench" $subcommand --device cuda --json refused 2>&1) || status=$?
  [ "$status" = 2 ] && [[ $output == dragonn-bench:*--device*cuda*cpu* ]] || fail "bench $subcommand without a GPU ($status): $output"
  [ "$(wc -l <<<"$output")" = 1 ] || fail "not one line from bench $subcommand: $output"
done

# NCCL moves the memory of GPUs, each of one process, with every sparsifier and every collective; quantizers send codes of the host.
nccl="--set comm.backend=nccl --output refused"
expect_error 2 'comm.backend = "nccl" needs a launcher' -- "$train" quick.toml $nccl
expect_error 2 'comm.backend = "nccl" moves the memory of GPUs, and this run computes on the CPU' -- mpirun -np 2 "$train" quick.toml $nccl
expect_error 2 "$refusal" -- mpirun -np 2 "$train" quick.toml --set device=cuda $nccl
expect_error 2 'quantizer = "qsgd"' -- mpirun -np 2 "$train" quick.toml $nccl --set compression.method=qsgd
[ -e refused ] && fail "a run without its device left a folder"

"$train" quick.toml --output auto 2>/dev/null || fail "auto without a GPU"
[ "$(grep -c 'device: the CPU; device = "auto" and .' auto/log.txt)" = 1 ] || fail "auto does not say why it took the CPU"
[ "$(parameters_hash cpu)" = "$(parameters_hash auto)" ] || fail "auto is not the CPU"
[ "$(sed -n 's/.*"config_hash": "\([0-9a-f]*\)".*/\1/p' cpu/summary.json)" = \
  "$(sed -n 's/.*"config_hash": "\([0-9a-f]*\)".*/\1/p' auto/summary.json)" ] || fail "the device is part of the config's hash"
"$train" quick.toml --dry-run 2>/dev/null | grep -q '^device: the CPU; device = "auto" and .' || fail "the dry run does not name the device"
"$train" quick.toml --print-config --set device=cuda 2>/dev/null | grep -q '^device = "cuda"' || fail "the config is not printed"
finish
