#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Training under a real Slurm: a controller and two nodes, in namespaces of their own for hosts' names, network, processes and
# mounts, so that nothing of it meets the machine's own Slurm or outlives the test. Cases: srun with PMIx; plain srun over
# TCP; a job that a signal stops before its time is over, and that is requeued and goes on; scancel; workers of an elastic run as jobs
# of their own, of which one is preempted and comes back.
readonly needed='slurmctld slurmd srun sbatch munged unshare nsenter setpriv ip'
for command in $needed; do
  PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null ||
    { echo "skipped: no '$command' (scripts/install_deps.sh tools installs it)" && exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: the nodes' namespaces need root" && exit 77; }
readonly spaces='--mount --pid --fork --kill-child --mount-proc --uts --net'
if [ -z "${DRAGONN_SLURM_TEST:-}" ]; then
  # shellcheck disable=SC2086: options
  unshare $spaces true 2>/dev/null || { echo "skipped: this process may not make namespaces" && exit 77; }
  # All processes of the test are in a namespace that ends with `unshare`, and that ends with this shell, however this one ends.
  TMPDIR=$(mktemp -d) && export TMPDIR
  trap 'kill -KILL $inside 2>/dev/null; wait $inside 2>/dev/null; rm -rf "$TMPDIR"' EXIT
  trap 'exit 130' INT TERM HUP
  # shellcheck disable=SC2086: options
  DRAGONN_SLURM_TEST=1 setpriv --pdeathsig KILL unshare $spaces bash "$0" "$@" &
  inside=$!
  wait $inside
  exit $?
fi
. "$(dirname "$0")/lib.sh" "$1"
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$WORK/slurm.conf DRAGONN_TRAIN=$BIN/dragonn-train OMP_NUM_THREADS=1
readonly subnet=198.18.0 # for network benchmarks (RFC 2544), and here within the namespace alone

# show_logs: what the daemons said, for whoever reads a failure.
show_logs() { tail -n 15 "$WORK"/{slurm,munge}*.log >&2; }

# The namespaces of the nodes' networks are listed in /run/netns, which is private here.
make_network() {
  local node
  hostname head
  mount -t tmpfs none /run/netns 2>/dev/null || { mkdir -p /run/netns && mount -t tmpfs none /run/netns; }
  # Slurm looks at control groups even if it is to use none. These have none to use.
  mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/systemd
  printf '127.0.0.1 localhost\n%s.1 head\n%s.11 node1\n%s.12 node2\n' $subnet $subnet $subnet >hosts
  mount --bind hosts /etc/hosts
  ip link set lo up
  ip link add switch type bridge && ip addr add $subnet.1/24 dev switch && ip link set switch up
  for node in 1 2; do
    ip netns add node$node
    ip link add port$node type veth peer name eth0 netns node$node
    ip link set port$node master switch && ip link set port$node up
    ip -n node$node link set lo up
    ip -n node$node addr add $subnet.1$node/24 dev eth0 && ip -n node$node link set eth0 up
  done
}

write_config() {
  cat >slurm.conf <<CONF
ClusterName=dragonn
SlurmctldHost=head($subnet.1)
SlurmUser=root
AuthInfo=socket=$WORK/munge.socket,cred_expire=5
StateSaveLocation=$WORK/state
SlurmdSpoolDir=$WORK/spool-%n
TmpFS=$WORK/tmp-%n
SlurmctldPidFile=$WORK/slurmctld.pid
SlurmdPidFile=$WORK/slurmd-%n.pid
SlurmctldLogFile=$WORK/slurmctld.log
SlurmdLogFile=$WORK/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2
OverTimeLimit=UNLIMITED
NodeName=node1 NodeAddr=$subnet.11 CPUs=2
NodeName=node2 NodeAddr=$subnet.12 CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  echo CgroupPlugin=cgroup/v1 >cgroup.conf
}

# within SECONDS CONDITION...: waits until the command CONDITION holds; fails if it does not by then.
within() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
nodes_are_idle() { [ "$(sinfo --noheader --Node --format=%t 2>/dev/null | grep -c '^idle$')" = 2 ]; }

# start_cluster: the daemons run in the foreground, as children of this shell, and end with its namespace.
start_cluster() {
  local node
  make_network
  write_config
  mkdir state {spool,tmp}-node{1,2} && chmod 755 . && (umask 077 && head -c 1024 /dev/urandom >munge.key)
  munged --foreground --force --key-file="$WORK/munge.key" --socket="$WORK/munge.socket" --pid-file="$WORK/munge.pid" \
    --seed-file="$WORK/munge.seed" --log-file="$WORK/munge.log" 2>munged.log &
  slurmctld -D -c 2>>controller.log &
  for node in 1 2; do
    # shellcheck disable=SC2016: of the inner shell
    nsenter --net=/run/netns/node$node unshare --uts bash -c 'hostname "$1" && exec slurmd -D' - node$node 2>>node$node.log &
  done
  within 60 nodes_are_idle || { show_logs; fail "the cluster does not come up"; finish; }
}

# reference OPTION...: the hash of the same training with two local workers.
reference() {
  "$DRAGONN_TRAIN" quick.toml --output reference --workers 2 "$@" >reference.log 2>&1 || fail "reference: $(tail -3 reference.log)"
  parameters_hash reference
  rm -rf reference
}

case_srun() { # NAME SRUN_OPTION TRAIN_OPTION...
  srun --nodes=2 --ntasks=2 $2 "$DRAGONN_TRAIN" quick.toml --output "$1" "${@:3}" >"$1.out" 2>&1 ||
    { show_logs; fail "$1: $(tail -5 "$1.out")"; return; }
  [ "$(parameters_hash "$1")" = "$short_hash" ] || fail "$1: not the result of two local workers"
}

job_field() { scontrol --oneliner show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; } # JOB FIELD
job_is() { [[ " $2 " == *" $(job_field "$1" JobState) "* ]]; }                        # JOB STATES
has_logged() { [ -s "$1/metrics.jsonl" ]; }                                           # RUN_DIR
# A process that is stopped has SIGUSR1, signal 10, among its pending signals (proc(5)).
has_pending_signal() {
  local pid pending
  for pid in $(pgrep -x dragonn-train); do
    pending=$(sed -n 's/^ShdPnd:\s*//p' "/proc/$pid/status" 2>/dev/null)
    [ $((0x${pending:-0} & 1 << 9)) -ne 0 ] || return 1
  done
}
nobody_trains() { ! pgrep -x dragonn-train >/dev/null; }

# The run stands still until the signal has come, so that it cannot be over before.
case_requeue() {
  local job
  job=$(sbatch --parsable --nodes=2 --time=1 --signal=USR1@55 --output=requeue.out "$ROOT/scripts/job.sbatch" \
    quick.toml requeue "${long[@]}")
  within 60 has_logged requeue || { show_logs; fail "requeue: does not begin: $(cat requeue.out)"; return; }
  pkill -STOP -x dragonn-train
  within 120 has_pending_signal || fail "requeue: no signal"
  pkill -CONT -x dragonn-train
  within 120 job_is "$job" 'COMPLETED FAILED TIMEOUT CANCELLED NODE_FAIL'
  job_is "$job" COMPLETED && [ "$(job_field "$job" Restarts)" = 1 ] ||
    { show_logs; fail "requeue: the job ended $(job_field "$job" JobState) after $(job_field "$job" Restarts) restarts: $(tail -20 requeue.out)"; }
  grep -q 'a signal stopped the run' requeue.out && grep -q 'resum' requeue.out || fail "requeue: not stopped and resumed: $(cat requeue.out)"
  [ "$(parameters_hash requeue)" = "$long_hash" ] || fail "requeue: not the result of an uninterrupted run"
}

case_scancel() {
  local job
  job=$(DRAGONN_SRUN="" sbatch --parsable --nodes=2 --output=cancel.out "$ROOT/scripts/job.sbatch" quick.toml cancel \
    --set comm.backend=tcp "${endless[@]}")
  within 120 has_checkpoint cancel
  scancel "$job"
  within 120 job_is "$job" 'CANCELLED COMPLETED FAILED'
  job_is "$job" CANCELLED || fail "scancel: the job ended $(job_field "$job" JobState)"
  within 120 nobody_trains
  grep -q 'a signal stopped the run' cancel.out || fail "scancel: no word of the signal: $(tail -5 cancel.out)"
  ! compgen -G 'cancel/checkpoints/*.partial' >/dev/null || fail "scancel: half a checkpoint"
  "$DRAGONN_TRAIN" --evaluate cancel --set comm.backend=local >evaluation.json 2>&1 || fail "scancel: its checkpoint: $(cat evaluation.json)"
}

# The worker that is preempted leaves and ends with 75; its job goes back into the queue, and becomes a new member.
has_members() { grep -q "\"members\":\[$2\]" "$1/membership.jsonl" 2>/dev/null; } # RUN_DIR IDS
case_elastic() {
  local job coordinator meeting=(--set comm.elastic=true --set comm.rendezvous=tcp:$subnet.1:29600)
  "$BIN/dragonn" coordinator quick.toml --workers 2 "${meeting[@]}" --journal "$WORK/elastic.journal" >elastic.log 2>&1 &
  coordinator=$!
  job=$(sbatch --parsable --array=0-1 --output=elastic.%a.out "$ROOT/scripts/elastic.sbatch" quick.toml elastic "${meeting[@]}" \
    --set train.epochs=1000000)
  within 60 has_logged elastic || { show_logs; fail "elastic: does not begin: $(cat elastic.?.out elastic.log)"; return; }
  scancel --batch --signal=USR1 "${job}_1"
  within 30 has_members elastic 0 || fail "elastic: the other one does not go on: $(cat elastic/membership.jsonl elastic.1.out)"
  within 240 has_members elastic 0,2 || { show_logs; fail "elastic: it does not come back: $(tail -20 elastic.1.out)"; }
  scancel "$job"
  within 120 nobody_trains
  within 30 job_is "${job}_0" CANCELLED || fail "elastic: the job is $(job_field "${job}_0" JobState)"
  kill $coordinator 2>/dev/null
  wait $coordinator 2>/dev/null
  "$BIN/dragonn" replay elastic --until "$(sed -n 's/.*"step":\([0-9]*\),.*/\1/p' elastic/membership.jsonl | tail -1)" >replay.log 2>&1 ||
    fail "elastic: the replay: $(tail -3 replay.log)"
}

long=(--set train.epochs=40) endless=(--set train.epochs=1000000 --set checkpoint.every_epochs=1)
short_hash=$(reference) long_hash=$(reference "${long[@]}")
start_cluster
run_case() {
  local before=$failures
  "$@"
  [ "$failures" = "$before" ] && echo "passed: $*" || echo "failed: $*"
}
run_case case_srun pmix --mpi=pmix
run_case case_srun tcp --mpi=none --set comm.backend=tcp
run_case case_requeue
run_case case_scancel
run_case case_elastic
finish
