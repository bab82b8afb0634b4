#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs clang-tidy (.clang-tidy) on the sources that were changed since a commit, by the compile commands of a preset. What
# only nvcc reads (.cu) is left out. The last line is "N passed, N failed, N skipped", in files; ends with 1 if some failed.
# Environment: DRAGONN_TIDY_SECONDS (files whose turn comes later than this are skipped; all get one if unset).
# Usage: scripts/tidy.sh [PRESET [COMMIT]]     PRESET: tsan if not given; COMMIT: the one before the newest if not given
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
  -h | --help)
    awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/tidy.sh
    exit 0
    ;;
esac
readonly preset=${1:-tsan} since=${2:-HEAD~1} tidy=clang-tidy-16
readonly commands=build/$preset/compile_commands.json
command -v $tidy >/dev/null || { echo "$tidy is missing: scripts/install_deps.sh installs it" >&2; exit 1; }
[ -r "$commands" ] || { echo "no $commands: scripts/test.sh $preset makes it" >&2; exit 1; }
git rev-parse --verify --quiet "$since^{commit}" >/dev/null || { echo "no commit $since here" >&2; exit 1; }

# A header is read with the sources that include it.
mapfile -t files < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp' | while read -r file; do
  if grep -qF "\"$PWD/$file\"" "$commands"; then echo "$file"; fi
done)
passed=0 failed=0 skipped=0
# Warnings of GCC have other names, and what it precompiled is its own.
for file in "${files[@]}"; do
  if [ "$SECONDS" -gt "${DRAGONN_TIDY_SECONDS:-999999}" ]; then
    skipped=$((skipped + 1))
  elif $tidy --quiet --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option -p "build/$preset" "$file" 2>/dev/null; then
    passed=$((passed + 1))
  else
    echo "*** $file"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
