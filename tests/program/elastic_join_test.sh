#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Workers join an elastic run that has begun: new ones, killed ones that are started again, and those that were left behind. They
# get the state from the others, whoever dies meanwhile, and a replay of the run ends with the same bits.
. "$(dirname "$0")/lib.sh" "$1"
# shellcheck source=tests/program/elastic_lib.sh
. "$HERE/elastic_lib.sh"

long=(--set train.epochs=100000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0 --set logging.every_steps=10 --set comm.coordinator=separate)
# has_members NAME ID...: a generation of these members has begun.
has_members() {
  local members=${*:2}
  grep -q "\"members\":\[${members// /,}\]" "$1/membership.jsonl" 2>/dev/null
}
# begins NAME ID...: until then.
begins() { wait_until "${ids[0]}" has_members "$@" || fail "$1: no generation of ${*:2}: $(cat "$1/membership.jsonl"; tail -qn 3 "$1".*.log)"; }
have_joined() { [ "$(grep -c 'joins the run' "$1.coordinator.log")" -ge "$2" ]; } # NAME COUNT
# held NAME COUNT PROCESS COMMAND...: holds a worker, and so all, while COMMAND starts others, until the coordinator knows so many.
held() {
  kill -STOP "$3"
  "${@:4}"
  wait_until "$coordinator" have_joined "$1" "$2" || fail "$1: nobody joins: $(cat "$1.coordinator.log")"
  kill -CONT "$3"
}

# A third worker joins two; the first is killed, and started again with the same rank.
rule=("${long[@]}" --set train.max_steps=2000 --set compression.method=dgc)
coordinate joined 2 --set comm.max_workers=3
start joined 2 "${rule[@]}"
wait_until "${ids[0]}" has_steps joined 50 || fail "joined: no steps"
third() {
  start_worker joined 2 2 "${rule[@]}"
  wait_until "$coordinator" have_joined joined 1
  start_worker joined 3 full "${rule[@]}"
  start_worker joined 3 other "${rule[@]}" --set compression.method=topk
  wait "${ids[3]}"
  [ $? = 75 ] && grep -q 'does not become a member: the run has 3 workers (comm.max_workers)' joined.full.log || fail "full: $(cat joined.full.log)"
  wait "${ids[4]}"
  [ $? = 75 ] && grep -q 'does not become a member: this process has other settings than the run' joined.other.log || fail "other: $(cat joined.other.log)"
  unset 'ids[4]' 'ids[3]'
}
held joined 1 "${ids[1]}" third
begins joined 0 1 2
again() {
  kill -KILL "${ids[0]}"
  wait "${ids[0]}" 2>/dev/null
  ids=("${ids[@]:1}")
  start_worker joined 0 again "${rule[@]}"
}
held joined 2 "${ids[1]}" again
ended joined 0 0 0
wait "$coordinator" || fail "joined: the coordinator: $(cat joined.coordinator.log)"
grep -q '"members":\[0,1,2\],"joined":\[2\],"left":\[\],"why":"member 2 joins"' joined/membership.jsonl || fail "joined: $(cat joined/membership.jsonl)"
has_members joined 1 2 4 || fail "joined: $(cat joined/membership.jsonl)"
replayed joined

# A worker that was stopped for too long is left behind, and joins again.
rule=("${long[@]}" --set train.max_steps=60000 --set logging.every_steps=100 --set comm.rejoin=true)
HEARTBEAT=2 coordinate again 2
HEARTBEAT=2 start again 2 "${rule[@]}"
wait_until "${ids[0]}" has_steps again 100 || fail "again: no steps"
kill -STOP "${ids[1]}"
begins again 0
kill -CONT "${ids[1]}"
begins again 0 2
grep -q 'member 1 is no member any more: .*silent for 2 s.*; this process joins again' again.1.log || fail "again: $(tail -3 again.1.log)"
ended again 0 0
replayed again

# Local steps: two workers join one, in front of an exchange.
rule=("${long[@]}" --set train.max_steps=1000 --set update.scheme=local --set update.inner_steps=5 --set optimizer.name=adamw)
coordinate rounds 1 --set comm.max_workers=3
start rounds 1 "${rule[@]}"
wait_until "${ids[0]}" has_steps rounds 50 || fail "rounds: no steps"
two() {
  start_worker rounds 0 1 "${rule[@]}"
  start_worker rounds 0 2 "${rule[@]}"
}
held rounds 2 "${ids[0]}" two
ended rounds 0 0 0
has_members rounds 0 1 2 || fail "rounds: $(cat rounds/membership.jsonl)"
replayed rounds

# The job script: a worker of the array leaves on Slurm's signal, is put back into the queue, and joins again.
mkdir stand_in
printf '#!/bin/sh\necho "$@" >>"%s/requeued"\n' "$WORK" >stand_in/scontrol
chmod +x stand_in/scontrol
job() {
  PATH=$WORK/stand_in:$PATH DRAGONN_TRAIN=$train SLURM_JOB_ID=10$1 SLURM_ARRAY_TASK_ID=$1 SLURM_ARRAY_TASK_MAX=1 "$ROOT/scripts/elastic.sbatch" \
    quick.toml array "${rule[@]}" --set comm.heartbeat_timeout_s=30 --set "comm.rendezvous=file:$WORK/array.meet" >>"array.$1.log" 2>&1 &
  ids+=($!)
}
rule=("${long[@]}" --set train.max_steps=20000)
coordinate array 2
ids=()
job 0
job 1
wait_until "${ids[0]}" has_steps array 50 || fail "array: no steps"
worker=$(pgrep -P "${ids[0]}" dragonn-train)
preempted() {
  kill -TERM "${ids[1]}"
  kill -CONT "$worker"
  wait "${ids[1]}"
  [ $? = 75 ] && [ "$(cat requeued)" = "requeue 101" ] || fail "array: $(tail -3 array.1.log)"
  kill -STOP "$worker"
  unset 'ids[1]'
  job 1
}
held array 1 "$worker" preempted
ended array 0 0
has_members array 0 2 || fail "array: $(cat array/membership.jsonl)"
replayed array

# Who gives the state, or takes it, dies meanwhile: the only one that has it, one of two, and the one that joins.
if has_fault_points; then
  for case in "0 1 oktopk" "0 2 topk" "2 2 exdyna"; do
    read -r rank workers method <<<"$case"
    name=share-$rank-$workers
    rule=("${long[@]}" --set train.max_steps=1000 --set compression.method="$method")
    coordinate "$name" "$workers" --set comm.max_workers=3
    giver=
    [ "$rank" = 2 ] || giver="share:0:1:kill"
    FAULT=$giver FAULT_OF=0 start "$name" "$workers" "${rule[@]}"
    wait_until "${ids[0]}" has_steps "$name" 20 || fail "$name: no steps"
    taker=share:2:1:kill
    [ -z "$giver" ] || taker=
    taker() { FAULT=$taker start_worker "$name" 7 taker "${rule[@]}"; }
    held "$name" 1 "${ids[workers - 1]}" taker
    case $name in
    share-0-1)
      ended "$name" 137 75
      grep -q 'nobody is left who has the state of the run' "$name.taker.log" || fail "$name: $(cat "$name.taker.log")"
      ;;
    share-0-2) ended "$name" 137 0 0 ;;
    share-2-2) ended "$name" 0 0 137 ;;
    esac
    [ "$name" = share-0-1 ] || replayed "$name"
  done
fi
finish
