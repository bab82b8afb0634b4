#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A cluster of network namespaces has the bandwidth it is asked for, trains to the same bits as local workers, and leaves
# nothing behind, however it ends. Rates are compared with rates that were measured beside them; where the machine does not
# hold what was asked for, the comparison is left out, and said to be.
. "$(dirname "$0")/../program/lib.sh" "$1"
cluster=$ROOT/scripts/netns_cluster.sh
export DRAGONN_CLUSTER=dragonntest$$

reason=$("$cluster" check 2>&1) || {
  echo "skipped: $reason"
  exit 77
}

# What is left of this test's clusters: namespaces, what keeps processors awake, what is seen in the machine's network.
keepers() { pgrep -f "netns_cluster.sh (poll|spin) $DRAGONN_CLUSTER"; }
traces() {
  ip netns list 2>/dev/null | awk -v name="$DRAGONN_CLUSTER" 'index($1, name) == 1 { print $1 }' | sort
  keepers
  ip -brief link | awk '{ print $1 }'
  ip route
}
before=$(traces)

# soon CONDITION...: whether the command comes to hold within a minute, which is no matter of speed.
soon() {
  local end=$((SECONDS + 60))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
nothing_left() { [ "$(traces)" = "$before" ]; }

# refused CODE PATTERN ARGUMENT...: the script ends with CODE, one line that matches PATTERN, and without a trace.
refused() {
  local code=$1 pattern=$2 output status=0
  shift 2
  output=$("$cluster" "$@" 2>&1) || status=$?
  [ "$status" = "$code" ] && [[ $output =~ $pattern ]] && [ "$(wc -l <<<"$output")" = 1 ] ||
    fail "$*: exit code $status and '$output' instead of $code and '$pattern'"
  [ "$(traces)" = "$before" ] || fail "$* leaves something behind: $(traces)"
}

refused 2 "HOSTS '1': expected 2 to 250" up 1 100mbit
refused 2 "HOSTS 'four'" run four 100mbit -- true
refused 2 "RATE 'fast': expected a rate such as 100mbit" up 4 fast
refused 2 "RATE '0mbit'" run 2 0mbit -- true
refused 2 "RATES '1gbit,1gbit': expected one, or one for each of 3 hosts" up 3 1gbit,1gbit
refused 2 "RATE '1mbit/2mbit/3mbit': expected a rate such as 100mbit, or two such as 20mbit/100mbit" up 2 1gbit,1mbit/2mbit/3mbit
refused 2 "RATE 'slow'" up 2 1gbit,20mbit/slow
refused 2 "RATE ''" up 2 1gbit/
refused 2 "expected: run HOSTS\[xRANKS\] RATES -- COMMAND" run 2 100mbit true
refused 2 "HOSTS '2x0'" run 2x0 100mbit -- true
refused 2 "'': expected run, up, exec, measure, down or check"
DRAGONN_CLUSTER_AWAKE=coffee refused 2 "DRAGONN_CLUSTER_AWAKE 'coffee': expected poll, spin or no" up 2 100mbit
refused 1 "no cluster '$DRAGONN_CLUSTER' is up" measure
refused 1 "no cluster '$DRAGONN_CLUSTER' is up" exec true
refused 1 "no cluster '$DRAGONN_CLUSTER' is up" down

for word in -h --help; do
  output=$("$cluster" $word) && [[ $output == *"netns_cluster.sh run HOSTS[xRANKS] RATES -- COMMAND"* ]] || fail "$word: $output"
done

# is EXPRESSION: a comparison of numbers.
is() { awk "BEGIN { exit !($1) }"; }
# largest NUMBER...: of several tries, as a busy machine takes from a rate and adds nothing.
largest() { printf '%s\n' "$@" | sort -g | tail -1; }
rate() { largest 0 "$("$cluster" measure)" "$("$cluster" measure)" "$("$cluster" measure)"; }
bench_rate() { # CLUSTER
  DRAGONN_CLUSTER=$1 "$cluster" exec "$BIN/dragonn-bench" network --json network.json >network.log 2>&1 ||
    fail "dragonn-bench network: $(tail -3 network.log)" >&2
  sed -n 's/.*"gbps": \([0-9.e-]*\).*/\1/p' network.json | tail -1
}

# What comes up says what it carries; half of what is asked for is half of it; and ranks see that rate, too, where nothing
# else slows them down: it takes little to keep a rank from its processor while its connection runs empty.
said="^netns_cluster: 2 hosts at 50mbit, (measured [0-9.e-]+ Gbit/s|not measured)"
output=$("$cluster" up 2 50mbit 2>&1) && [[ $output =~ $said ]] || fail "up says '$output' instead of '$said'"
half=$(rate)
fast=${DRAGONN_CLUSTER}fast
DRAGONN_CLUSTER=$fast "$cluster" up 2 10gbit 2>/dev/null || fail "up, beside another one"
free_before=$(bench_rate "$fast") half_of_ranks=$(bench_rate "$DRAGONN_CLUSTER") free_after=$(bench_rate "$fast")
DRAGONN_CLUSTER=$fast "$cluster" down || fail "down, beside another one"
"$cluster" down || fail "down"
"$cluster" up 2 100mbit 2>/dev/null || fail "up"
whole=$(rate)
"$cluster" down || fail "down"
if is "$half < 0.9 * 0.05 || $whole < 0.9 * 0.1"; then
  echo "skipped: comparisons of rates: this machine holds $half Gbit/s of 50mbit and $whole of 100mbit"
else
  is "$whole > 1.8 * $half && $whole < 2.2 * $half" || fail "$whole Gbit/s at 100mbit, $half at 50mbit"
fi
if is "$half < 0.9 * 0.05 || ${free_before:-0} < 20 * $half || ${free_after:-0} < 20 * $half"; then
  echo "skipped: the rate of ranks: without a limit they have $free_before and $free_after Gbit/s on this machine, $half_of_ranks with one of $half"
else
  is "${half_of_ranks:-0} > 0.8 * $half && ${half_of_ranks:-0} < 1.2 * $half" || fail "$half_of_ranks Gbit/s of ranks where $half were measured"
fi
"$cluster" run 2 100mbit -- true 2>/dev/null || fail "a run"
soon nothing_left || fail "a run, or a cluster beside another one, leaves something behind: $(traces)"

# The kernel is asked for no delay; as many processes of the idle class as there are processors, each on one.
polls() { [ "$(od -An -td4 -N4 /dev/cpu_dma_latency | tr -d ' ')" = 0 ]; }
spins() {
  local process spinners
  spinners=$(for process in $(keepers); do
    [[ $(chrt --pid "$process" 2>/dev/null) != *SCHED_IDLE* ]] || taskset --cpu-list --pid "$process"
  done | grep -cE ' [0-9]+$')
  [ "$spinners" = "$(nproc)" ]
}

# Processors are kept awake while a cluster is up, by little enough, and no longer, be its namespaces removed by hand.
for way in poll spin no; do
  output=$(DRAGONN_CLUSTER_AWAKE=$way "$cluster" up 2 1gbit 2>&1) || {
    [[ $way = poll && $output == *"does not poll" ]] || fail "up, $way: $output"
    continue
  }
  case $way in
    poll) soon polls || fail "poll: processors may wake late" ;;
    spin) soon spins || fail "spin: no process of the idle class on every processor" ;;
    no) [ -z "$(keepers)" ] || fail "no: processors are kept awake" ;;
  esac
  for space in $(ip netns list 2>/dev/null | awk -v name="$DRAGONN_CLUSTER-" 'index($1, name) == 1 { print $1 }'); do
    ip netns delete "$space"
  done
  soon nothing_left || fail "$way: something goes on when the namespaces are gone: $(traces)"
