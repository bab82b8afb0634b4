#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes the readers of bytes from outside, under AddressSanitizer and UndefinedBehaviorSanitizer, and prints a table:
# target, runs, findings, edges of the code that were reached. Needs clang 16 with libFuzzer (scripts/install_deps.sh tools).
# Usage: scripts/fuzz.sh [TARGET...] [--runs N] [--list]
#   TARGET: of tests/fuzz; without one all of them.
#   --runs N: until each target has had N runs (default 100000), those of earlier calls included: build/fuzz/state/TARGET
#             keeps their number, the inputs that reached new code and, in findings/, those that failed. A target with a
#             finding is not run again before the finding is removed.
# Ends with 1 if there is a finding. A finding is repeated by
#   DRAGONN_FUZZ_TARGET=TARGET build/fuzz/bin/fuzz_files FILE   (or fuzz_runs)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=100000
list=false
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=${2:?fuzz.sh: --runs: expected a number} && shift ;;
    --list) list=true ;;
    -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}" && exit 0 ;;
    -*) echo "fuzz.sh: '$1': expected --runs or --list" >&2 && exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ $runs =~ ^[0-9]+$ ]] || { echo "fuzz.sh: --runs $runs: expected a number" >&2 && exit 2; }
compiler=$(command -v clang++-16) || { echo "fuzz.sh: no clang++-16: scripts/install_deps.sh tools" >&2 && exit 2; }

readonly build=build/fuzz programs=(files runs) runs_at_once=50000 # lost if this script is killed
# A header must not ask for more memory than the file holds; the readers of small inputs need little.
readonly limits=(-timeout=10 -malloc_limit_mb=64 -rss_limit_mb=1500)

if [ -z "${DRAGONN_SKIP_BUILD:-}" ]; then
  options=()
  ! command -v ccache >/dev/null || options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache)
  cmake -B $build -G Ninja -D CMAKE_CXX_COMPILER="$compiler" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
    -D CMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -D DRAGONN_SANITIZE=address,undefined -D DRAGONN_PCH=OFF -D DRAGONN_FUZZ=ON \
    "${options[@]}" >/dev/null
  cmake --build $build --target "${programs[@]/#/fuzz_}" >&2
fi

declare -A program_of
for program in "${programs[@]}"; do
  for target in $(DRAGONN_FUZZ_TARGET='' $build/bin/fuzz_"$program" 2>/dev/null); do program_of[$target]=$program; done
done
mapfile -t all < <(printf '%s\n' "${!program_of[@]}" | sort)
if $list; then printf '%s\n' "${all[@]}" && exit; fi
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [ -n "${program_of[$target]:-}" ] || { echo "fuzz.sh: no target '$target': expected one of ${all[*]}" >&2 && exit 2; }
done

scratch=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/dragonn-fuzz.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

runs_of() { cat "$build/state/$1/runs" 2>/dev/null || echo 0; }
findings_of() { find "$build/state/$1/findings" -type f 2>/dev/null | wc -l; }
edges_of() { sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$build/state/$1/log" 2>/dev/null | tail -n 1; }

# The names of keys, which a fuzzer would hardly find.
dictionary() {
  { grep -ohE '"[a-z_.-]{2,}"' trainer/config/config_keys.def report/run.cpp trainer/cost_model/tensor_selection_json.cpp \
    data/text/squad_file.cpp | sort -u; } >"$scratch/dictionary"
}

# fuzz TARGET RUNS
fuzz() {
  local target=$1 count=$2 state=$build/state/$1
  mkdir -p "$state/corpus" "$state/findings" "$scratch/files"
  DRAGONN_FUZZ_TARGET=$target TMPDIR=$scratch/files ASAN_OPTIONS=strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    LSAN_OPTIONS=suppressions=cmake/sanitizers/leaks.txt:print_suppressions=0 \
    $build/bin/fuzz_"${program_of[$target]}" -runs="$count" "${limits[@]}" -print_final_stats=1 -dict="$scratch/dictionary" \
    -artifact_prefix="$state/findings/" "$state/corpus" tests/fuzz/corpus/"$target" >"$state/log" 2>&1 || true
  rm -rf "$scratch/files"
  local executed
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$state/log")
  # A run that ends without its statistics has ended badly.
  [ -n "$executed" ] || [ "$(findings_of "$target")" -gt 0 ] || cp "$state/log" "$state/findings/log"
  echo $(($(runs_of "$target") + ${executed:-0})) >"$state/runs"
}

dictionary
for target in "${targets[@]}"; do
  while [ "$(findings_of "$target")" = 0 ]; do
    left=$((runs - $(runs_of "$target")))
    [ $left -gt 0 ] || break
    fuzz "$target" $((left < runs_at_once ? left : runs_at_once))
  done
done

found=0
printf '| %-12s | %9s | %8s | %6s |\n' target runs findings edges
printf '|%s|%s|%s|%s|\n' -------------- ----------: ---------: -------:
for target in "${targets[@]}"; do
  findings=$(findings_of "$target")
  printf '| %-12s | %9s | %8s | %6s |\n' "$target" "$(runs_of "$target")" "$findings" "$(edges_of "$target")"
  [ "$findings" = 0 ] || found=1
done
exit $found
