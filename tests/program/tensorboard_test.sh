#!/usr/bin/env bash
# TensorBoard's own reader finds in a run's event files what metrics.jsonl and config.toml say, after a kill and a resume
# too. Skipped without the Python package tensorboard.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
python3 -W ignore -c 'import tensorboard' 2>/dev/null || { echo "skipped: python3 has no package tensorboard"; exit 77; }

run=(quick.toml --workers 2 --set logging.tensorboard=true --set checkpoint.every_steps=25)
"$train" "${run[@]}" --output whole 2>/dev/null || fail "a run"

# The run is killed after a checkpoint and an evaluation: resumed, it repeats the steps since. What it repeats counts once.
"$train" "${run[@]}" --set train.epochs=400 --output resumed 2>/dev/null &
has_evaluated() { grep -qs '"kind":"eval"' resumed/metrics.jsonl; } # at step 30
wait_until $! has_evaluated || fail "the run to kill ended before its first evaluation"
kill -KILL $!
wait $! 2>/dev/null
last=$(($(tail -n 1 resumed/metrics.jsonl | sed -n 's/.*"step":\([0-9]*\).*/\1/p') + 30))
"$train" "${run[@]}" --set train.epochs=400 --set train.max_steps=$last --output resumed --resume auto 2>/dev/null || fail "resuming"

cat >read.py <<'PY'
import json, sys
import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

folder, sessions = sys.argv[1], int(sys.argv[2])
events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
compared = 0

def compare(tag, pairs):
    global compared
    pairs = [(step, float(numpy.float32(value))) for step, value in pairs]
    read = [(event.step, event.value) for event in events.Scalars(tag)]
    assert read == pairs, f"{tag}: {read[:3]}... instead of {pairs[:3]}..."
    compared += len(pairs)

steps = [line for line in lines if line["kind"] == "step"]
evaluations = [line for line in lines if line["kind"] == "eval"]
for key in ["loss", "learning_rate", "density_target", "density_local", "density_global", "residual_norm", "time"]:
    compare("train/" + key, [(line["step"], line[key]) for line in steps])
for key in ["loss", "accuracy"]:
    compare("test/" + key, [(line["step"], line[key]) for line in evaluations])
compare("bytes_sent/mean", [(line["step"], line["bytes_sent"]["mean"]) for line in steps])
compare("seconds/forward", [(line["step"], line["seconds"]["forward"]) for line in steps])
compare("traffic/exchange/messages/max", [(line["step"], line["traffic"]["exchange"]["messages"]["max"]) for line in steps])
compare("selected/mean", [(line["step"], sum(line["selected"]) / len(line["selected"])) for line in steps])

def tensors(tag):
    return [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in events.Tensors(tag)]

configs = tensors("config")
assert len(configs) == sessions, f"{len(configs)} configs"
text = configs[-1][1][0].decode()
assert text == "```toml\n" + open(folder + "/config.toml").read() + "```\n", text[:200]

# The reader forgets the repeated steps of scalars, not those of tensors: the last one counts.
histograms = dict(tensors("residual/log10_magnitude"))
assert sorted(histograms) == [line["step"] for line in evaluations], (sorted(histograms), evaluations)
for bars in histograms.values():
    assert bars.shape[1] == 3 and bars.dtype == numpy.float64
    assert numpy.array_equal(bars[1:, 0], bars[:-1, 1]) and bars[:, 2].sum() > 0
plugins = events.SummaryMetadata("residual/log10_magnitude").plugin_data.plugin_name, events.SummaryMetadata("config").plugin_data.plugin_name
assert plugins == ("histograms", "text"), plugins
print(f"{folder}: {compared} numbers agree")
PY
python3 -W ignore read.py whole 1 || fail "the events of a run"
python3 -W ignore read.py resumed 2 || fail "the events of a resumed run"

# An event file that cannot be made or goes on is an error, as metrics.jsonl is.
mkdir full && mount -t tmpfs -o size=64k tmpfs full 2>/dev/null && {
  "$train" "${run[@]}" --set checkpoint.every_epochs=0 --set checkpoint.every_steps=0 --set train.epochs=100 --output full 2>full.log &&
    fail "a run on a full disk ended with exit code 0"
  grep -qE " E .*No space left on device" full.log || fail "not said: $(tail -1 full.log)"
  umount full
}
finish
