#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A slow network on one machine. Hosts are network namespaces, connected by veth pairs to a bridge in its own namespace;
# both ends of every cable are shaped by `tc tbf`, so that each host sends and receives at its RATE, both at a time. Open MPI
# starts one rank per host, or several that share its cable and memory, and speaks TCP between hosts. Nothing of it is seen in the machine's own network: no interface, no
# route, no address. Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN), iproute2, Open MPI and python3.
# While a cluster is up the machine's processors do not sleep: one that wakes late costs `tc tbf` its rate. Every cluster that
# comes up measures what it carries from the first host to the second, says so in a line, and warns below 0.9 of their rates.
#
# Usage:
#   scripts/netns_cluster.sh run HOSTS[xRANKS] RATES -- COMMAND...   up, COMMAND under mpirun with one rank per host, or RANKS
#                                                            on each, down: also after a failure, a signal or SIGKILL.
#                                                            Exit code: mpirun's
#   scripts/netns_cluster.sh up HOSTS RATES                  HOSTS: 2 to 250. RATES: that of all hosts, or one for each, with
#                                                            commas: 100mbit, 1gbit, 2.5gbit, 500kbit; or 20mbit/100mbit,
#                                                            where a host sends at another rate than it receives at
#   scripts/netns_cluster.sh exec [--hosts N[xRANKS]] COMMAND...    COMMAND under mpirun on the first N hosts (all)
#   scripts/netns_cluster.sh down                            ends what runs there, and removes all
#   scripts/netns_cluster.sh measure                         prints what it carries from host to host, in Gbit/s of payload
#   scripts/netns_cluster.sh check                           whether this machine permits all that; else why not
# Environment: DRAGONN_CLUSTER, the name of the cluster of up, exec, measure and down (dragonn); clusters of different names stand
# side by side, and so do those of `run`. DRAGONN_CLUSTER_AWAKE, how processors are kept awake: `poll` (/dev/cpu_dma_latency),
# `spin` (a process of the class SCHED_IDLE on each) or `no`; unset: poll where that works, else spin. OMPI_MCA_* are Open MPI's.
# Exit codes: 2 bad usage, 3 this machine does not permit it, 1 anything else that fails.
set -euo pipefail

readonly self=$(realpath "${BASH_SOURCE[0]}")
readonly rate_tool=${self%/*}/netns_rate.py
# A subnet for network benchmarks (RFC 2544), private to the namespaces, so that clusters may share it.
readonly subnet=198.18.0
# The burst that a port lets pass at once, as time at its rate: short, or small messages pass unshaped (16 KiB at 1gbit).
readonly burst_us=131
readonly smallest_burst=4096 # two frames of 1500 bytes, and some
# A switch's buffer per port: the messages of some dozen hosts to one may queue without loss.
readonly queue_bytes=4194304

fail() { echo "netns_cluster: $2" >&2 && exit "$1"; } # CODE MESSAGE

host_space() { echo "$cluster-host$1"; } # NUMBER, from 1
host_address() { echo "$subnet.$1"; }
switch_space() { echo "$cluster-switch"; }

# spaces: the namespaces of this cluster. count_hosts: those that are hosts.
spaces() { ip netns list 2>/dev/null | awk -v prefix="$cluster-" 'index($1, prefix) == 1 { print $1 }'; }
count_hosts() { spaces | grep -c -- "^$cluster-host[0-9]*$" || true; }

require_permission() {
  local command
  for command in ip tc mpirun unshare setsid chrt taskset python3; do
    command -v "$command" >/dev/null || fail 3 "there is no '$command' (scripts/install_deps.sh installs it)"
  done
  [ "$(id -u)" -eq 0 ] || fail 3 "network namespaces need root; this is user $(id -un)"
}

require_cluster() {
  require_permission
  [ -n "$(spaces)" ] || fail 1 "no cluster '$cluster' is up (netns_cluster.sh up HOSTS RATES)"
}

check_size() { # HOSTS RATES
  local rates rate ends end
  [[ $1 =~ ^[0-9]{1,3}$ ]] && ((10#$1 >= 2 && 10#$1 <= 250)) || fail 2 "HOSTS '$1': expected 2 to 250"
  IFS=, read -ra rates <<<"$2,"
  ((${#rates[@]} == 1 || ${#rates[@]} == 10#$1)) || fail 2 "RATES '$2': expected one, or one for each of $((10#$1)) hosts"
  for rate in "${rates[@]}"; do
    IFS=/ read -ra ends <<<"$rate/"
    ((${#ends[@]} >= 1 && ${#ends[@]} <= 2)) || fail 2 "RATE '$rate': expected a rate such as 100mbit, or two such as 20mbit/100mbit"
    for end in "${ends[@]}"; do
      [[ $end =~ ^[0-9]+(\.[0-9]+)?[kmg]bit$ && $end =~ [1-9] ]] || fail 2 "RATE '$end': expected a rate such as 100mbit or 1gbit"
    done
  done
}

# rates_of HOST RATES: prints at what that host sends, and at what it receives.
rates_of() {
  local rates rate
  IFS=, read -ra rates <<<"$2"
  rate=${rates[$((${#rates[@]} == 1 ? 0 : $1 - 1))]}
  echo "${rate%/*} ${rate#*/}"
}

