#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Processes that TCP connects, without a launcher, train to the bits of local workers. One that is killed or stopped ends
# all, with an error that names it, and a run resumed from the last checkpoint ends with the same bits. Ranks that do not
# fit together get an error.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE

# start NAME RANKS ARGUMENT...: the ranks of a run. The rendezvous is a file unless the environment names another. Logs: NAME.RANK.log.
start() {
  local name=$1 ranks=$2 rank meet=(--set "comm.rendezvous=file:$WORK/$1.meet")
  [ -z "${MASTER_PORT:-}${SLURM_STEP_ID:-}" ] || meet=()
  ids=()
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK=$rank WORLD_SIZE=${world_size:-$ranks} "$train" quick.toml --set comm.backend=tcp "${meet[@]}" --output "$name" \
      "${@:3}" >"$name.$rank.log" 2>&1 &
    ids+=($!)
  done
}
# await: until the ranks that were started last have ended; their exit codes are in codes.
await() {
  local id
  codes=()
  for id in "${ids[@]}"; do
    wait "$id" 2>/dev/null
    codes+=($?)
  done
}
# run NAME RANKS ARGUMENT...: start, await, all well.
run() {
  start "$@"
  await
  [[ "${codes[*]}" =~ ^[0\ ]+$ ]] || fail "$1: exit codes ${codes[*]}: $(tail -qn 1 "$1".*.log)"
}
# refused NAME CODE PATTERN: all ranks have ended with the code; each, or one for all, has said why.
refused() {
  local code log
  for code in "${codes[@]}"; do [ "$code" = "$2" ] || fail "$1: exit codes ${codes[*]} instead of $2"; done
  for log in "$1".*.log; do
    [ "$(grep -c ' E ' "$log")" = 1 ] && grep -qE "$3" "$log" || fail "$log: no '$3', once: $(cat "$log")"
  done
}

for case in "4 topk" "3 dgc" "2 dragonn" "4 dense" "3 oktopk" "2 qsgd"; do
  read -r ranks method <<<"$case"
  "$train" quick.toml --workers "$ranks" --set compression.method="$method" --output "local-$method" 2>/dev/null || fail "$case, local"
  run "tcp-$method" "$ranks" --set compression.method="$method"
  [ -n "$(parameters_hash "local-$method")" ] || fail "$case: no hash"
  [ "$(parameters_hash "local-$method")" = "$(parameters_hash "tcp-$method")" ] || fail "$case: other parameters over TCP"
  [ ! -e "tcp-$method.meet" ] || fail "$case: the rendezvous file stays"
done
steps="--set update.scheme=local --set update.inner_steps=8 --set update.fragments=2 --set optimizer.name=adamw"
steps="$steps --set update.overlap_steps=2 --set update.mix=0.5"
"$train" quick.toml --workers 3 $steps --output local-steps 2>/dev/null || fail "local steps, local"
run tcp-steps 3 $steps
[ -n "$(parameters_hash local-steps)" ] && [ "$(parameters_hash local-steps)" = "$(parameters_hash tcp-steps)" ] ||
  fail "local steps: other parameters over TCP"
# Rounds of a given time: the record repeats them, here and elsewhere.
rounds="--set update.scheme=local --set update.inner_steps=8"
run tcp-rounds 3 $rounds --set update.inner_seconds=0.0005
run tcp-replay 3 $rounds --set update.inner_steps_from=tcp-rounds/metrics.jsonl
"$train" quick.toml --workers 3 $rounds --set update.inner_steps_from=tcp-rounds/metrics.jsonl --output replay 2>/dev/null ||
  fail "rounds, local"
for name in tcp-replay replay; do
  [ -n "$(parameters_hash tcp-rounds)" ] && [ "$(parameters_hash tcp-rounds)" = "$(parameters_hash $name)" ] ||
    fail "$name: other parameters than tcp-rounds"
done
# Two levels: 2 x 2, 2 x 3, 3 x 2 and 3 + 1 workers.
for case in "4 2 topk" "6 3 oktopk" "6 2 dgc" "4 3 topk"; do
  read -r ranks per_node method <<<"$case"
  nodes="--set comm.workers_per_node=$per_node --set comm.hierarchy=node --set compression.method=$method"
  "$train" quick.toml --workers "$ranks" $nodes --output "local-nodes-$ranks-$per_node" 2>/dev/null || fail "$case, local nodes"
  run "tcp-nodes-$ranks-$per_node" "$ranks" $nodes
  [ -n "$(parameters_hash "tcp-nodes-$ranks-$per_node")" ] &&
    [ "$(parameters_hash "local-nodes-$ranks-$per_node")" = "$(parameters_hash "tcp-nodes-$ranks-$per_node")" ] ||
    fail "$case: other parameters over TCP in two levels"
