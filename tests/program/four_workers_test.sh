#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The bundle for trainings on a machine with a GPU, here on the CPU: four_workers.sh goes on where the call before stopped.
. "$(dirname "$0")/lib.sh" "$1"
command -v strip >/dev/null || { echo "skipped: the bundle needs strip" && exit 77; }
DRAGONN_DATA='' "$ROOT/scripts/gpu/bundle.sh" --for convergence --bin "$BIN" "$WORK/bundle" >bundle.txt 2>&1 ||
  fail "the bundle: $(cat bundle.txt)"

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
four METHODS='dense dgc topk' PER_CALL=1 EPOCHS=2 -- --from out/state.tar.gz one && fail "a method that had no turn is not missing"
grep -q '^topk: not run in this call' four.txt && grep -q '^dgc: done' four.txt || fail "not one method in a call: $(cat four.txt)"
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

finish
