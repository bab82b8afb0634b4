#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Workers of an elastic run are killed and stopped, wherever they are: the others go on without a restart, and a replay of the
# run ends with the same bits. A worker that was stopped finds out; with too few workers, or without the coordinator, the run stops.
. "$(dirname "$0")/lib.sh" "$1"
# shellcheck source=tests/program/elastic_lib.sh
. "$HERE/elastic_lib.sh"

# Without a fault an elastic run has the bits of any other.
start plain 3
ended plain 0 0 0
"$train" quick.toml --workers 3 --output local 2>/dev/null || fail "local"
[ -n "$(parameters_hash local)" ] && [ "$(parameters_hash local)" = "$(parameters_hash plain)" ] || fail "plain: other parameters"
[ "$(generations plain)" = 1 ] || fail "plain: $(cat plain/membership.jsonl)"
replayed plain

# A worker is killed, at a time; later another one.
long=(--set train.epochs=100000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0 --set train.max_steps=4000 --set logging.every_steps=10)
start killed 4 "${long[@]}" --set compression.method=dgc --set comm.residual_copies=1 --set comm.residual_copy_every=3
wait_until "${ids[0]}" has_steps killed 50 || fail "killed: no steps"
kill -KILL "${ids[2]}"
wait_until "${ids[0]}" grep -q '"generation":2' killed/membership.jsonl || fail "killed: no second generation"
sleep 0.2
kill -KILL "${ids[1]}"
ended killed 0 137 137 0
[ "$(generations killed)" = 3 ] || fail "killed: $(cat killed/membership.jsonl)"
grep -q '"members":\[0,3\],"joined":\[\],"left":\[1\],"why":"member 1: its connection has ended".*"lost":\[{"member":1,.*"restored_sum":' killed/membership.jsonl ||
  fail "killed: $(cat killed/membership.jsonl)"
grep -q '"lost":\[{"member":2,"place":[0-9]*,"residual_sum":[^,]*,"residual_l1":[0-9].*"restored_sum":' killed/membership.jsonl ||
  fail "killed: no mass of the dead worker: $(cat killed/membership.jsonl)"
tr -d ' \n' <killed/summary.json | grep -q '"lost_mass":{"members":2,"unknown":0,' || fail "killed: $(cat killed/summary.json)"
replayed killed
tr -d ' \n' <killed/replay/summary.json | grep -q '"lost_mass":{"members":2,"unknown":0,' || fail "killed: the replay lost something else"
first=$(sed -n 's/.*"generation":2,"step":\([0-9]*\),.*/\1/p' killed/membership.jsonl)
"$BIN/dragonn" replay killed --output state --until "$first" --member 2 2>/dev/null || fail "the state of a dead worker"
[ -s state/member-0002/rank.safetensors ] && [ -s state/member-0002/model.safetensors ] || fail "no state of the dead worker"
refused 'lacks --until' -- "$BIN/dragonn" replay killed --member 2

# A worker that is stopped for too long is left behind, and finds out.
HEARTBEAT=2 start stopped 3 "${long[@]}" --set train.max_steps=100000
wait_until "${ids[0]}" has_steps stopped 50 || fail "stopped: no steps"
kill -STOP "${ids[1]}"
wait_until "${ids[0]}" grep -q '"generation":2' stopped/membership.jsonl || fail "stopped: no second generation"
kill -CONT "${ids[1]}"
wait "${ids[1]}"
[ $? = 75 ] && grep -q 'member 1 is no member any more: .*silent for 2 s' stopped.1.log || fail "stopped: $(tail -3 stopped.1.log)"
kill -KILL "${ids[@]}" 2>/dev/null
wait

# With a coordinator of its own a run outlives rank 0, and ends with the coordinator.
coordinate separate 3
start separate 3 "${long[@]}" --set comm.coordinator=separate
wait_until "${ids[0]}" has_steps separate 50 || fail "separate: no steps"
kill -KILL "${ids[0]}"
ended separate 137 0 0
wait "$coordinator" || fail "separate: the coordinator: $(cat separate.coordinator.log)"
replayed separate
HEARTBEAT=2 coordinate alone 2
HEARTBEAT=2 start alone 2 "${long[@]}" --set comm.coordinator=separate --set train.max_steps=100000000
wait_until "${ids[0]}" has_steps alone 50 || fail "alone: no steps"
kill -KILL "$coordinator"
ended alone 75 75
grep -q 'the coordinator has ended' alone.1.log && has_checkpoint alone || fail "alone: $(cat alone.1.log)"

# A coordinator that is started again with its journal takes up the run, also where a worker has died meanwhile.
again=(--set comm.coordinator=separate --set comm.coordinator_timeout_s=60)
HEARTBEAT=5 coordinate again 3 --journal "$WORK/journal"
HEARTBEAT=5 start again 3 "${long[@]}" "${again[@]}" --set train.max_steps=20000
wait_until "${ids[0]}" has_steps again 50 || fail "again: no steps"
kill -KILL "$coordinator"
wait "$coordinator" 2>/dev/null
[ -s journal ] || fail "again: no journal"
wait_until "${ids[0]}" grep -q 'the coordinator has ended; it trains on' again.1.log || fail "again: $(tail -3 again.1.log)"
HEARTBEAT=5 coordinate again 3 --journal "$WORK/journal"
wait_until "${ids[0]}" grep -q 'there is a coordinator again' again.1.log || fail "again: $(tail -3 again.1.log again.coordinator.log)"
kill -KILL "$coordinator" "${ids[1]}"
wait "$coordinator" 2>/dev/null
HEARTBEAT=5 coordinate again 3 --journal "$WORK/journal"
ended again 0 137 0
wait "$coordinator" || fail "again: the coordinator: $(cat again.coordinator.log)"
grep -q 'takes up the run in generation 1, of the members 0, 1, 2' again.coordinator.log || fail "again: $(cat again.coordinator.log)"
[ ! -e journal ] || fail "again: the journal is still there"
[ "$(generations again)" = 2 ] || fail "again: $(cat again/membership.jsonl)"
replayed again
echo nonsense >journal
status=0
timeout 60 "$BIN/dragonn" coordinator quick.toml --set comm.elastic=true --set "comm.rendezvous=file:$WORK/again.meet" --journal "$WORK/journal" \
  >bad.log 2>&1 || status=$?
