#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The examples of the Python package. A run of which torchrun starts the processes again, because one was killed while it saved, ends
# with the bits of an undisturbed one. A plain loop has the same bits whether gradients travel during backward or behind it. The
# Trainer of transformers learns, and goes on from its checkpoint with the bits of one run. Skipped, with the reason, without PyTorch;
# the Trainer without transformers or accelerate.
. "$(dirname "$0")/lib.sh" "$1"
use_python_package
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # examples/pytorch_restart.py says why

# start LOG ARGUMENT...: torchrun with two processes.
start() {
  local log=$1
  shift
  torchrun 2 "$@" >"$log" 2>&1 ||
    fail "$*: $(grep -m 3 '^rank' "$log" || tail -5 "$log")"
}
# result KEY LOG: of the line of JSON.
result() { sed -nE "s/^\{.*\"$1\": (\[[^]]*\]|[^,}]*).*/\1/p" "$2"; }

# killed.py EXAMPLE ARGUMENT...: rank 1 is killed before its second checkpoint is whole.
cat >killed.py <<'PYTHON'
import os
import runpy
import signal
import sys

count, replace = 0, os.replace


def counted(*arguments):
    global count
    count += 1
    if count == 2 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)


os.replace = counted
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
PYTHON
example=$ROOT/examples/pytorch_restart.py
start whole.log "$example" --folder whole --steps 25
start restarted.log --max-restarts 1 killed.py "$example" --folder restarted --steps 25
grep -q "goes on after step 10" restarted.log || fail "not from the last step of both: $(tail -5 restarted.log)"
[ -n "$(result parameters_hash whole.log)" ] || fail "no hash: $(cat whole.log)"
[ "$(result parameters_hash whole.log)" = "$(result parameters_hash restarted.log)" ] ||
  fail "other parameters than without a restart: $(grep '^{' whole.log restarted.log)"
grep -q "goes on" whole.log && fail "a new run found checkpoints: $(cat whole.log)"
[ "$(echo restarted/*)" = "$(echo restarted/rank{0,1}-step{10,20}.pt)" ] || fail "checkpoints: $(echo restarted/*)"

start during.log "$ROOT/examples/pytorch_exchange.py" --steps 50
start behind.log "$ROOT/examples/pytorch_exchange.py" --steps 50 --blocking
[ -n "$(result parameters_hash during.log)" ] || fail "no hash: $(cat during.log)"
[ "$(result parameters_hash during.log)" = "$(result parameters_hash behind.log)" ] ||
  fail "other bits during backward than behind it: $(cat during.log behind.log)"
awk -F'[][, ]+' '{ exit !($2 > 0.6 && $3 < 0.6) }' <<<" $(result loss during.log)" || fail "no loss to see: $(cat during.log)"

python3 -W ignore -c 'import transformers, accelerate' 2>missing || {
  echo "left out: $(tail -1 missing)"
  finish
  exit
}
export TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1
for _ in $(seq 60); do echo "A line of a text that is always the same."; done >text.txt
trainer=("$ROOT/examples/transformers_trainer.py" --text text.txt --save-every 10)
start trained.log "${trainer[@]}" --output trained --steps 20
mv trained/checkpoint-20 .
start resumed.log "${trainer[@]}" --output trained --steps 20 --resume
[ -n "$(result parameters_hash trained.log)" ] || fail "no hash: $(tail -5 trained.log)"
[ "$(result parameters_hash trained.log)" = "$(result parameters_hash resumed.log)" ] ||
  fail "the Trainer goes on with other bits: $(grep -h '^{' trained.log resumed.log)"
awk -F'[][, ]+' '{ exit !($3 < 0.9 * $2) }' <<<" $(result loss trained.log)" || fail "the Trainer learns nothing: $(tail -3 trained.log)"
finish