# ranks_of HOSTS[xRANKS]: prints the ranks of a host.
ranks_of() {
  if [[ $1 =~ ^[0-9]+x([1-9][0-9]{0,2})$ ]]; then echo "${BASH_REMATCH[1]}"; else echo 1; fi
}

# bytes_per_second RATE
bytes_per_second() {
  awk -v rate="$1" 'BEGIN { printf "%.0f\n", rate / 8 * (rate ~ /k/ ? 1e3 : rate ~ /m/ ? 1e6 : 1e9) }'
}

# shape SPACE INTERFACE RATE: what leaves by this interface. Frames come in bundles that fit the burst: above it the shaper
# takes them apart (a quarter of 1gbit is left on two cores), and smaller ones cost time, too.
shape() {
  local burst=$(($(bytes_per_second "$3") * burst_us / 1000000))
  burst=$((burst > smallest_burst ? burst : smallest_burst))
  ip -n "$1" link set "$2" gso_max_size $((burst * 7 / 8)) up
  tc -n "$1" qdisc add dev "$2" root tbf rate "$3" burst "$burst" limit "$queue_bytes"
}

make_host() { # NUMBER UP DOWN
  local space switch
  space=$(host_space "$1") switch=$(switch_space)
  ip netns add "$space"
  # As clusters are tuned: a connection that paused does not start from a small window again.
  ip netns exec "$space" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv4.tcp_slow_start_after_idle=0 \
    net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_no_metrics_save=1
  ip -n "$space" link set lo up
  ip -n "$switch" link add "port$1" type veth peer name eth0 netns "$space"
  ip -n "$space" address add "$(host_address "$1")/24" dev eth0
  ip -n "$switch" link set "port$1" master bridge
  shape "$space" eth0 "$2"
  shape "$switch" "port$1" "$3"
}

# build HOSTS RATES: in a subshell, whose first error ends it.
build() (
  set -e
  switch=$(switch_space)
  ip netns add "$switch"
  ip netns exec "$switch" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1
  ip -n "$switch" link add bridge type bridge
  ip -n "$switch" link set bridge up
  for ((host = 1; host <= $1; ++host)); do
    read -r rate_up rate_down < <(rates_of "$host" "$2")
    make_host "$host" "$rate_up" "$rate_down"
  done
)

choose_awake() {
  awake=${DRAGONN_CLUSTER_AWAKE:-$(if can_poll; then echo poll; else echo spin; fi)}
  [[ $awake =~ ^(poll|spin|no)$ ]] || fail 2 "DRAGONN_CLUSTER_AWAKE '$awake': expected poll, spin or no"
  [ "$awake" != poll ] || can_poll || fail 3 "DRAGONN_CLUSTER_AWAKE 'poll': an idle processor of this machine does not poll"
}

# can_poll: whether a processor that must not wake late polls instead of being halted.
can_poll() {
  [ "$(cat /sys/devices/system/cpu/cpu0/cpuidle/state0/name 2>/dev/null)" = POLL ] && (exec 9<>/dev/cpu_dma_latency) 2>/dev/null
}

