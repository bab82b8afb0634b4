#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A short campaign of disturbances of an elastic run: all that docs/reliability.md promises, checked by scripts/elastic_campaign.py; and
# the campaign sees where something is wrong.
. "$(dirname "$0")/lib.sh" "$1"
unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE
campaign=("$ROOT/scripts/elastic_campaign.py" --config quick.toml --bin "$BIN" --workers 3 --heartbeat 2 --json rows.json)
"${campaign[@]}" --events 4 --kinds kill,leave,lead >table.md 2>campaign.log || fail "the campaign has findings: $(cat campaign.log)"
grep -q '^| quick | 3 | - | 1 | 4 | .* | yes | - | 0 |$' table.md || fail "$(cat table.md)"
cp rows.json before.json
"${campaign[@]}" --events 4 --kinds kill,leave,lead >/dev/null && cmp -s rows.json before.json || fail "a run that is there is made again"
# Nobody may die with comm.min_workers = 3.
"${campaign[@]}" --first 2 --events 1 --kinds kill --set comm.min_workers=3 --json few.json >/dev/null 2>few.log
[ $? = 1 ] && grep -q 'run 2: ' few.log || fail "a run that stops is no finding: $(cat few.log)"
# A run may come to its end by itself, disturbed or not.
"${campaign[@]}" --events 1 --kinds kill --steps 20000 --set train.epochs=100000 --json ended.json >/dev/null 2>ended.log &&
  "${campaign[@]}" --undisturbed --steps 2000 --set train.epochs=100000 --json ended.json >ended.md 2>>ended.log || fail "ended: $(cat ended.log)"
[ "$(grep -c '^| quick | 3 | - | 1 | [01] | .* | yes | [0-9.]* | 0 |$' ended.md)" = 2 ] || fail "ended: $(cat ended.md)"
"${campaign[@]}" --kinds cut >/dev/null 2>&1
[ $? = 2 ] || fail "links that are not there are cut"
finish
