#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process that is killed or stopped at any moment of a run, with each collective, ends all processes within the deadline,
# with an error that names it, the collective and the step; the last checkpoint goes on as if nothing had happened.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
readonly ranks=3 at_once=7
timeout_s=$(patience mpirun -np $ranks "$train" quick.toml --output patience)
readonly timeout_s
# mpirun's patience with the processes that are left, before it kills them: not its 1 s, which a busy machine can exceed.
export OMPI_MCA_odls_base_sigkill_timeout=2

# The exchanges: a name, and the settings below [compression].
cases=(
  "dense method=dense"
  "fixed method=topk allgather.layout=fixed"
  "padded method=dgc allgather.layout=padded"
  "unpadded method=dgc"
  "index_union method=index_union"
  "dsa method=dsa"
  "gtopk method=gtopk"
  "gtopk-exact method=gtopk gtopk.put_back=exact"
  "gtopk-naive method=gtopk gtopk.put_back=naive"
  "oktopk method=oktopk oktopk.balance=always oktopk.repartition_period=3"
  "exdyna method=exdyna"
  "cltk method=cltk"
  "overlap_dgc method=dgc overlap=true"
  "signsgd method=signsgd"
  "qsgd method=qsgd"
  "overlap_gtopk method=gtopk bucket=tensor overlap=true"
)

# run_case SIGNAL NAME SETTING...: complains on stdout.
run_case() {
  local signal=$1 name=$2 run=$WORK/$2-$1 setting options=() launcher victim process status start
  for setting in "${@:3}"; do options+=(--set "compression.$setting"); done
  options+=(--set train.epochs=100000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0
    --set checkpoint.every_steps=5 --set logging.every_steps=1000 --set comm.timeout_s=$timeout_s)
  [ "$name" != dense ] || options+=(--set "comm.dense_algorithm=$([ "$signal" = KILL ] && echo rabenseifner || echo ring)")

  timeout 600 mpirun -np $ranks "$train" quick.toml "${options[@]}" --output "$run" >"$run.log" 2>&1 &
  launcher=$!
  wait_until $launcher has_checkpoint "$run" || echo "no checkpoint before it is disturbed: $(cat "$run.log")"
  sleep "0.$((RANDOM % 2))$((RANDOM % 10))"
  victim=$((RANDOM % ranks))
  process=$(pgrep -f -- "dragonn-train quick.toml .*--output $run\$" | while read -r id; do
    tr '\0' '\n' <"/proc/$id/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$victim" && echo "$id"; done)
  start=$SECONDS
  kill "-$signal" "$process"
  status=0
  wait "$launcher" || status=$?
  [ "$status" != 0 ] && [ "$status" != 124 ] || echo "exit code $status"
  [ $((SECONDS - start)) -le $((12 * timeout_s)) ] || echo "took $((SECONDS - start)) s to end, with a deadline of $timeout_s"
  grep -qE "^rank [0-9]+, 'step [0-9]+.*', in [a-z].*process $process of rank $victim (has ended|is stopped)" "$run.log" ||
    echo "rank $victim is not named: $(cat "$run.log")"
  # mpirun does not wait for the processes that it kills to be gone.
  for _ in $(seq 600); do pgrep -f -- "--output $run\$" >/dev/null || break; sleep 0.1; done
  ! pgrep -f -- "--output $run\$" >/dev/null || echo "processes are left"
}

# resume_case NAME SETTING...: the run of SIGKILL goes on as one that was never disturbed.
resume_case() {
  local run=$WORK/$1-KILL setting options=() last
  for setting in "${@:2}"; do options+=(--set "compression.$setting"); done
  [ "$1" != dense ] || options+=(--set comm.dense_algorithm=rabenseifner)
  last=$(find "$run/checkpoints" -name 'step-*[0-9]' | sort | tail -1 | grep -oE '[0-9]+$')
  options+=(--set train.epochs=100000 --set train.eval_every_epochs=0 --set checkpoint.every_epochs=0
    --set train.max_steps=$((10#$last + 7)) --workers $ranks)
  "$train" quick.toml "${options[@]}" --output "$run" --resume auto 2>>"$run.log" || echo "cannot resume: $(tail -1 "$run.log")"
  "$train" quick.toml "${options[@]}" --output "$run-whole" 2>/dev/null || echo "the undisturbed run failed"
  [ -n "$(parameters_hash "$run")" ] && [ "$(parameters_hash "$run")" = "$(parameters_hash "$run-whole")" ] ||
    echo "another result after step $last"
}

check_case() { # NAME SETTING...
  run_case KILL "$@" | sed 's/^/SIGKILL: /'
  resume_case "$@"
  run_case STOP "$@" | sed 's/^/SIGSTOP: /'
}

for case in "${cases[@]}"; do
  read -r -a words <<<"$case"
  while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do wait -n; done
  check_case "${words[@]}" >"complaints-${words[0]}" 2>&1 &
done
wait
for case in "${cases[@]}"; do
  [ ! -s "complaints-${case%% *}" ] || fail "${case%% *}: $(cat "complaints-${case%% *}")"
done
finish
