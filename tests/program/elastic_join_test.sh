#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Workers join an elastic run that has begun: new ones, killed ones that are started again, and those that were left behind. They
# get the state from the others while these train, whoever dies meanwhile, and a replay of the run has the same bits.
. "$(dirname "$0")/lib.sh" "$1"
# shellcheck source=tests/program/elastic_lib.sh
. "$HERE/elastic_lib.sh"

# These models make a thousand steps a second, whose updates need all of the link.
long=(--set train.epochs=1000000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0 --set logging.every_steps=10 --set comm.coordinator=separate
  --set 'model.hidden=[256]' --set comm.join_share=1)
# has_members NAME ID...: a generation of these members has begun.
has_members() {
  local members=${*:2}
  grep -q "\"members\":\[${members// /,}\]" "$1/membership.jsonl" 2>/dev/null
}
ends_generation() { [ "$(generations "$1")" -ge 2 ]; }
# begins NAME ID...: until then.
begins() { wait_until "${ids[0]}" has_members "$@" || fail "$1: no generation of ${*:2}: $(cat "$1/membership.jsonl"; tail -qn 3 "$1".*.log)"; }
# stopped NAME CODE...: ends the run by a signal to its coordinator; the workers end with these codes. A replay has the bits of every
# generation.
stopped() {
  local last step
  kill -TERM "$coordinator"
  wait "$coordinator" || fail "$1: the coordinator: $(cat "$1.coordinator.log")"
  ended "$@"
  read -r last step < <(tail -n 1 "$1/membership.jsonl" | sed 's/.*"generation":\([0-9]*\),"step":\([0-9]*\),.*/\1 \2/')
  "$BIN/dragonn" replay "$1" --until "$step" >"$1.replay.log" 2>&1 || fail "$1: the replay failed: $(tail -3 "$1.replay.log")"
  grep -q "generation $last:" "$1/replay/log.txt" || fail "$1: the replay ends before the last generation"
}
# streamed NAME MEMBER BYTES: this member got the state from a stream, and at most so many bytes when it joined.
streamed() {
  local rest
  rest=$(sed -n "s/.*{\"member\":$2,\"donor\":[0-9]*,\"place\":[0-9]*,\"rest_bytes\":\([0-9]*\)}.*/\1/p" "$1/membership.jsonl")
  [ -n "$rest" ] && [ "$rest" -le "$3" ] || fail "$1: member $2 got ${rest:-nothing of a stream}: $(cat "$1/membership.jsonl")"
}

# A third worker joins two; the first is killed, and started again with the same rank.
rule=("${long[@]}" --set compression.method=dgc)
coordinate joined 2 --set comm.max_workers=3
start joined 2 "${rule[@]}"
wait_until "${ids[0]}" has_steps joined 50 || fail "joined: no steps"
start_worker joined 2 2 "${rule[@]}"
begins joined 0 1 2
start_worker joined 3 full "${rule[@]}"
start_worker joined 3 other "${rule[@]}" --set compression.density=0.06
wait "${ids[3]}"
[ $? = 75 ] && grep -q 'does not become a member: the run has 3 workers (comm.max_workers)' joined.full.log || fail "full: $(cat joined.full.log)"
wait "${ids[4]}"
[ $? = 75 ] && grep -q 'does not become a member: this process has other settings than the run' joined.other.log || fail "other: $(cat joined.other.log)"
unset 'ids[4]' 'ids[3]'
kill -KILL "${ids[0]}"
wait "${ids[0]}" 2>/dev/null
ids=("${ids[@]:1}")
begins joined 1 2
start_worker joined 0 again "${rule[@]}"
begins joined 1 2 4
stopped joined 75 75 75
grep -q '"members":\[0,1,2\],"joined":\[2\],"left":\[\],"why":"member 2 joins"' joined/membership.jsonl || fail "joined: $(cat joined/membership.jsonl)"
streamed joined 2 30000 # 44 kB of parameters, and no momentum with dgc
[ "$(grep -c '"lost":' joined/membership.jsonl)" = 1 ] || fail "joined: a loss counts twice: $(cat joined/membership.jsonl)"
streamed joined 4 30000

