#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Some thousand steps take no more memory than some hundred, and no counter drifts.
. "$(dirname "$0")/lib.sh" "$1"
DRAGONN_BIN=$BIN "$ROOT/scripts/soak.sh" --steps 5000 --workers 4 --output "$WORK/soak" || fail "memory or counters"
finish
