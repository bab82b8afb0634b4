# SPDX-License-Identifier: MIT
# Helpers of the tests of elastic runs; sourced behind lib.sh.
train=$BIN/dragonn-train
unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE

# start NAME RANKS ARGUMENT...: the workers of a run. Logs: NAME.RANK.log. FAULT is for the process of rank FAULT_OF, or 1.
start() {
  local name=$1 ranks=$2 rank fault=${FAULT:-} SIZE=$2
  ids=()
  for ((rank = 0; rank < ranks; ++rank)); do
    FAULT=
    [ "$rank" != "${FAULT_OF:-1}" ] || FAULT=$fault
    start_worker "$name" "$rank" "$rank" "${@:3}"
  done
}
# start_worker NAME RANK LOG ARGUMENT...: one more worker. Log: NAME.LOG.log.
start_worker() {
  env ${FAULT:+"DRAGONN_FAULT=$FAULT"} RANK="$2" WORLD_SIZE="${SIZE:-9}" "$train" quick.toml --set comm.backend=tcp --set comm.elastic=true \
    --set comm.heartbeat_timeout_s=${HEARTBEAT:-30} --set "comm.rendezvous=file:$WORK/$1.meet" --output "$1" "${@:4}" >"$1.$3.log" 2>&1 &
  ids+=($!)
}
# coordinate NAME RANKS ARGUMENT...: the coordinator of such a run, as a process of its own.
coordinate() {
  "$BIN/dragonn" coordinator quick.toml --workers "$2" --set comm.backend=tcp --set comm.elastic=true --set comm.heartbeat_timeout_s=${HEARTBEAT:-30} \
    --set "comm.rendezvous=file:$WORK/$1.meet" "${@:3}" >"$1.coordinator.log" 2>&1 &
  coordinator=$!
}
# ended NAME CODE...: the workers end with these codes, by rank.
ended() {
  local id codes=()
  for id in "${ids[@]}"; do
    wait "$id" 2>/dev/null
    codes+=($?)
  done
  [ "${codes[*]}" = "${*:2}" ] || fail "$1: exit codes ${codes[*]} instead of ${*:2}: $(tail -qn 2 "$1".*.log)"
}
# replayed NAME: the replay has the bits of the run.
replayed() {
  local hash
  hash=$(parameters_hash "$1")
  [ -n "$hash" ] || fail "$1: no hash"
  "$BIN/dragonn" replay "$1" >"$1.replay.log" 2>&1 || fail "$1: the replay failed: $(tail -3 "$1.replay.log")"
  [ "$hash" = "$(parameters_hash "$1/replay")" ] || fail "$1: the replay has other parameters"
}
# refused PATTERN -- COMMAND...: a subcommand of dragonn ends with 2, and says why.
refused() {
  local status=0
  "${@:3}" >refused.log 2>&1 || status=$?
  [ "$status" = 2 ] && grep -q "$1" refused.log || fail "$status: ${*:3}: $(cat refused.log)"
}
generations() { grep -c '"generation"' "$1/membership.jsonl"; }
has_steps() { [ -f "$1/metrics.jsonl" ] && grep -q "\"step\":$2," "$1/metrics.jsonl"; } # NAME STEP

