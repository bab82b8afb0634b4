#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A signal to one rank of a run with rounds of 1,000 inner steps stops all ranks within the round, each at its own step, and
# the run goes on from there to the parameters of one that did not stop: local workers, processes over TCP, and MPI.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
has_fault_points || exit 77
unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
readonly ranks=3
round=(quick.toml --set update.scheme=local --set update.inner_steps=1000 --set optimizer.name=adamw
  --set optimizer.learning_rate=0.01 --set train.epochs=9999 --set train.max_steps=1500 --set train.eval_every_epochs=0
  --set checkpoint.every_epochs=0)

# over BACKEND NAME ARGUMENT...: runs three ranks. Logs: NAME.log, over TCP NAME.RANK.log. Returns the exit code, of rank 0 over TCP.
over() {
  local backend=$1 name=$2 rank ids=() status=0
  shift 2
  case $backend in
    local) "$train" "$@" --workers $ranks --output "$name" >"$name.log" 2>&1 ;;
    mpi) mpirun -np $ranks "$train" "$@" --set comm.backend=mpi --output "$name" >"$name.log" 2>&1 ;;
    tcp)
      for ((rank = 0; rank < ranks; ++rank)); do
        RANK=$rank WORLD_SIZE=$ranks "$train" "$@" --set comm.backend=tcp --set "comm.rendezvous=file:$WORK/$name.meet" \
          --output "$name" >"$name.$rank.log" 2>&1 &
        ids+=($!)
      done
      for id in "${ids[@]}"; do wait "$id" || status=$?; done
      return $status
      ;;
  esac
}

"$train" "${round[@]}" --workers $ranks --output whole 2>/dev/null || fail "the whole run"
expected=$(parameters_hash whole)
[ -n "$expected" ] || fail "no parameters_hash in whole/summary.json"
for backend in local tcp mpi; do
  # Rank 1 gets the signal in its 300th step.
  DRAGONN_FAULT=forward:1:300:term over $backend stopped-$backend "${round[@]}"
  status=$?
  [ $status = 75 ] || fail "$backend: exit code $status: $(tail -qn 2 stopped-$backend*.log)"
  saved=$(ls stopped-$backend/checkpoints)
  [[ $saved =~ ^step-00000[0-9]{3}$ ]] || fail "$backend: saved $saved"
  over $backend stopped-$backend "${round[@]}" --resume auto || fail "$backend: resuming: $(tail -qn 2 stopped-$backend*.log)"
  [ "$(parameters_hash stopped-$backend)" = "$expected" ] || fail "$backend: other parameters after a stop"
done

finish