# A budget of bytes is spent anew by each group. What three workers cannot spend less than ends no run that two began.
rule=("${long[@]}" --set compression.method=topk --set compression.bucket=model --set compression.include_vectors=yes --set compression.density=0.05
  --set compression.density_schedule=rate --set 'compression.rate.densities=[0.5]' --set compression.rate.bytes_share=0.12)
coordinate budget 2 --set comm.max_workers=3
start budget 2 "${rule[@]}"
wait_until "${ids[0]}" has_steps budget 50 || fail "budget: no steps"
start_worker budget 2 2 "${rule[@]}"
begins budget 0 1 2
kill -KILL "${ids[1]}"
begins budget 0 2
stopped budget 75 137 75
[ "$(sed -n 's/.*bytes_share = 0.12: density \([0-9.]*\) .*/\1/p' budget/log.txt | xargs)" = "0.06 0.05 0.06" ] ||
  fail "budget: $(grep bytes_share budget/log.txt)"

# A worker that was stopped for too long is left behind, and joins again.
rule=("${long[@]}" --set comm.rejoin=true --set train.global_batch=constant --set compression.method=topk)
HEARTBEAT=2 coordinate again 2
HEARTBEAT=2 start again 2 "${rule[@]}"
wait_until "${ids[0]}" has_steps again 50 || fail "again: no steps"
kill -STOP "${ids[1]}"
begins again 0
kill -CONT "${ids[1]}"
begins again 0 2
grep -q 'member 1 is no member any more: .*silent for 2 s.*; this process joins again' again.1.log || fail "again: $(tail -3 again.1.log)"
grep -q 'a step takes 8 samples instead of 8' again/log.txt || fail "again: $(grep 'a step takes' again/log.txt)"
stopped again 75 75
streamed again 2 30000

# Local steps: two workers join one, in front of an exchange. A joiner has the optimizer that the donor had when the stream began.
rule=("${long[@]}" --set update.scheme=local --set update.inner_steps=5 --set optimizer.name=adamw)
coordinate rounds 1 --set comm.max_workers=3
start rounds 1 "${rule[@]}"
wait_until "${ids[0]}" has_steps rounds 50 || fail "rounds: no steps"
start_worker rounds 0 1 "${rule[@]}"
start_worker rounds 0 2 "${rule[@]}"
begins rounds 0 1 2
stopped rounds 75 75 75
streamed rounds 1 30000
streamed rounds 2 30000

# Updates of 350 kB come faster than the stream may send them: it falls behind, and the state comes whole when the worker joins.
rule=("${long[@]}" --set 'model.hidden=[2048]' --set comm.join_share=0.01)
coordinate behind 1 --set comm.max_workers=2
start behind 1 "${rule[@]}"
wait_until "${ids[0]}" has_steps behind 20 || fail "behind: no steps"
start_worker behind 7 taker "${rule[@]}"
begins behind 0 1
stopped behind 75 75
grep -q '"streams":' behind/membership.jsonl && fail "behind: the stream's copy is kept: $(cat behind/membership.jsonl)"

