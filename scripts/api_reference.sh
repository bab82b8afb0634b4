#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes the reference of all headers by Doxygen; the first page is FOLDER/html/index.html. Ends with an error for
# every fault in a doc comment, and with 77 without Doxygen.
# Usage: scripts/api_reference.sh [FOLDER]     FOLDER: build/api if not given
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ ! ${1:-} =~ ^(-h|--help)$ ]] || exec awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/api_reference.sh
command -v doxygen >/dev/null || { echo "skipped: doxygen is missing (scripts/install_deps.sh tools)"; exit 77; }
export DRAGONN_API_FOLDER=${1:-build/api} && mkdir -p "$DRAGONN_API_FOLDER"
doxygen docs/Doxyfile
echo "wrote $DRAGONN_API_FOLDER/html/index.html"