[ "$status" != 0 ] && grep -q "$WORK/journal: no journal of a coordinator" bad.log || fail "a bad journal: $status: $(cat bad.log)"
rm journal

# A worker that gets a signal leaves, also within a round of local steps; where the coordinator gets it, all stop.
round=(--set update.scheme=local --set update.inner_steps=100000000)
for case in "left" "left-round ${round[*]}"; do
  read -r name rule <<<"$case"
  read -ra rule <<<"$rule"
  coordinate "$name" 3
  start "$name" 3 "${long[@]}" --set comm.coordinator=separate --set train.max_steps=100000000 "${rule[@]}"
  wait_until "${ids[0]}" [ -f "$name/membership.jsonl" ] || fail "$name: it does not begin"
  [ "$name" != left ] || wait_until "${ids[0]}" has_steps left 50 || fail "left: no steps"
  sleep 1
  kill -TERM "${ids[1]}"
  wait "${ids[1]}"
  [ $? = 75 ] && grep -q 'member 1 is no member any more: it leaves on a signal; this process ends, and the others go on' "$name.1.log" ||
    fail "$name: $(tail -3 "$name.1.log")"
  unset 'ids[1]'
  kill -TERM "$coordinator"
  wait "$coordinator" || fail "$name: the coordinator: $(cat "$name.coordinator.log")"
  ended "$name" 75 75
  has_checkpoint "$name" || fail "$name: no checkpoint"
done
grep -q '"members":\[0,2\],"joined":\[\],"left":\[1\],"why":"member 1 leaves on a signal"' left/membership.jsonl || fail "left: $(cat left/membership.jsonl)"
start stop 2 "${long[@]}" --set train.max_steps=100000000
wait_until "${ids[0]}" has_steps stop 50 || fail "stop: no steps"
kill -TERM "${ids[0]}"
ended stop 75 75
has_checkpoint stop || fail "stop: no checkpoint"

# With too few workers the others stop with a checkpoint, from which a run goes on.
start few 3 "${long[@]}" --set comm.min_workers=3
wait_until "${ids[0]}" has_steps few 50 || fail "few: no steps"
kill -KILL "${ids[2]}"
ended few 75 75 137
has_checkpoint few || fail "few: no checkpoint"
start few 2 "${long[@]}" --resume auto
ended few 0 0
refused 'a replay repeats a run from its beginning' -- "$BIN/dragonn" replay few

# Local steps: the others keep their steps, and go on in front of the exchange, also where a checkpoint would be due within a round.
start rounds 3 "${long[@]}" --set checkpoint.every_steps=3 --set train.max_steps=1000 --set update.scheme=local --set update.inner_steps=5 --set optimizer.name=adamw
wait_until "${ids[0]}" has_steps rounds 50 || fail "rounds: no steps"
kill -KILL "${ids[1]}"
ended rounds 0 137 0
[ "$(generations rounds)" = 2 ] || fail "rounds: $(cat rounds/membership.jsonl)"
replayed rounds

# Wherever a worker is killed.
if has_fault_points; then
  for case in "forward:20 oktopk" "compensate_select:20 topk" "exchange:30 exdyna" "agree:25 dgc" "settle:12 gtopk" "optimize:12 dense" \
    "evaluate:2 topk" "save:2 dsa" "finish:1 topk" "start:1 topk"; do
    read -r place method <<<"$case"
    name=at-${place%:*}
    FAULT="${place%:*}:1:${place#*:}:kill" start "$name" 3 --set checkpoint.every_steps=7 --set compression.method="$method"
    ended "$name" 0 137 0
    [ "$place" = start:1 ] || [ "$(generations "$name")" = 2 ] || fail "$name: $(cat "$name/membership.jsonl")"
    replayed "$name"
  done
  for case in "save:2" "evaluate:2" "exchange:4" "forward:23"; do
    name=rounds-at-${case%:*}
    FAULT="${case%:*}:1:${case#*:}:kill" start "$name" 3 --set checkpoint.every_steps=3 --set logging.every_steps=1 --set update.scheme=local \
      --set update.inner_steps=5 --set compression.method=topk
    ended "$name" 0 137 0
    replayed "$name"
  done
fi

# Settings that do not go together.
elastic=(--set comm.backend=tcp --set comm.elastic=true)
expect_error 2 'needs comm.backend = "tcp"' -- "$train" quick.toml --set comm.elastic=true
expect_error 2 'train.global_batch = "constant" is of no use' -- "$train" quick.toml --set train.global_batch=constant
expect_error 2 'needs a memory with a residual that stays with its worker, not "none"' -- "$train" quick.toml "${elastic[@]}" --set comm.residual_copies=1 \
  --set compression.method=dense
expect_error 2 'comm.min_workers is of no use' -- "$train" quick.toml --set comm.min_workers=2
expect_error 2 'does not go with train.non_finite = "skip"' -- "$train" quick.toml "${elastic[@]}" --set train.non_finite=skip
refused 'a coordinator is for runs with comm.elastic' -- "$BIN/dragonn" coordinator quick.toml
finish
