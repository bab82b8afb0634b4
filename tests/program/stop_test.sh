#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A rank that is stopped (SIGSTOP) at any place of a run under MPI, MPI's own start and end included, ends all others within
# the deadlines, with a line that names what they waited for and the process that is stopped. mpirun then ends that, too.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
has_fault_points || exit 77
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
readonly ranks=3 at_once=4
timeout_s=$(patience mpirun -np $ranks "$train" quick.toml --output patience)
readonly timeout_s
# mpirun's patience with the processes that are left, before it kills them: not its 1 s, which a busy machine can exceed.
export OMPI_MCA_odls_base_sigkill_timeout=2

# PLACE:RANK:PASS (core/fault_point.h), and what the line of another rank says.
start="has not returned within $timeout_s s \(comm.start_timeout_s\)"
end="has not returned within $timeout_s s \(comm.timeout_s\)"
late="nothing for $timeout_s s \(comm.timeout_s\)"
cases=(
  "mpi_init:0:1 MPI_Init_thread $start"
  "mpi_init:2:1 MPI_Init_thread $start"
  "mpi_dup:0:1 connecting to all ranks: $late"
  "mpi_dup:1:1 connecting to all ranks: $late"
  "start:1:1 $late"
  "forward:2:1 'step 1, .*: $late"
  "exchange:0:9 'step [0-9]+, .*: $late"
  "save:1:1 'step 5.*: $late"
  "commit:0:2 'step 10.*: $late"
  "evaluate:2:1 'step .*: $late"
  "finish:0:1 $late"
  "finish:1:1 'step 60', .*: $late"
  "mpi_free:2:1 MPI_(Finalize|Comm_free) $end"
  "mpi_finalize:0:1 MPI_Finalize $end"
  "mpi_finalize:1:1 MPI_Finalize $end"
)

# check_case PLACE:RANK:PASS PATTERN: complains on stdout.
check_case() {
  local fault=$1 pattern=$2 run=$WORK/${1//:/-} victim status=0
  victim=${fault#*:} victim=${victim%:*}
  DRAGONN_FAULT=$fault:stop timeout 120 mpirun -np $ranks "$train" quick.toml --output "$run" --set checkpoint.every_steps=5 \
    --set comm.timeout_s="$timeout_s" --set comm.start_timeout_s="$timeout_s" >"$run.log" 2>&1 || status=$?
  [ "$status" != 124 ] || echo "the others do not end"
  [ "$status" != 0 ] || echo "exit code 0"
  grep -qE "^rank [0-9].*$pattern.*; process [0-9]+ of rank $victim is stopped" "$run.log" || echo "no '$pattern' in: $(cat "$run.log")"
  # mpirun does not wait for the processes that it kills to be gone.
  for _ in $(seq 600); do pgrep -f -- "--output $run " >/dev/null || break; sleep 0.1; done
  ! pgrep -f -- "--output $run " >/dev/null || echo "processes are left"
}

for case in "${cases[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do wait -n; done
  check_case "${case%% *}" "${case#* }" >"complaints-${case%% *}" 2>&1 &
done
wait
for case in "${cases[@]}"; do
  [ ! -s "complaints-${case%% *}" ] || fail "${case%% *}: $(cat "complaints-${case%% *}")"
done
finish