done

# One cluster for all methods, by hand.
"$cluster" up 4 100mbit || fail "up"
output=$("$cluster" up 4 100mbit 2>&1) && fail "a second cluster of the same name"
[[ $output =~ "is up already" ]] || fail "a second cluster: $output"
for method in topk oktopk dense; do
  settings=(--set compression.method="$method" --set train.epochs=1)
  "$BIN/dragonn-train" quick.toml --workers 4 "${settings[@]}" --output "local-$method" 2>/dev/null || fail "$method, local"
  "$cluster" exec "$BIN/dragonn-train" quick.toml "${settings[@]}" --output "hosts-$method" >hosts.log 2>&1 ||
    fail "$method, hosts: $(tail -3 hosts.log)"
  [ -n "$(parameters_hash "local-$method")" ] || fail "$method: no hash"
  [ "$(parameters_hash "local-$method")" = "$(parameters_hash "hosts-$method")" ] || fail "$method: other parameters on hosts"
done
# Several ranks on a host are a node, whose exchange has two levels.
settings=(--set compression.method=topk --set train.epochs=1)
"$BIN/dragonn-train" quick.toml --workers 4 "${settings[@]}" --set comm.workers_per_node=2 --output local-nodes 2>/dev/null ||
  fail "nodes, local"
"$cluster" exec --hosts 2x2 "$BIN/dragonn-train" quick.toml "${settings[@]}" --output hosts-nodes >hosts.log 2>&1 ||
  fail "nodes, hosts: $(tail -3 hosts.log)"
