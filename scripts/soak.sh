#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a small model for many steps on a virtual cluster, and checks that its memory stays flat and its counters do not
# drift: bytes and messages of every logged step must be those of the first, and their sum what metrics.jsonl says.
# Usage: scripts/soak.sh [--steps N] [--workers P] [--output DIR]      defaults: 100000, 64, runs/soak
# Environment: DRAGONN_BIN, the folder of the programs (build/release/bin).
# Exit code 1 if resident memory grew by more than 2 MB after the first fifth of the run, or a counter differs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=100000 workers=64 output=runs/soak bin=${DRAGONN_BIN:-build/release/bin}
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=${2:?} && shift ;;
    --workers) workers=${2:?} && shift ;;
    --output) output=${2:?} && shift ;;
    *) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/soak.sh >&2 && exit 2 ;;
  esac
  shift
done
((workers <= 64)) || { echo "soak.sh: --workers $workers: expected at most 64" >&2 && exit 2; }
mkdir -p "$output"

settings=(model.hidden=[8] "data.train_samples=$((workers * 64))" data.test_samples=64 data.height=4 data.width=4 data.channels=1
  data.classes=4 "train.epochs=$steps" "train.max_steps=$steps" train.batch_size=1 "train.eval_every_epochs=$((steps / 10 / 64 + 1))"
  optimizer.learning_rate=0.01 optimizer.momentum=0 compression.method=gtopk compression.density=0.1 network.model=alpha-beta
  network.preset=1gbe network.compute=zero "checkpoint.every_steps=$((steps / 10 + 1))" "logging.every_steps=$((steps / 100 + 1))")
"$bin/dragonn-train" configs/synthetic_quick.toml --workers "$workers" --output "$output/run" "${settings[@]/#/--set=}" \
  2>"$output/log" &
process=$!
: >"$output/memory"
while kill -0 $process 2>/dev/null; do
  step=$(grep -c '"kind":"step"' "$output/run/metrics.jsonl" 2>/dev/null || true)
  kib=$(awk '/^VmRSS/ { print $2 }' /proc/$process/status 2>/dev/null || true)
  [ -z "$kib" ] || echo "${step:-0} $kib" >>"$output/memory"
  sleep 0.2
done
wait $process || { tail -n 3 "$output/log" >&2; exit 1; }

PYTHONPATH=scripts python3 - "$output" "$steps" <<'PYTHON'
import sys
from runs import metrics
output, steps = sys.argv[1], int(sys.argv[2])
logged = metrics(f"{output}/run", "step")
first, last = logged[0], logged[-1]
faults = [f"{key} of a step differs from that of the first" for key in ("bytes_sent", "bytes_received", "messages")
          if any(line[key] != first[key] for line in logged)]
sent = first["bytes_sent"]["mean"] * last["step"]
if last["bytes_sent_total"] != sent:
    faults.append(f"{last['bytes_sent_total']} bytes in all, not {sent}")
if last["step"] != steps:
    faults.append(f"{last['step']} steps instead of {steps}")
samples = [tuple(map(int, line.split())) for line in open(f"{output}/memory")]
# Once its last step is logged, the process may be in its exit, where libraries touch pages that no step needed.
settled = [kib for done, kib in samples if len(logged) / 5 <= done < len(logged)]
if not settled:
    faults.append("too short to measure its memory")
else:
    grown = max(settled) - settled[0]
    print(f"{last['step']} steps: {len(samples)} samples of memory, {settled[0] * 1.024e-3:.1f} MB after a fifth, "
          f"{max(settled) * 1.024e-3:.1f} MB at most, {first['bytes_sent']['mean']:.0f} bytes a step and worker")
    if grown * 1.024e-3 > 2:
        faults.append(f"memory grew by {grown * 1.024e-3:.1f} MB")
for fault in faults:
    print("soak:", fault, file=sys.stderr)
sys.exit(1 if faults else 0)
PYTHON
