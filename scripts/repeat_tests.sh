#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs tests again and again, every second time beside a process per processor that does nothing but compute: what depends
# on how fast or how idle a machine is shows there. Programs must have been built (scripts/test.sh).
# Usage: scripts/repeat_tests.sh N [REGEX]     REGEX: of CTest's names; if not given, the tests of failures, deadlines and time
# Environment: PRESET (release).
# The last line is "N passed, N failed", in runs; ends with 1 if any failed. Output: build/PRESET/repeat_tests/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $# -lt 1 || $# -gt 2 || ! $1 =~ ^[1-9][0-9]{0,3}$ ]]; then
  awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/repeat_tests.sh
  [[ ${1:-} =~ ^(-h|--help)$ ]] && exit 0 || exit 2
fi
readonly runs=$1 preset=${PRESET:-release} output=build/${PRESET:-release}/repeat_tests
readonly regex=${2:-'^(comm/.*|comm_mpi_(fails|times).*|exchange/.*|trainer/.*|netns|program_(failure|four_workers|mpi|resume|tcp))$'}

mkdir -p "$output"
failed=0
for ((run = 1; run <= runs; ++run)); do
  log=$output/$run.txt beside="" verdict=passed
  if ((run % 2 == 0)); then
    beside=", busy"
    for ((processor = $(nproc); processor > 0; --processor)); do (while :; do :; done) & done
    trap 'kill $(jobs -p) 2>/dev/null' EXIT
  fi
  ctest --preset "$preset" --tests-regex "$regex" --no-tests=error --output-on-failure </dev/null >"$log" 2>&1 ||
    { verdict="failed ($log)" && failed=$((failed + 1)); }
  [ -z "$beside" ] || kill $(jobs -p)
  echo "run $run of $runs$beside: $verdict, $(grep -c '\*\*\*Skipped' "$log" || true) skipped"
done
echo "$((runs - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