grep -q "2 nodes of 2 workers: gradients are summed inside a node" hosts-nodes/log.txt || fail "the nodes are not found: $(head -9 hosts.log)"
[ "$(parameters_hash local-nodes)" = "$(parameters_hash hosts-nodes)" ] || fail "other parameters on nodes"
[ "$(parameters_hash local-nodes)" != "$(parameters_hash local-topk)" ] || fail "nodes do not matter"
names=$("$cluster" exec --hosts 3 hostname 2>/dev/null | sort | tr '\n' ' ')
[ "$names" = "$(printf '%s ' "$DRAGONN_CLUSTER"-host{1,2,3})" ] || fail "three ranks on '$names'"
"$cluster" down || fail "down"
soon nothing_left || fail "down leaves something behind: $(traces)"

# Hosts at unlike rates: the ranks measure each pair of them, and local workers train on what they found.
output=$("$cluster" up 3 40mbit,20mbit/80mbit,80mbit 2>&1) || fail "up, unlike rates: $output"
"$cluster" exec "$BIN/dragonn-bench" network --pairs --seconds 0.1 --json pairs.json >pairs.log 2>&1 || fail "pairs: $(tail -3 pairs.log)"
python3 - pairs.json <<'PYTHON' || fail "not the network that there is: $(cat pairs.json pairs.log)"
import json, sys
network = json.load(open(sys.argv[1]))
up = [node["up_gbps"] for node in network["nodes"]]
pair = {(each["from"], each["to"]): each["gbps"] for each in network["pairs"]}
assert len(pair) == 6 and [node["workers"] for node in network["nodes"]] == [1, 1, 1]
assert all("host" in node["name"] for node in network["nodes"])
if min(pair[1, 0] / 0.02, pair[0, 1] / 0.04, pair[2, 1] / 0.08) < 0.8:
    print("skipped: rates of pairs: this machine does not hold them", network)
else:
    for ratio in (pair[0, 1] / pair[1, 0] / 2, pair[2, 1] / pair[2, 0] / 2, up[2] / pair[2, 0] / 2, pair[0, 2] / pair[0, 1]):
        assert 0.8 < ratio < 1.25, (pair, up)
PYTHON
"$cluster" down || fail "down"
"$BIN/dragonn-train" quick.toml --workers 3 --set network.model=alpha-beta --set network.file=pairs.json --set train.epochs=1 \
  --output on-pairs 2>on-pairs.log || fail "workers on the measured network: $(tail -3 on-pairs.log)"
grep -q "virtual cluster: 3 nodes with 1, 1, 1 workers" on-pairs/log.txt || fail "the log does not say the network: $(head -9 on-pairs.log)"

# The exit code is the command's; what fails leaves nothing behind.
status=0
"$cluster" run 3 1gbit -- "$BIN/dragonn-train" quick.toml --set compression.density=7 >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "exit code $status instead of 2"
soon nothing_left || fail "a failed run leaves something behind: $(traces)"

# end_by SIGNAL CODE: a run that gets the signal in its middle ends with the code and leaves nothing behind.
end_by() {
  local script status=0 output=$WORK/ended-$1
  "$cluster" run 2 100mbit -- "$BIN/dragonn-train" quick.toml --set train.epochs=100000 --output "$output" >"$output.log" 2>&1 &
  script=$!
  wait_until "$script" test -s "$output/metrics.jsonl" || fail "$1: the run does not begin: $(tail -3 "$output.log")"
  kill -"$1" "$script"
  wait "$script" 2>/dev/null || status=$?
  [ "$status" = "$2" ] || fail "$1: exit code $status instead of $2: $(tail -3 "$output.log")"
  soon nothing_left || fail "$1 leaves something behind: $(traces)"
  pgrep -f -- "--output $output\$" >/dev/null && fail "$1: ranks go on"
}
end_by USR1 75 # passed on: stopped with a checkpoint
end_by TERM 1
end_by KILL 137
finish
