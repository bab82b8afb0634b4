#!/usr/bin/env bash
# scripts/paper_headlines.py: two of its rows, with their exchanges run; what it lists; and an unknown row.
. "$(dirname "$0")/lib.sh" "$1"
python3 -c 'import tomllib' 2>/dev/null || exit 77
headlines() { python3 "$ROOT/scripts/paper_headlines.py" --bin "$BIN" "$@"; }

cp "$ROOT/docs/headlines.md" page.md
headlines --only gtopk-resnet20-over-dense,dragonn-encode --json rows.json --update page.md >table.md 2>log ||
  fail "exit code $?: $(cat log)"
for file in table.md page.md; do
  grep -q '^| gTop-k, table VII: ResNet-20, over dense | 2.74 | 1.15 | 1.27 |' "$file" || fail "$file: $(cat "$file")"
  # Rank by rank: 2 x 31/32 x 4 bytes of 269,722 elements; then two of 269 entries of 8 bytes, in the mean 31/32 of them.
  grep -qE '^\| gtopk_resnet20 \| 32 \| 269,722 \| dense \|.*\| 2.09 MB \| 62 \|$' "$file" || fail "$file: no dense row"
  grep -qE '^\| gtopk_resnet20 \| 32 \| 269,722 \| gtopk \|.*\| 0.0041[0-9]* MB \| 2 \|$' "$file" || fail "$file: no gtopk row"
done
[ "$(python3 -c 'import json; print(len(json.load(open("rows.json"))["headlines"]))')" = 2 ] || fail "rows.json: $(cat rows.json)"

[ "$(headlines --list | wc -l)" -ge 60 ] || fail "rows are missing: $(headlines --list)"
status=0
headlines --only no-such-row 2>log || status=$?
[ "$status" = 2 ] && grep -q "no row 'no-such-row'" log || fail "exit code $status: $(cat log)"
finish
