#!/usr/bin/env bash
# The advice of dragonn-train names the faster exchange, and no setting that it knows is faster by 10 % than what it names:
# the small part of scripts/advisor_grid.py, on virtual networks where computing takes no time, so that every time is exact.
. "$(dirname "$0")/lib.sh" "$1"
python3 -c '' 2>/dev/null || exit 77
grid() { python3 "$ROOT/scripts/advisor_grid.py" --bin "$BIN" --grid small --output grid.json --markdown grid.md; }

grid >grid.log || fail "the grid: $(cat grid.log)"
grep -qE '^8 points, [4-8] with a difference above 10 %, 0 where nothing is claimed; 0 advices are wrong, 0 miss a setting$' grid.log || fail "not the points: $(cat grid.log)"
for winner in sparse dense; do
  grep -q "\"faster\": \"$winner\"" grid.json || fail "$winner is nowhere faster: $(cat grid.log)"
done
[ "$(grep -c 'right\|within' grid.md)" = 8 ] || fail "not a row for each point: $(cat grid.md)"

# Points that were measured are not measured again; an advice that is wrong is found.
sed -i 's/"right": true/"right": false/' grid.json
status=0
grid >again.log || status=$?
[ "$status" = 1 ] && [ "$(wc -l <again.log)" = 1 ] || fail "exit code $status, and $(cat again.log)"
finish
