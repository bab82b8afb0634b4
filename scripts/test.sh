#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets everything up, builds dragonn and runs all fast tests, those under MPI too. The last line is
# "N passed, N failed, N skipped"; ends with 1 if any failed.
# Environment: DRAGONN_DATA (folder with real data sets; without it the tests that read them are skipped),
# DRAGONN_WERROR, DRAGONN_CUDA_ARCHITECTURES (scripts/build.sh), CTEST_PARALLEL_LEVEL (tests at a time; if unset, half as
# many again as there are processors, since many tests wait).
# Usage: scripts/test.sh [PRESET [CTEST_ARGUMENT...]]     PRESET: release (if not given), cuda, debug, asan, tsan,
#   cuda_emulated (asan, and beside it what runs on a GPU, on the CPU: tests/cuda_emulation)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}
[ $# -eq 0 ] || shift

if [ "$preset" = cuda ]; then scripts/install_deps.sh cuda; else scripts/install_deps.sh; fi
. scripts/build.sh
export DRAGONN_FAULT_POINTS=ON

case $preset in
  cuda_emulated) targets=(dragonn_unit_tests dragonn_gpu_tests) selection=(--label-regex '^(unit|gpu)$') ;;
  asan) targets=(dragonn_unit_tests) selection=(--label-regex '^unit$') ;;
  tsan) targets=(dragonn_thread_tests) selection=(--label-regex '^threads$') ;;
  *) targets=(all) selection=(--label-exclude '^(convergence|fuzz|packages|soak)$') ;;
esac
build "$preset" "${targets[@]}"

status=0 console=build/$preset/test_console.txt
ctest --preset "$preset" --parallel "${CTEST_PARALLEL_LEVEL:-$((($(nproc) * 3 + 1) / 2))}" "${selection[@]}" "$@" </dev/null 2>&1 | tee "$console" || status=$?
# A verdict is " 3/826 Test  #3: compress/topk ...   Passed    0.01 sec", or "...***Failed", "...***Skipped".
verdicts() { grep -E '^ *[0-9]+/[0-9]+ Test +#[0-9]+: ' "$console" || true; }
skipped=$(verdicts | grep -cE '\*\*\*(Skipped|Not Run \(Disabled\))' || true)
failed=$(($(verdicts | grep -cF '***' || true) - skipped))
passed=$(($(verdicts | wc -l) - skipped - failed))
# CTest fails for reasons that are no test's, too: it found none, or could not run.
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
