# Helpers of the program tests: bash scripts that run the built programs as a user would.
# Sourced with the folder of the programs as first argument; every test works in a folder of its own.
set -u
BIN=$(cd "$1" && pwd)
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# quick.toml: a run of a second.
cat >quick.toml <<'TOML'
seed = 3
[model]
name = "mlp"
hidden = [16]
[data]
name = "synthetic_images"
train_samples = 240
test_samples = 40
height = 6
width = 6
channels = 1
classes = 4
[train]
epochs = 3
batch_size = 4
[optimizer]
name = "sgd"
learning_rate = 0.05
momentum = 0.9
[compression]
method = "topk"
density = 0.05
[logging]
every_steps = 1
TOML

# expect_error CODE PATTERN -- COMMAND...: the command ends with CODE, and its only error line matches PATTERN.
expect_error() {
  local code=$1 pattern=$2
  shift 3
  local output status=0
  output=$(timeout 100 "$@" 2>&1 >/dev/null) || status=$?
  [ "$status" = "$code" ] || fail "exit code $status instead of $code: $* ($output)"
  grep -qE "$pattern" <<<"$output" || fail "no '$pattern' in the output of $*: $output"
  [ "$(grep -c ' E ' <<<"$output")" = 1 ] || fail "not one error line from $*: $output"
}

# has_fault_points: whether the programs can be made to fail (core/fault_point.h). A test that leaves something out says so.
has_fault_points() {
  "$BIN/dragonn-train" --version | grep -q 'with fault points' && return
  echo "left out: the build has no fault points (DRAGONN_FAULT_POINTS)"
  return 1
}

# wait_until PROCESS CONDITION...: the command CONDITION holds, or the process has ended, which fails if it still does not.
# There is no other limit than CTest's: a busy machine is slow.
wait_until() {
  local process=$1
  shift
  while ! "$@"; do
    kill -0 "$process" 2>/dev/null || { "$@"; return; }
    sleep 0.01
  done
}
has_checkpoint() { compgen -G "$1/checkpoints/step-*/DONE" >/dev/null; } # RUN_DIR

# patience COMMAND...: runs it, and prints a deadline in whole seconds, at least 2: short, and yet half of what the command took.
# A process that this machine is slow to run must not be taken for one that hangs.
patience() {
  local start=$EPOCHREALTIME
  "$@" >patience.log 2>&1 || echo "patience: $*: $(tail -3 patience.log)" >&2
  awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { print (end - start > 4 ? int((end - start) / 2) : 2) }'
}

# cifar FILE IMAGES: records of a label and 3072 bytes, in the official format.
cifar() {
  local i
  for ((i = 0; i < $2; ++i)); do
    printf '%b' "$(printf '\\0%03o' $((i % 10)))"
    head -c 3072 /dev/zero | tr '\0' "$(printf '\\%03o' $((40 + 20 * (i % 10))))"
  done >"$1"
}

# parameters_hash RUN_DIR
parameters_hash() { sed -n 's/.*"parameters_hash": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

finish() {
  [ "$failures" = 0 ] || { echo "$failures failed" >&2; exit 1; }
  echo "all passed"
}

# use_python_package: lets Python find the package dragonn. Ends the test as skipped, with the reason, without PyTorch.
use_python_package() {
  local reason
  reason=$(python3 -W ignore -c 'import numpy, torch' 2>&1) || { echo "skipped: ${reason##*$'\n'}"; exit 77; }
  export OMP_NUM_THREADS=1 DRAGONN_LIBRARY=$BIN/../library/libdragonn.so PYTHONPATH=$ROOT/python PYTHONDONTWRITEBYTECODE=1
  unset DRAGONN_DATA RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
}
# torchrun RANKS PROGRAM ARGUMENT...
torchrun() { timeout 200 python3 -W ignore -m torch.distributed.run --standalone --nproc-per-node "$@"; }
