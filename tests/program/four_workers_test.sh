#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The bundle for a machine with a GPU, here on the CPU: four_workers.sh goes on where the call before stopped, and check.sh says
# in a line why a part cannot run.
. "$(dirname "$0")/lib.sh" "$1"
if [ ! -x "$BIN/test_kernels" ] || [ ! -x "$BIN/test_trainer" ] || ! command -v strip >/dev/null; then
  echo "skipped: the bundle needs all tests for GPUs, and strip"
  exit
fi
DRAGONN_DATA='' "$ROOT/scripts/gpu/bundle.sh" --bin "$BIN" "$WORK/bundle" >bundle.txt || fail "the bundle: $(cat bundle.txt)"

mkdir data
cifar data/data_batch_1.bin 64
cifar data/test_batch.bin 20

four() { # ENVIRONMENT... -- ARGUMENT...
  local environment=()
  while [ "$1" != -- ]; do environment+=("$1"); shift; done
  shift
  env DEVICE=cpu WORKERS=2 "${environment[@]}" bash bundle/four_workers.sh --data data "$@" >four.txt 2>&1
}
call_s=$SECONDS
four METHODS=dense EPOCHS=2 -- out || fail "a dense run: $(cat four.txt)"
call_s=$((SECONDS - call_s + 1)) # two epochs on this machine. No run is begun in the last 10 s of a call.
grep -qE '^\| `dense` \| 2\.00 \| [0-9.]+ \| [0-9.e+]+ \| done \|$' out/table.md || fail "no row for dense: $(cat out/table.md)"
for file in curves.svg report.html runs.csv; do [ -s "out/$file" ] || fail "no $file"; done

four METHODS='dense dgc' EPOCHS=2 -- --seconds 5 --from out/state.tar.gz cut && fail "a run that had no time is not missing"
grep -q '^dgc: not run in this call' four.txt || fail "not said that a run is left: $(cat four.txt)"
four METHODS='dense dgc' EPOCHS=2 -- cut || fail "the next call: $(cat four.txt)"
grep -q '^dense: ' four.txt && fail "the dense run was repeated"
grep -qE '^\| `dgc` .* done \|$' cut/table.md || fail "no row for dgc: $(cat cut/table.md)"
tar -tzf cut/state.tar.gz | grep -q checkpoints/ && fail "the state has checkpoints of runs that are done"

# The state of a call that is stopped within a run: the next one continues from the last epoch.
tar -tzf out/state.tar.gz | grep -q dense-seed1/metrics.jsonl || fail "the state lacks the run"
seconds=$((12 + 3 * call_s))
four METHODS=topk EPOCHS=100000 -- --seconds $seconds long && fail "a run that was interrupted is not missing"
grep -q '^topk: interrupted' four.txt || fail "not said that a run was interrupted: $(cat four.txt)"
before=$(sed -n 's/^| `topk` | \([0-9]*\).*/\1/p' long/table.md)
# A call on a machine that has become busy ends before the epoch that the one before had come to: there are more calls.
for _ in 1 2 3 4 5; do
  four METHODS=topk EPOCHS=100000 -- --seconds $seconds long
  after=$(sed -n 's/^| `topk` | \([0-9]*\).*/\1/p' long/table.md)
  [ "${after:-0}" -le "${before:-0}" ] || break
done
[ "${after:-0}" -gt "${before:-0}" ] && [ "${before:-0}" -gt 0 ] || fail "from epoch '$before' to '$after'"
tar -xzOf long/state.tar.gz ./topk-seed1/log.txt | grep -q 'resum' || fail "the second call did not resume"

if ! command -v nvidia-smi >/dev/null; then
  bash bundle/check.sh --only decode,sanitize,pytorch checked >check.txt 2>&1 && fail "check.sh without a GPU"
  grep -q '^bench_decode: failed (2): dragonn-bench: --device cuda: ' check.txt || fail "no reason: $(cat check.txt)"
  for file in table.txt results.json logs.tar.gz; do [ -s "checked/$file" ] || fail "check.sh wrote no $file"; done
fi
bash bundle/check.sh --cpu --only decode checked >check.txt 2>&1 || fail "check.sh on the CPU: $(cat check.txt)"
grep -q '"decode": "sparse"' checked/results.json || fail "no rows in results.json"

finish
