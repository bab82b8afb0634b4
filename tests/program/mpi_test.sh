#!/usr/bin/env bash
# mpirun and local workers give the same losses and parameters, bit for bit; errors end every rank.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

losses() { sed -n 's/.*"kind":"\([a-z]*\)","step":\([0-9]*\).*"loss":\([^,]*\),.*/\1 \2 \3/p' "$1/metrics.jsonl"; }

for case in "4 topk" "3 dgc" "2 dragonn" "4 dense" "3 randomk" "3 signsgd" "4 qsgd"; do
  read -r ranks method <<<"$case"
  "$train" quick.toml --workers "$ranks" --set compression.method="$method" --output "local-$method" 2>/dev/null || fail "$case, local"
  timeout 300 mpirun -np "$ranks" "$train" quick.toml --set compression.method="$method" --output "mpi-$method" 2>mpi.log ||
    fail "$case, mpirun: $(tail -3 mpi.log)"
  [ "$(parameters_hash "local-$method")" = "$(parameters_hash "mpi-$method")" ] || fail "$case: other parameters under mpirun"
  [ -n "$(losses "local-$method")" ] || fail "$case: no losses"
  [ "$(losses "local-$method")" = "$(losses "mpi-$method")" ] || fail "$case: other losses under mpirun"
done

# Two levels, on 2 x 2 and 3 + 1 workers.
for per_node in 2 3; do
  nodes="--set comm.workers_per_node=$per_node --set comm.hierarchy=node --set compression.method=dgc"
  "$train" quick.toml --workers 4 $nodes --output "local-nodes-$per_node" 2>/dev/null || fail "$nodes, local"
  timeout 300 mpirun -np 4 "$train" quick.toml $nodes --output "mpi-nodes-$per_node" 2>mpi.log || fail "$nodes, mpirun: $(tail -3 mpi.log)"
  [ -n "$(parameters_hash "local-nodes-$per_node")" ] &&
    [ "$(parameters_hash "local-nodes-$per_node")" = "$(parameters_hash "mpi-nodes-$per_node")" ] || fail "$nodes: other parameters under mpirun"
done

# Local steps with an optimizer for each worker, fragment by fragment.
steps="--set update.scheme=local --set update.inner_steps=8 --set update.fragments=2 --set optimizer.name=adamw"
steps="$steps --set update.overlap_steps=2 --set update.mix=0.5"
"$train" quick.toml --workers 3 $steps --output local-steps 2>/dev/null || fail "local steps, local"
timeout 300 mpirun -np 3 "$train" quick.toml $steps --output mpi-steps 2>mpi.log || fail "local steps, mpirun: $(tail -3 mpi.log)"
[ "$(parameters_hash local-steps)" = "$(parameters_hash mpi-steps)" ] || fail "local steps: other parameters under mpirun"
[ -n "$(losses local-steps)" ] && [ "$(losses local-steps)" = "$(losses mpi-steps)" ] || fail "local steps: other losses under mpirun"

rounds="--set update.scheme=local --set update.inner_steps=8"
timeout 300 mpirun -np 3 "$train" quick.toml $rounds --set update.inner_seconds=0.0005 --output mpi-rounds 2>mpi.log ||
  fail "rounds, mpirun: $(tail -3 mpi.log)"
rounds="$rounds --set update.inner_steps_from=mpi-rounds/metrics.jsonl"
"$train" quick.toml --workers 3 $rounds --output replay 2>/dev/null || fail "rounds, local"
timeout 300 mpirun -np 3 "$train" quick.toml $rounds --output mpi-replay 2>mpi.log || fail "replay, mpirun: $(tail -3 mpi.log)"
for name in mpi-replay replay; do
  [ -n "$(parameters_hash mpi-rounds)" ] && [ "$(parameters_hash mpi-rounds)" = "$(parameters_hash $name)" ] ||
    fail "$name: other parameters than mpi-rounds"
done

# Overlap moves backward to another thread, not the bits, whichever of the two has it.
for case in "3 topk" "2 gtopk" "4 oktopk"; do
  read -r ranks method <<<"$case"
  buckets="--set compression.method=$method --set compression.bucket=tensor --set train.gradient_accumulation=2"
  "$train" quick.toml --workers "$ranks" $buckets --output "plain-$method" 2>/dev/null || fail "$case, local, no overlap"
  timeout 300 mpirun -np "$ranks" "$train" quick.toml $buckets --set compression.overlap=true --output "overlap-$method" \
    2>mpi.log || fail "$case, mpirun, overlap: $(tail -3 mpi.log)"
  [ "$(parameters_hash "plain-$method")" = "$(parameters_hash "overlap-$method")" ] || fail "$case: other parameters with overlap"
  grep -q '"exchange_exposed"' "overlap-$method/metrics.jsonl" || fail "$case: no exposed time"
