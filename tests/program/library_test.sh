#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The shared library from C: a program compiled as C runs alone, under mpirun and over TCP; a rank that never comes ends the
# wait of the others.
. "$(dirname "$0")/lib.sh" "$1"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
library=$(cd "$BIN/../library" && pwd)
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT

cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$ROOT/tests/library/exchange.c" -I "$ROOT/library" -L "$library" \
  "-Wl,-rpath,$library" -ldragonn -lm -o exchange || fail "the C program does not compile"
[ "$failures" = 0 ] || finish

# says TEXT COMMAND...: the command ends well and prints the text on a line of its own, once for each rank.
says() {
  local text=$1
  shift
  timeout 100 "$@" >output.log 2>&1 || fail "$*: $(tail -5 output.log)"
  grep -qx -e "$text" output.log || fail "no '$text' from $*: $(cat output.log)"
}
# as_two COMMAND...: two processes that meet over TCP, by a file. Waits for both; the exit code is that of rank 0.
as_two() {
  local status=0
  local -x DRAGONN_TEST_RENDEZVOUS=$WORK/rendezvous WORLD_SIZE=2
  RANK=1 timeout 100 "$@" >rank1.log 2>&1 &
  RANK=0 timeout 100 "$@" || status=$?
  wait $! || { cat rank1.log; status=1; }
  return $status
}

says ok ./exchange
says ok mpirun -np 2 ./exchange
[ "$(grep -cx ok output.log)" = 2 ] || fail "not two ranks under mpirun: $(cat output.log)"
as_two ./exchange >output.log 2>&1 || fail "over TCP: $(cat output.log)"
timeout 100 mpirun -np 2 ./exchange --late >output.log 2>&1
grep -q '^late: the group has ended: rank 0, .*nothing for 5 s (comm.timeout_s)' output.log ||
  fail "no deadline under mpirun: $(cat output.log)"
as_two ./exchange --late >output.log 2>&1 || fail "late over TCP: $(cat output.log)"
grep -q '^late: the group has ended: rank 0, ' output.log || fail "no end of the group over TCP: $(cat output.log)"
if has_fault_points; then
  DRAGONN_FAULT=mpi_dup:1:1:stop timeout 100 mpirun -np 2 ./exchange --late >output.log 2>&1
  grep -q 'connecting to all ranks: nothing for 5 s (comm.timeout_s); process [0-9]* of rank 1 is stopped' output.log ||
    fail "no deadline where a group begins: $(cat output.log)"
  DRAGONN_FAULT=exchange:1:2:throw as_two ./exchange --fault >output.log 2>&1 || fail "an error of rank 1: $(cat output.log)"
  grep -qx failed output.log || fail "no error of rank 1: $(cat output.log)"
fi

# Nothing but the functions of the header is visible.
names=$(nm -D --defined-only "$library/libdragonn.so" | awk '{ print $3 }' | grep -v '^dragonn_')
[ -z "$names" ] || fail "names beside dragonn_*: $(head -3 <<<"$names")"

finish