done
grep -q "2 nodes of 2 workers: gradients are summed inside a node" tcp-nodes-4-2/log.txt || fail "the log does not say the nodes"
demo="--set compression.method=demo --set optimizer.name=signsgd --set update.average=senders --set update.delay_steps=1"
"$train" quick.toml --workers 3 $demo --output local-demo 2>/dev/null || fail "demo, local"
run tcp-demo 3 $demo
[ -n "$(parameters_hash local-demo)" ] && [ "$(parameters_hash local-demo)" = "$(parameters_hash tcp-demo)" ] ||
  fail "demo: other parameters over TCP"
grep -q '"backend": "tcp"' tcp-topk/summary.json || fail "the summary does not name the backend"
run overlap 3 --set compression.method=dgc --set compression.overlap=true --set compression.bucket=tensor
run plain 3 --set compression.method=dgc --set compression.bucket=tensor
[ "$(parameters_hash plain)" = "$(parameters_hash overlap)" ] || fail "other parameters with overlap"

# A checkpoint resumes on another number of processes as on as many local workers.
part="--set compression.method=dgc --set checkpoint.every_steps=7"
"$train" quick.toml --workers 2 $part --set train.max_steps=7 --output local-two 2>/dev/null || fail "the first part on 2 workers"
cp -r local-two tcp-two
"$train" quick.toml --workers 3 $part --output local-two --resume auto 2>/dev/null || fail "2 workers to 3"
run tcp-two 3 $part --resume auto
[ -n "$(parameters_hash local-two)" ] && [ "$(parameters_hash local-two)" = "$(parameters_hash tcp-two)" ] ||
  fail "other parameters on another number of processes"

# With a secret, the same bits; one that others may read is refused.
(umask 077 && echo "a secret of all ranks" >secret.txt && cp secret.txt known)
run secret 3 --set compression.method=dgc --set comm.secret_file=secret.txt
[ "$(parameters_hash secret)" = "$(parameters_hash tcp-dgc)" ] || fail "other parameters with a secret"
chmod 644 known
expect_error 2 'comm.secret_file known: .*chmod 600' -- env RANK=0 WORLD_SIZE=2 "$train" quick.toml --set comm.backend=tcp \
  --set comm.rendezvous=file:never --set comm.secret_file=known
expect_error 2 'comm.secret_file is of no use' -- "$train" quick.toml --set comm.secret_file=secret.txt

# At an address, as torchrun and srun name it; and where an earlier run left its file.
export MASTER_ADDR=localhost MASTER_PORT=$((20000 + RANDOM % 10000))
run at-address 2 --set compression.method=dragonn
pids=()
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 "$BIN/dragonn-bench" network --pairs --seconds 0.01 --json pairs.json >"pairs.$rank" 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "pairs over TCP: $(cat pairs.0 pairs.1)"; done
grep -q '"source": "measured over tcp by' pairs.json && grep -q '"workers": 2' pairs.json || fail "pairs over TCP: $(cat pairs.json)"
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 "$BIN/dragonn-bench" network >>bench.log 2>&1 &
done
wait
grep -q '^ *tcp .* 1048576 ' bench.log && [ "$(grep -c fit_gbps bench.log)" = 1 ] || fail "the bench: $(cat bench.log)"
unset MASTER_ADDR MASTER_PORT
export SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$$ SLURM_STEP_NODELIST=localhost
run in-step 2 --set compression.method=dragonn
unset SLURM_STEP_ID SLURM_STEP_NUM_TASKS SLURM_JOB_ID SLURM_STEP_NODELIST
printf 'dragonn rendezvous 1\ntoken 5\n127.0.0.1:9\nend\n' >stale.meet
run stale 2 --set compression.method=dragonn
for name in at-address in-step stale; do
  [ "$(parameters_hash local-dragonn)" = "$(parameters_hash $name)" ] || fail "$name: other parameters"
done

# An error of all ranks is printed once, with its exit code.
start no-data 3 --set data.name=cifar10 --set data.path=no_such_folder
await
[ "${codes[*]}" = "2 2 2" ] || fail "exit codes ${codes[*]} instead of 2"
[ "$(cat no-data.*.log | grep -c no_such_folder)" = 1 ] || fail "the error is not said once: $(cat no-data.*.log)"

