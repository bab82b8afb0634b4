#!/usr/bin/env bash
# A cluster of network namespaces has the bandwidth it is asked for, trains to the same bits as local workers, and leaves
# nothing behind, however it ends.
. "$(dirname "$0")/../program/lib.sh" "$1"
cluster=$ROOT/scripts/netns_cluster.sh
export DRAGONN_CLUSTER=dragonntest$$

reason=$("$cluster" check 2>&1) || {
  echo "skipped: $reason"
  exit 77
}

traces() { ip netns list | awk '/^dragonn/ { print $1 }' | sort; ip -brief link | awk '{ print $1 }'; ip route; }
before=$(traces)

# gone_within SECONDS: whether the cluster leaves nothing behind.
gone_within() {
  local rounds
  for ((rounds = $1 * 10; rounds > 0; --rounds)); do
    [ "$(traces)" != "$before" ] || return 0
    sleep 0.1
  done
  return 1
}

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
refused 2 "expected: run HOSTS RATE -- COMMAND" run 2 100mbit true
refused 2 "'': expected run, up, exec, down or check"
refused 1 "no cluster '$DRAGONN_CLUSTER' is up" exec true
refused 1 "no cluster '$DRAGONN_CLUSTER' is up" down

# The payload's rate: frames have headers of 66 in 1514 bytes, and the ranks copy on a machine that is busy with them.
"$cluster" run 2 100mbit -- "$BIN/dragonn-bench" network --json network.json >network.log 2>&1 ||
  fail "dragonn-bench network: $(tail -3 network.log)"
gbps=$(sed -n 's/.*"gbps": \([0-9.e-]*\).*/\1/p' network.json | tail -1)
awk -v gbps="${gbps:-0}" 'BEGIN { exit !(gbps >= 0.085 && gbps <= 0.115) }' || fail "100 Mbit/s measured as $gbps Gbit/s"
gone_within 5 || fail "a run leaves something behind: $(traces)"

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
names=$("$cluster" exec --hosts 3 hostname 2>/dev/null | sort | tr '\n' ' ')
[ "$names" = "$(printf '%s ' "$DRAGONN_CLUSTER"-host{1,2,3})" ] || fail "three ranks on '$names'"
"$cluster" down || fail "down"
gone_within 5 || fail "down leaves something behind: $(traces)"

# The exit code is the command's; what fails leaves nothing behind.
status=0
"$cluster" run 3 1gbit -- "$BIN/dragonn-train" quick.toml --set compression.density=7 >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "exit code $status instead of 2"
gone_within 5 || fail "a failed run leaves something behind: $(traces)"

# end_by SIGNAL CODE: a run that gets the signal in its middle ends with the code and leaves nothing behind.
end_by() {
  local script status=0 output=ended-$1
  "$cluster" run 2 100mbit -- "$BIN/dragonn-train" quick.toml --set train.epochs=100000 --output "$output" >"$output.log" 2>&1 &
  script=$!
  for _ in $(seq 1000); do [ -s "$output/metrics.jsonl" ] && break; sleep 0.02; done
  [ -s "$output/metrics.jsonl" ] || fail "$1: the run does not begin: $(tail -3 "$output.log")"
  kill -"$1" "$script"
  wait "$script" 2>/dev/null || status=$?
  [ "$status" = "$2" ] || fail "$1: exit code $status instead of $2: $(tail -3 "$output.log")"
  gone_within 10 || fail "$1 leaves something behind: $(traces)"
  sleep 0.2
  pgrep -f "output $output\$" >/dev/null && fail "$1: ranks go on"
}
end_by USR1 75 # passed on: stopped with a checkpoint
end_by TERM 1
end_by KILL 137
finish