done

# A modelled network makes time virtual on local workers, with the bits as before; under mpirun it only describes.
network="--set compression.method=gtopk --set network.model=alpha-beta --set network.latency_us=1000 --set network.gbps=0.1 --set network.compute=zero"
"$train" quick.toml --workers 4 --set compression.method=gtopk --output real 2>/dev/null || fail "no network"
for run in virtual again; do
  "$train" quick.toml --workers 4 $network --output "$run" 2>"$run.log" || fail "$run cluster: $(tail -3 "$run.log")"
done
timeout 300 mpirun -np 4 "$train" quick.toml $network --output described 2>described.log || fail "network under mpirun: $(tail -3 described.log)"
for run in virtual described; do
  [ "$(parameters_hash real)" = "$(parameters_hash "$run")" ] || fail "$run: a network changes the parameters"
done
grep -q '"time": "virtual"' virtual/summary.json && grep -q "times are virtual" virtual.log || fail "virtual time is not said"
grep -q '"time": "wall"' described/summary.json && grep -q "times are wall times" described.log || fail "wall time is not said"
diff virtual/metrics.jsonl again/metrics.jsonl >/dev/null || fail "two runs on one virtual cluster differ"

# A checkpoint resumes on another number of processes as on as many local workers, from whichever it is.
part="--set compression.method=oktopk --set checkpoint.every_steps=7"
"$train" quick.toml --workers 3 $part --set train.max_steps=7 --output three 2>/dev/null || fail "the first part on 3 workers"
cp -r three three-mpi
"$train" quick.toml --workers 2 $part --output three --resume auto 2>three.log || fail "3 workers to 2: $(tail -3 three.log)"
timeout 300 mpirun -np 2 "$train" quick.toml $part --output three-mpi --resume auto 2>mpi.log ||
  fail "3 workers to 2 processes: $(tail -3 mpi.log)"
[ -n "$(parameters_hash three)" ] && [ "$(parameters_hash three)" = "$(parameters_hash three-mpi)" ] ||
  fail "other parameters on another number of processes"
grep -q ' 2 workers go on after step 7 of 3 workers: 84 samples of epoch 1 are done' mpi.log || fail "not said: $(cat mpi.log)"
[ "$(grep -c 'state of 3 workers for 2: ' mpi.log)" = 1 ] || fail "the state is not told once: $(cat mpi.log)"

# A config error is said once and ends all ranks with its exit code.
status=0
output=$(timeout 100 mpirun -np 3 "$train" quick.toml --set compression.density=7 2>&1) || status=$?
[ "$status" = 2 ] || fail "exit code $status instead of 2: $output"
[ "$(grep -c 'density=7' <<<"$output")" = 1 ] || fail "the error is not said once: $output"

# MPI's start has a deadline: a process that is stopped before it gets there is named. Open MPI itself would wait for ever.
cat >stops.sh <<'SH'
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || kill -STOP $$
exec "$@"
SH
timeout 100 mpirun -np 2 bash stops.sh "$train" quick.toml --set comm.start_timeout_s=3 >starts.log 2>&1 &&
  fail "MPI started without rank 1"
grep -q "^rank 0: MPI_Init_thread has not returned within 3 s (comm.start_timeout_s): .*; process [0-9]* of rank 1 is stopped" starts.log || fail "no word of it: $(cat starts.log)"

# A plain srun gives MPI nothing to find the other processes by.
expect_error 1 "add --mpi=pmix to srun" -- env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$train" quick.toml

# A rank that dies takes the others along, within the deadline.
timeout 600 mpirun -np 3 "$train" quick.toml --set train.epochs=100000 --set comm.timeout_s=20 --output "$WORK/dying" 2>/dev/null &
launcher=$!
wait_until $launcher test -s dying/metrics.jsonl || fail "the run that is to lose a rank does not begin"
victim=$(pgrep -f "^$train quick.toml .*--output $WORK/dying\$" | tail -1)
kill -KILL "$victim"
wait "$launcher"
status=$?
[ "$status" != 0 ] && [ "$status" != 124 ] || fail "a killed rank did not end the run (exit code $status)"
finish