# Ranks that do not fit together.
patience=$(patience run patience 3)
readonly patience
world_size=3 start missing 2 --set comm.timeout_s="$patience"
await
refused missing 1 "rank 2 did not come within $patience s \(comm.timeout_s\)"
world_size=4 start others 3
RANK=3 WORLD_SIZE=5 "$train" quick.toml --set comm.backend=tcp --set comm.rendezvous="file:$WORK/others.meet" --output others \
  >others.3.log 2>&1 &
ids+=($!)
await
refused others 1 "rank 3 was started as one of 5 ranks, and rank 0 as one of 4"
[ ! -e missing ] && [ ! -e others ] || fail "a run that did not come together left a folder"

# Settings that do not go together.
expect_error 2 'set RANK and WORLD_SIZE' -- "$train" quick.toml --set comm.backend=tcp
expect_error 2 'set comm.rendezvous' -- env RANK=0 WORLD_SIZE=2 "$train" quick.toml --set comm.backend=tcp
expect_error 2 'rank 2 of 2' -- env RANK=2 WORLD_SIZE=2 "$train" quick.toml --set comm.backend=tcp
expect_error 2 'expected "tcp:HOST:PORT"' -- "$train" quick.toml --set comm.backend=tcp --set comm.rendezvous=somewhere
expect_error 2 'comm.rendezvous is of no use' -- "$train" quick.toml --set comm.rendezvous=tcp:localhost:4000
expect_error 2 'comm.bootstrap = "tcp" is of no use' -- "$train" quick.toml --set comm.bootstrap=tcp
expect_error 2 'lacks this process' -- "$train" quick.toml --set comm.backend=nccl --set comm.bootstrap=tcp
"$train" quick.toml --set comm.backend=tcp --dry-run >/dev/null 2>&1 || fail "a dry run asks for other ranks"

# disturb SIGNAL METHOD ARGUMENT...: a rank of three is killed or stopped; the others end soon, and name it.
disturb() {
  local signal=$1 name=$1-$2 victim=$((RANDOM % 3)) start process log
  start "$name" 3 --set train.epochs=100000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0 \
    --set checkpoint.every_steps=5 --set logging.every_steps=1000 --set comm.timeout_s="$patience" --set compression.method="$2" "${@:3}"
  wait_until "${ids[0]}" has_checkpoint "$name" || fail "$name: no checkpoint"
  sleep "0.$((RANDOM % 5))"
  start=$SECONDS process=${ids[victim]}
  kill "-$signal" "$process"
  unset "ids[$victim]"
  await
  [ "${codes[*]}" = "1 1" ] || fail "$name: exit codes ${codes[*]} instead of 1"
  [ $((SECONDS - start)) -le $((8 * patience)) ] || fail "$name: took $((SECONDS - start)) s to end, with a deadline of $patience"
  for log in "$name".*.log; do
    [ "$log" = "$name.$victim.log" ] && continue
    grep -qE "rank [0-9]+, 'step [0-9]+.*', in [a-z].*process $process of rank $victim (has ended|is stopped)" "$log" ||
      fail "$log: rank $victim is not named: $(cat "$log")"
  done
  kill -KILL "$process" 2>/dev/null
  wait "$process" 2>/dev/null
}
for method in dgc oktopk dense; do
  disturb KILL $method
  disturb STOP $method
  rest=(--set train.epochs=100000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0
    --set compression.method=$method)
  last=$(find "KILL-$method/checkpoints" -name 'step-*[0-9]' | sort | tail -1 | grep -oE '[0-9]+$')
  run "KILL-$method" 3 "${rest[@]}" --set train.max_steps=$((10#$last + 7)) --resume auto
  "$train" quick.toml "${rest[@]}" --set train.max_steps=$((10#$last + 7)) --workers 3 --output "whole-$method" 2>/dev/null ||
    fail "$method: the undisturbed run failed"
  [ -n "$(parameters_hash "whole-$method")" ] && [ "$(parameters_hash "whole-$method")" = "$(parameters_hash "KILL-$method")" ] ||
    fail "$method: another result after step $last"
done

# So it is within a round of local steps, where ranks wait for each other only at its end.
disturb STOP topk --set update.scheme=local --set update.inner_steps=1000 --set checkpoint.every_steps=1000

# A signal stops all with a checkpoint.
start stopped 3 --set train.epochs=100000 --set checkpoint.every_steps=5
wait_until "${ids[0]}" has_checkpoint stopped || fail "stopped: no checkpoint"
kill -USR1 "${ids[@]}"
await
[ "${codes[*]}" = "75 75 75" ] || fail "exit codes ${codes[*]} instead of 75 after SIGUSR1"
finish