# keep_awake: until the cluster is down. What does it runs in the namespace of the switch, where `down` finds it.
keep_awake() {
  [ "$awake" != no ] || return 0
  ip netns exec "$(switch_space)" setsid --fork "$self" "$awake" "$cluster" </dev/null >/dev/null 2>&1
}

stands() { [ -e "/run/netns/$(switch_space)" ]; }

# poll: asks the kernel for processors that are never late; the request lasts as long as the file is open.
poll() {
  exec 9<>/dev/cpu_dma_latency
  printf 0x00000000 >&9
  while stands; do sleep 1 9>&-; done
}

# spin: a process on each processor that runs when nothing else wants to, of a session that is to get little.
spin() {
  local part processor
  [ ! -e "/proc/$$/autogroup" ] || echo 19 >"/proc/$$/autogroup"
  # Of those that this process may use, in a list such as 0-3,8.
  for part in $(awk '$1 == "Cpus_allowed_list:" { gsub(",", " ", $2); print $2 }' /proc/self/status); do
    for ((processor = ${part%-*}; processor <= ${part#*-}; ++processor)); do
      (
        taskset --cpu-list --pid "$processor" "$BASHPID"
        chrt --idle --pid 0 "$BASHPID"
        while stands; do for ((i = 0; i < 10000; ++i)); do :; done; done
      ) &
    done
  done
  wait
}

# shaped SPACE INTERFACE: prints the bytes per second of what leaves there.
shaped() { tc -n "$1" -j qdisc show dev "$2" | sed -n 's/.*"rate":\([0-9]*\).*/\1/p'; }

# asked: prints the bytes per second at which the first host may send to the second.
asked() {
  printf '%s\n' "$(shaped "$(host_space 1)" eth0)" "$(shaped "$(switch_space)" port2)" | sort -n | head -1
}

# measure: prints what the first host sends to the second, in Gbit/s; nothing where the rate is too low to say so in a moment.
measure() {
  {
    ip netns exec "$(host_space 2)" python3 "$rate_tool" receive "$(host_address 2)" &
    ip netns exec "$(host_space 1)" python3 "$rate_tool" send "$(host_address 2)" "$(asked)"
    wait $!
  } | awk '{ printf "%.3g\n", $1 * 8 / 1e9 }'
}

# report HOSTS RATES: what was asked for, and what there is.
report() {
  local measured
  measured=$(measure 2>/dev/null) || true
  echo "netns_cluster: $1 hosts at $2, $([ -n "$measured" ] && echo "measured $measured Gbit/s" || echo "not measured")" >&2
  awk -v asked="$(asked)" -v found="$measured" 'BEGIN {
    share = found * 1e9 / 8 / asked
    if (found != "" && share < 0.9)
      printf "netns_cluster: warning: that is %.2g of the rate: this machine is too busy or too slow for it\n", share
  }' >&2
}

up() { # HOSTS RATES
  local messages status
  check_size "$@"
  choose_awake
  require_permission
  [ -z "$(spaces)" ] || fail 1 "cluster '$cluster' is up already (netns_cluster.sh down removes it)"
  # Not as a condition: bash would go on behind errors in there.
  set +e
  messages=$(build $((10#$1)) "$2" 2>&1)
  status=$?
  set -e
  [ "$status" -eq 0 ] || { down && fail 3 "this machine does not permit it: ${messages//$'\n'/; }"; }
  keep_awake
  report $((10#$1)) "$2"
}

down() {
  local space pids
  pids=$(for space in $(spaces); do ip netns pids "$space" 2>/dev/null || true; done)
  # shellcheck disable=SC2086: a list
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
  for space in $(spaces); do ip netns delete "$space"; done
}

# launch HOSTS RANKS COMMAND...: becomes mpirun, on host 1, with RANKS on each host.
launch() {
  local count=$1 ranks=$2 hosts="" host setting name memory
  shift 2
  memory=$( ((ranks == 1)) || echo ,vader) # between the ranks of a host
  [[ $self != *[[:space:]:]* ]] || fail 1 "mpirun cannot call '$self': the path has a blank or a colon"
  for ((host = 1; host <= count; ++host)); do hosts+="${hosts:+,}$(host_address "$host"):$ranks"; done
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # Unless the caller has set it. By the small buffer, messages to several hosts leave one after the other, as they were sent,
  # and not side by side. The hosts share few cores.
  for setting in plm_rsh_agent="$self enter $cluster" pml=ob1 "btl=tcp,self$memory" btl_tcp_if_include=$subnet.0/24 \
    oob_tcp_if_include=$subnet.0/24 btl_tcp_sndbuf=65536 hwloc_base_binding_policy=none mpi_yield_when_idle=1; do
    name=OMPI_MCA_${setting%%=*}
    [ -n "${!name+set}" ] || export "$name=${setting#*=}"
  done
  enter "$(host_address 1)" mpirun --host "$hosts" -np $((count * ranks)) "$@"
}

# enter ADDRESS COMMAND...: becomes COMMAND on the host with that address, under a host name of its own.
enter() {
  local space
  space=$(host_space "${1##*.}")
  exec ip netns exec "$space" unshare --uts bash -c 'hostname "$0"; exec "$@"' "$space" "${@:2}"
}

run() { # HOSTS[xRANKS] RATES -- COMMAND...
  local hosts=${1:-} rates=${2:-} ranks signal launcher status
  [ $# -ge 4 ] && [ "$3" = -- ] || fail 2 "expected: run HOSTS[xRANKS] RATES -- COMMAND..."
  ranks=$(ranks_of "$hosts")
  hosts=${hosts%x"$ranks"}
  shift 3
  cluster+=$$
  trap down EXIT
  # Where not even a trap runs.
  setsid --fork "$self" guard "$cluster" $$ </dev/null >/dev/null 2>&1
  up "$hosts" "$rates"
  for signal in INT TERM HUP USR1; do
    # shellcheck disable=SC2064: as it is now
    trap "kill -$signal \$launcher 2>/dev/null || true" "$signal"
  done
  (trap - EXIT; launch $((10#$hosts)) "$ranks" "$@") &
  launcher=$!
  while true; do
    status=0
    wait "$launcher" || status=$?
    kill -0 "$launcher" 2>/dev/null || break # else a signal ended the wait
  done
  exit "$status"
}

cluster=${DRAGONN_CLUSTER:-dragonn}
[[ $cluster =~ ^[A-Za-z][A-Za-z0-9_]{0,31}$ ]] || fail 2 "DRAGONN_CLUSTER '$cluster': expected letters, digits and _"
action=${1:-}
[ $# -eq 0 ] || shift
case $action/$# in
  up/2) up "$@" ;;
  up/*) fail 2 "expected: up HOSTS RATES" ;;
  exec/*)
    require_cluster
    hosts=$(count_hosts) ranks=1
    if [ "${1:-}" = --hosts ]; then
      ranks=$(ranks_of "${2:-}")
      wanted=${2:-}
      wanted=${wanted%x"$ranks"}
      [[ $wanted =~ ^[1-9][0-9]{0,2}$ ]] && ((wanted <= hosts)) ||
        fail 2 "--hosts '${2:-}': expected 1 to $hosts, or so many and the ranks of each, such as ${hosts}x2"
      hosts=$wanted
      shift 2
    fi
    [ $# -gt 0 ] || fail 2 "expected: exec [--hosts N[xRANKS]] COMMAND..."
    launch "$hosts" "$ranks" "$@"
    ;;
  down/0) require_cluster && down ;;
  measure/0) require_cluster && { measure || fail 1 "no transfer from host to host"; } ;;
  down/* | measure/*) fail 2 "expected: $action" ;;
  run/*) run "$@" ;;
  check/*)
    cluster+=$$
    trap down EXIT
    up 2 1gbit
    ;;
  -h/* | --help/*) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$self" ;;
  poll/* | spin/*) # of keep_awake: CLUSTER
    cluster=$1
    "$action"
    ;;
  enter/*) # mpirun's remote shell: CLUSTER ADDRESS, and a line for a shell
    cluster=$1
    enter "$2" sh -c "${*:3}"
    ;;
  guard/*) # CLUSTER OWNER: takes the cluster down after its owner, however that ended
    cluster=$1
    tail --pid="$2" --sleep-interval=0.2 -f /dev/null
    down
    ;;
  *) fail 2 "'$action': expected run, up, exec, measure, down or check (--help says more)" ;;
esac
