#!/usr/bin/env bash
# dragonn plan proposes settings that dragonn-train takes, writes them as a config and as JSON, and refuses what it cannot plan;
# launched processes measure their network. The small part of scripts/plan_grid.py holds proposals against all candidates.
. "$(dirname "$0")/lib.sh" "$1"
plan=("$BIN/dragonn" plan quick.toml --workers 4)
cat >slow.toml <<'TOML'
[network]
gbps = 0.002
latency_us = 500
step_ms = 2
compute = "zero"
TOML

# Without evidence for this model only dense is proposed; asked to, the plan proposes what was never measured, and is faster.
"${plan[@]}" --network slow.toml >dense.log || fail "plan: $(cat dense.log)"
grep -q '^1. dense: a step takes' dense.log || fail "not dense: $(cat dense.log)"
grep -q 'no sparse method was measured' dense.log || fail "no word about evidence: $(cat dense.log)"
"${plan[@]}" --network slow.toml --unmeasured --output planned.toml --json plan.json >all.log || fail "plan: $(cat all.log)"
grep -q 'convergence: never measured' all.log || fail "no word about convergence: $(cat all.log)"
sets=$(sed -n '/^1\. /,/^2\. /s/^   --set /--set /p' all.log)
[ -n "$sets" ] || fail "no settings: $(cat all.log)"
# shellcheck disable=SC2086  # words
"$BIN/dragonn-train" quick.toml --workers 4 $sets --set train.max_steps=2 --output one >/dev/null 2>one.log || fail "--set: $(cat one.log)"
"$BIN/dragonn-train" planned.toml --set train.max_steps=2 --output two >/dev/null 2>two.log || fail "--output: $(cat two.log)"
cmp -s <(grep -o '"loss":[^,]*' one/metrics.jsonl) <(grep -o '"loss":[^,]*' two/metrics.jsonl) || fail "another run by --output than by --set"
grep -q '^model = "none"' planned.toml || fail "the file assumes the network of the plan"

refused() { # PATTERN COMMAND...
  local pattern=$1 status=0
  shift
  "$@" >/dev/null 2>refused.log || status=$?
  [ "$status" = 2 ] && [ "$(wc -l <refused.log)" = 1 ] && grep -qE -e "$pattern" refused.log || fail "$*: $status: $(cat refused.log)"
}
refused 'planned.toml: the file exists' "${plan[@]}" --network slow.toml --output planned.toml
cp planned.toml before.toml
"${plan[@]}" --network slow.toml --output planned.toml --force >/dev/null || fail "--force"
cmp -s planned.toml before.toml && fail "--force wrote nothing"
refused 'network FILE or --measure' "${plan[@]}"
refused 'was not launched' env -u RANK -u WORLD_SIZE "$BIN/dragonn" plan quick.toml --measure net.json
refused 'does not go with --measure' "${plan[@]}" --measure net.json
printf '[comm]\nworkers = 3\n' >comm.toml
refused 'comm.toml:2:.*expected keys of the table \[network\]' "${plan[@]}" --network comm.toml
refused 'step-seconds' "${plan[@]}" --network slow.toml --step-seconds 0

# Two processes measure what is between them; rank 0 plans.
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) timeout 60 "$BIN/dragonn" plan quick.toml \
    --set comm.backend=tcp --set comm.workers_per_node=1 --measure net.json --step-seconds 0.01 >measured$rank.log 2>&1 &
done
wait -n || fail "a process: $(cat measured*.log)"
wait -n || fail "a process: $(cat measured*.log)"
grep -qE '^network: 2 nodes .*net.json.*; 2 workers$' measured0.log || fail "no network: $(cat measured0.log)"
"$BIN/dragonn" plan quick.toml --network net.json --workers 2 --step-seconds 0.01 >again.log || fail "--network net.json: $(cat again.log)"
[ ! -s measured1.log ] || fail "rank 1 says: $(cat measured1.log)"

if python3 -c '' 2>/dev/null; then
  python3 "$ROOT/scripts/plan_grid.py" --bin "$BIN" --grid small --output grid.json --markdown grid.md >grid.log || fail "the grid: $(cat grid.log)"
  grep -qE '^2 points, 0 miss' grid.log || fail "not the points: $(cat grid.log)"
  # dragonn-train takes the time that was predicted: counts of these methods do not depend on gradients.
  python3 -c 'import json
for row in json.load(open("grid.json")): assert abs(row["train_seconds"] / row["predicted"] - 1) < 0.05, row' || fail "dragonn-train takes another time: $(cat grid.json)"
  sed -i 's/"right": true/"right": false/' grid.json
  python3 "$ROOT/scripts/plan_grid.py" --bin "$BIN" --grid small --output grid.json >again.log && fail "a miss is not told: $(cat again.log)"
fi
finish