# A stream that may take next to nothing of the link is overtaken by its updates, or would take for ever: here it never begins, as
# the donor dies when it is about to. The next donor gives all.
if has_fault_points; then
  rule=("${long[@]}")
  coordinate donor 3 --set comm.max_workers=4
  FAULT=give:0:1:kill FAULT_OF=0 start donor 3 "${rule[@]}"
  wait_until "${ids[1]}" has_steps donor 20 || fail "donor: no steps"
  start_worker donor 7 taker "${rule[@]}"
  wait_until "${ids[1]}" has_members donor 1 2 3 || fail "donor: $(cat donor/membership.jsonl)"
  stopped donor 137 75 75 75
  streamed donor 3 30000
  # The taker dies when it has the state: nothing else happens.
  coordinate taker 2 --set comm.max_workers=4
  start taker 2 "${rule[@]}"
  wait_until "${ids[0]}" has_steps taker 20 || fail "taker: no steps"
  FAULT=take:2:1:kill start_worker taker 7 taker "${rule[@]}"
  wait "${ids[2]}"
  [ $? = 137 ] || fail "taker: $(cat taker.taker.log)"
  unset 'ids[2]'
  step=$(tail -n 1 taker/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
  wait_until "${ids[0]}" has_steps taker $((step + 50)) || fail "taker: no steps behind its death"
  [ "$(generations taker)" = 1 ] || fail "taker: $(cat taker/membership.jsonl)"
  kill -TERM "$coordinator"
  ended taker 75 75
fi

# The job script: a worker of the array leaves on Slurm's signal, is put back into the queue, and joins again.
mkdir stand_in
printf '#!/bin/sh\necho "$@" >>"%s/requeued"\n' "$WORK" >stand_in/scontrol
chmod +x stand_in/scontrol
job() {
  PATH=$WORK/stand_in:$PATH DRAGONN_TRAIN=$train SLURM_ARRAY_JOB_ID=10 SLURM_ARRAY_TASK_ID=$1 SLURM_ARRAY_TASK_MAX=1 "$ROOT/scripts/elastic.sbatch" \
    quick.toml array "${rule[@]}" --set comm.heartbeat_timeout_s=30 --set "comm.rendezvous=file:$WORK/array.meet" >>"array.$1.log" 2>&1 &
  ids+=($!)
}
rule=("${long[@]}")
coordinate array 2
ids=()
job 0
job 1
wait_until "${ids[0]}" has_steps array 50 || fail "array: no steps"
kill -USR1 "${ids[1]}"
wait "${ids[1]}"
[ $? = 75 ] && [ "$(cat requeued)" = "requeue 10_1" ] || fail "array: $(tail -3 array.1.log)"
unset 'ids[1]'
job 1
begins array 0 2
kill -TERM "${ids[1]}" # scancel
wait "${ids[1]}"
[ $? = 75 ] && [ "$(wc -l <requeued)" = 1 ] || fail "array: a job that is cancelled comes back: $(tail -3 array.1.log)"
unset 'ids[1]'
begins array 0
stopped array 75

# Who gives the rest of the state, or takes it, dies meanwhile: the only one that has it, one of two, and the one that joins.
if has_fault_points; then
  for case in "0 1 oktopk" "0 2 topk" "2 2 exdyna"; do
    read -r rank workers method <<<"$case"
    name=share-$rank-$workers
    rule=("${long[@]}" --set compression.method="$method")
    coordinate "$name" "$workers" --set comm.max_workers=3
    giver=
    [ "$rank" = 2 ] || giver="share:0:1:kill"
    FAULT=$giver FAULT_OF=0 start "$name" "$workers" "${rule[@]}"
    wait_until "${ids[0]}" has_steps "$name" 20 || fail "$name: no steps"
    taker=share:2:1:kill
    [ -z "$giver" ] || taker=
    FAULT=$taker start_worker "$name" 7 taker "${rule[@]}"
    case $name in
    share-0-1)
      ended "$name" 137 75
      grep -q 'nobody is left who has the state of the run' "$name.taker.log" || fail "$name: $(cat "$name.taker.log")"
      ;;
    share-0-2)
      wait_until "${ids[1]}" has_members "$name" 1 2 || fail "$name: $(cat "$name/membership.jsonl")"
      stopped "$name" 137 75 75
      ;;
    share-2-2)
      wait_until "${ids[0]}" ends_generation "$name" || fail "$name: $(cat "$name/membership.jsonl")"
      stopped "$name" 75 75 137
      ;;
    esac
  done
fi
finish
