#!/usr/bin/env bash
# Processes write one timeline; a run that is killed, or ends before its first step, leaves none.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train

# check FILE RANKS: valid JSON, with spans of every rank on every track.
check() {
  python3 - "$@" <<'PYTHON' || fail "the timeline $1"
import json, sys
path, ranks = sys.argv[1], int(sys.argv[2])
file = json.load(open(path))
spans = [event for event in file["traceEvents"] if event["ph"] == "X"]
tracks = {(event["pid"], event["tid"]) for event in spans}
assert tracks == {(rank, track) for rank in range(ranks) for track in range(3)}, tracks
steps = {rank: [span for span in spans if (span["pid"], span["tid"]) == (rank, 0)] for rank in range(ranks)}
assert all(len(found) == 3 for found in steps.values()), steps
# No message arrives before it is sent, to the error of the clocks.
messages = {"send": {}, "receive": {}}
for span in spans:
    if span["name"] in messages:
        ends = (span["pid"], span["args"]["peer"])
        messages[span["name"]].setdefault(ends if span["name"] == "send" else ends[::-1], []).append(span)
assert messages["send"].keys() == messages["receive"].keys() == {(0, 1), (1, 0)}
error = 2 * file["otherData"]["clock_error_us"]
arrows = {phase: {event["id"]: event for event in file["traceEvents"] if event["ph"] == phase} for phase in "sf"}
number = sum(len(sends) for sends in messages["send"].values())
assert arrows["s"].keys() == arrows["f"].keys() and len(arrows["s"]) == number, (len(arrows["s"]), len(arrows["f"]), number)
assert sum(event["ph"] in "sf" for event in file["traceEvents"]) == 2 * number
for id, begin in arrows["s"].items():
    end = arrows["f"][id]
    assert begin["pid"] != end["pid"] and begin["ts"] <= end["ts"] + 0.001 + error, (begin, end, error)
for ends, sends in messages["send"].items():
    receives = messages["receive"][ends]
    assert [span["args"]["bytes"] for span in sends] == [span["args"]["bytes"] for span in receives]
    for send, receive in zip(sends, receives):
        assert send["ts"] <= receive["ts"] + receive["dur"] + error, (send, receive, error)
PYTHON
}

# Two processes, whose clocks have other origins.
ranks() {
  local rank
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 "$train" quick.toml --set comm.backend=tcp --set "comm.rendezvous=file:$WORK/rendezvous" "$@" \
      >"log$rank" 2>&1 &
  done
  wait
}
ranks --output tcp --set logging.trace=3 --set logging.trace_first=2 --set train.max_steps=6
check tcp/trace.json 2
grep -qE 'wrote the timeline of steps 2 to 4 to tcp/trace.json: [0-9]+ spans of 2 ranks' tcp/log.txt || fail "it passes in silence"

"$train" quick.toml --workers 2 --output small --set logging.trace=50 --set logging.trace_mb=0.01 >log 2>&1 || fail "$(cat log)"
grep -q 'warning the timeline of rank 1 stops in step 1: logging.trace_mb = 0.01 is full' small/log.txt || fail "a full timeline: $(cat log)"
[ "$(wc -c <small/trace.json)" -le 10000 ] || fail "the timeline is larger than logging.trace_mb"
python3 -c 'import json; json.load(open("small/trace.json"))' || fail "a full timeline is no JSON"

"$train" quick.toml --output late --set logging.trace=1 --set logging.trace_first=9 --set train.max_steps=5 >log 2>&1 ||
  fail "a late timeline: $(cat log)"
grep -q 'no timeline: its first step is 9, and the run ends after step 5' log || fail "a late timeline passes in silence"
[ ! -e late/trace.json ] || fail "a late timeline is written"

"$train" quick.toml --output killed --set logging.trace=1000000 --set train.epochs=100000 >log 2>&1 &
process=$!
wait_until $process test -s killed/metrics.jsonl
kill -KILL $process
wait $process 2>/dev/null
[ -z "$(ls killed | grep trace)" ] || fail "a killed run leaves $(ls killed)"

expect_error 2 "logging.trace_mb=0: expected number in \(0, " -- "$train" quick.toml --set logging.trace_mb=0

finish
