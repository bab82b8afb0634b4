#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds dragonn-train, makes its runs fail at random and judges how each ends (scripts/fault_campaign.py).
# Usage: scripts/fault_campaign.sh [--seed S] [--faults N] [--output DIR] [--jobs 1|2] [--kind K]... [--place P]... [--only NUMBER] [--table]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/build.sh
DRAGONN_FAULT_POINTS=ON build release dragonn-train >&2
exec scripts/fault_campaign.py "$@"
