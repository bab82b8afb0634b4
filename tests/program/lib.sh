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
