#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/launch.sh starts ranks by ssh, here by a stand-in that runs them on this machine: the result is that of local workers,
# signals and failures reach all ranks, and a bad hosts file is one line.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train launch=$ROOT/scripts/launch.sh
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >ssh.sh
chmod +x ssh.sh
export DRAGONN_SSH=$WORK/ssh.sh OMP_NUM_THREADS=1
printf '# two hosts, three ranks\n127.0.0.1 slots=2\n\nroot@localhost # one more\n' >hosts.txt

"$train" quick.toml --workers 3 --output local 2>/dev/null || fail "local workers"
"$launch" hosts.txt -- "$train" quick.toml --output "a folder's name" >launch.log 2>&1 || fail "launch: $(tail -3 launch.log)"
[ -n "$(parameters_hash local)" ] && [ "$(parameters_hash local)" = "$(parameters_hash "a folder's name")" ] || fail "other parameters"
grep -q '^\[0\] ' launch.log || fail "no prefix: $(tail -3 launch.log)"
grep -q '^secret_file = ".' "a folder's name/config.toml" || fail "no secret"

# The first failure is the exit code, and nothing is left behind it.
status=0
"$launch" hosts.txt -- bash -c '[ "$RANK" != 1 ] || exit 7; echo $$ >pid.$RANK; exec sleep 1000' >failure.log 2>&1 || status=$?
[ $status = 7 ] && grep -q 'rank 1 on 127.0.0.1 ended with 7' failure.log || fail "exit code $status: $(cat failure.log)"
for rank in 0 2; do ! kill -0 "$(cat pid.$rank 2>/dev/null)" 2>/dev/null || fail "rank $rank goes on"; done

# stop SIGNAL NAME: while it trains, the launcher gets the signal.
stop() {
  "$launch" hosts.txt -- "$train" quick.toml --set train.epochs=1000000 --set checkpoint.every_steps=5 --output "$2" >"$2.log" 2>&1 &
  process=$!
  wait_until $process has_checkpoint "$2" || fail "$2: no checkpoint: $(tail -3 "$2.log")"
  kill "-$1" $process
  status=0
  wait $process || status=$?
}
for signal in USR1 TERM; do
  stop $signal "stopped-$signal"
  [ $status = 75 ] && grep -q 'a signal stopped the run' "stopped-$signal.log" || fail "$signal: exit code $status: $(tail -3 "stopped-$signal.log")"
done
# A launcher that is killed leaves no ranks.
stop KILL killed
wait_until "$(sh -c 'sleep 60 >/dev/null 2>&1 & echo $!')" sh -c '! pgrep -f "[q]uick.toml .*--output killed" >/dev/null' || fail "ranks are left"

bad() { # PATTERN ARGUMENT...
  status=0
  output=$("$launch" "${@:2}" 2>&1) || status=$?
  [ $status = 2 ] && [ "$(wc -l <<<"$output")" = 1 ] && grep -qE "$1" <<<"$output" || fail "$status: $output instead of $1"
}
printf 'localhost\nlocalhost slots=many\n' >bad.txt
: >empty.txt
bad "bad.txt, line 2: 'localhost slots=many': expected HOST" bad.txt -- true
bad 'empty.txt: expected at least one host' empty.txt -- true
bad 'missing.txt: expected a file' missing.txt -- true
bad 'expected: launch.sh' hosts.txt true
bad "port '0'" --port 0 hosts.txt -- true
finish
