#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs tests again and again, every second time on a busy machine: beside a process per processor that does nothing but
# compute. What depends on how fast or how idle a machine is shows there. Programs must have been built (scripts/test.sh).
# Usage: scripts/repeat_tests.sh N [REGEX]     REGEX: of CTest's names; if not given, the tests of failures, deadlines and time
# Environment: PRESET (release).
# The last line is "N passed, N failed", counted in runs; ends with 1 if any failed. What a failed run printed is in
# build/PRESET/repeat_tests/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $# -lt 1 || $# -gt 2 || ! $1 =~ ^[1-9][0-9]{0,3}$ ]]; then
  awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/repeat_tests.sh
  [[ ${1:-} =~ ^(-h|--help)$ ]] && exit 0 || exit 2
fi
readonly runs=$1 regex=${2:-'^(comm/.*|comm_mpi_(fails|times).*|exchange/.*|trainer/.*|netns|program_(failure|four_workers|mpi|resume|tcp))$'}
readonly preset=${PRESET:-release}
readonly output=build/$preset/repeat_tests

busy=()
stop_busy() {
  kill "${busy[@]}" 2>/dev/null || true
  wait "${busy[@]}" 2>/dev/null || true
  busy=()
}
trap stop_busy EXIT
trap 'exit 130' INT TERM

mkdir -p "$output"
passed=0 failed=0
for ((run = 1; run <= runs; ++run)); do
  log=$output/$run.txt beside=""
  if ((run % 2 == 0)); then
    beside=", busy"
    for ((processor = $(nproc); processor > 0; --processor)); do
      (while :; do :; done) &
      busy+=($!)
    done
  fi
  if ctest --preset "$preset" --tests-regex "$regex" --no-tests=error --output-on-failure </dev/null >"$log" 2>&1; then
    verdict=passed
    passed=$((passed + 1))
  else
    verdict="failed ($log)"
    failed=$((failed + 1))
  fi
  stop_busy
  skipped=$(grep -c '\*\*\*Skipped' "$log" || true)
  echo "run $run of $runs$beside: $verdict$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
