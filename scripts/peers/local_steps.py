#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares local steps of dragonn with torchft's on the same slow hosts: loss against time.

    scripts/peers/local_steps.py            # measures what bench/results/local-steps-hosts.json lacks, then prints the tables

The hosts are those of scripts/netns_cluster.sh (root is needed), a rank on each with one thread. All runs take the same steps of
the same batches of a small GPT-2: dragonn-train over TCP, synchronous (dense, and topk at density 0.01) and with local steps (DiLoCo,
SparseLoCo, streaming); dragonn.LocalSteps around PyTorch's optimizer (scripts/peers/local_twin.py); and torchft's DiLoCo and streaming
over gloo with the same settings (scripts/peers/torchft_diloco.py). Tokens: data/shakespeare_characters (configs/README.md).

Rows are kept and not measured again. A run that takes longer than --seconds is stopped there, and its row says where it was. Run it
on a quiet machine. Exit code: 0 all rows are there, 1 a run failed, 2 bad usage, 77 PyTorch, torchft or the hosts are missing.
"""
import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from runs import BIN, CLUSTER, ROOT, Rows, expect_known, make_parser, metrics, obstacle, run_main, sets, summary, table, words

SMOOTHED = 5  # losses, each of every tenth step, whose mean is compared with the target
# What each run is: the config, and keys beside those of every run.
SYNCHRONOUS = {"train.batch_size": 3}
DENSE_START = "compression.oktopk_dense.dense_steps"  # exchanges; a tenth of the steps
DRAGONN = {
    "dense": ("shakespeare_gpt", SYNCHRONOUS),
    "topk": ("shakespeare_gpt", SYNCHRONOUS | {"compression.method": "topk", "optimizer.beta1": 0.5, DENSE_START: 75}),
    "diloco": ("shakespeare_diloco", {}),
    "sparseloco": ("shakespeare_sparseloco", {DENSE_START: 5}),
    "streaming": ("shakespeare_streaming", {}),
}
LOCAL = {name: DRAGONN[name] for name in ("diloco", "sparseloco", "streaming")}
TORCHFT = {name: DRAGONN[name] for name in ("diloco", "streaming")}
SIDES = {"dragonn": DRAGONN, "LocalSteps": LOCAL, "torchft": TORCHFT}
# Of those in PyTorch.
TWINS = {"LocalSteps": "local_twin.py", "torchft": "torchft_diloco.py"}
DASHES = {"dragonn": "", "LocalSteps": ' stroke-dasharray="9 3"', "torchft": ' stroke-dasharray="5 3"'}
COLORS = ["#1f6feb", "#2da44e", "#bf3989", "#9a6700", "#cf222e", "#8250df", "#57606a"]


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--rates", type=words, default=["100mbit", "10mbit"])
    parser.add_argument("--sides", type=words, default=list(SIDES), help=",".join(SIDES))
    parser.add_argument("--methods", type=words, default=list(DRAGONN), help=",".join(DRAGONN))
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--steps", type=int, default=750, help="of a run")
    parser.add_argument("--seconds", type=float, default=600, help="after which a run of dragonn is stopped")
    parser.add_argument("--target", type=float, default=2.2, help="training loss to reach")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data/shakespeare_characters"))
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "local-steps-hosts.json")
    parser.add_argument("--svg", type=pathlib.Path, help="figure of loss against time")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    for name, known in (("sides", SIDES), ("methods", DRAGONN)):
        expect_known(parser, name, getattr(options, name), known)
    if not options.table and not options.data.is_dir():
        parser.error(f"--data {options.data}: no such folder (configs/README.md says how to make it)")
    return options


def run(options, rate, command, folder):
    """Runs a command on every host. Returns the bytes that a host sent, in the mean, and the largest memory of a rank."""
    names = [f"{name}={os.environ[name]}" for name in ("DRAGONN_LIBRARY", "PYTHONPATH") if name in os.environ]
    host = ["env", *names, sys.executable, HERE / "on_host.py", "--output", folder / "host", "--seconds", options.seconds, "--"]
    command = [CLUSTER, "run", options.hosts, rate, "--", *host, *command]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    records = [json.loads(path.read_text()) for path in folder.glob("host.*")]
    if done.returncode != 0 or len(records) != options.hosts:
        raise RuntimeError(f"exit code {done.returncode} from {' '.join(map(str, command))}:\n{done.stderr[-2000:]}")
    return {"sent": sum(record["sent"] for record in records) / len(records), "memory": max(record["memory"] for record in records)}


def settings(options, keys):
    return keys | {"train.max_steps": options.steps, "schedule.decay_steps": options.steps, "data.path": options.data.resolve(),
                   "train.eval_every_epochs": 0, "checkpoint.every_epochs": 0}


def trainer(options, rate, config, keys, folder):
    keys = settings(options, keys) | {"comm.backend": "tcp", "comm.rendezvous": "tcp:198.18.0.1:29400"}
    record = run(options, rate, [options.bin / "dragonn-train", config, *sets(keys), "--output", folder / "run"], folder)
    ended, lines = summary(folder / "run"), metrics(folder / "run", "step")
    return record | {"steps": [[line["step"], line["time"], line["loss"]] for line in lines],
                     "loss": ended["final"]["test"]["loss"] if ended and ended["ended_by"] == "max_steps" else None}


def twin(options, rate, side, config, keys, folder):
    command = [sys.executable, HERE / TWINS[side], config, *sets(settings(options, keys)), "--bin", options.bin,
               "--output", folder / "rank"]
    record = run(options, rate, command, folder)
    ranks = [json.loads((folder / f"rank.{rank}").read_text()) for rank in range(options.hosts)]
    mean = [[step, time, sum(rank["steps"][i][2] for rank in ranks) / len(ranks)]
            for i, (step, time, _) in enumerate(ranks[0]["steps"])]
    return record | ranks[0] | {"steps": mean}


def measure(options, rows):
    """Adds what is missing to the rows, and returns how many runs failed."""
    failed = 0
    for rate in options.rates:
        for side in options.sides:
            for method, (config, keys) in SIDES[side].items():
                case = {"rate": rate, "side": side, "method": method, "hosts": options.hosts, "length": options.steps}
                if method not in options.methods or rows.has(case):
                    continue
                print(f"local_steps: {rate} {side} {method}", file=sys.stderr)
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        run_of = functools.partial(twin, side=side) if side in TWINS else trainer
                        measured = run_of(options, rate, config=ROOT / "configs" / f"{config}.toml", keys=keys,
                                          folder=pathlib.Path(folder))
                        rows.add([case | measured])
                    except (RuntimeError, OSError) as error:
                        failed += 1
                        print(f"local_steps: failed: {error}", file=sys.stderr)
    return failed


def smoothed(row):
    """[step, time, mean of the last logged losses]."""
    steps = row["steps"]
    return [[step, time, sum(loss for _, _, loss in steps[max(0, i + 1 - SMOOTHED):i + 1]) / min(i + 1, SMOOTHED)]
            for i, (step, time, _) in enumerate(steps)]


def report(rows, target):
    for rate in dict.fromkeys(row["rate"] for row in rows):
        yield f"\n{rate}:\n"
        yield table(["run", "steps", "time", f"time to {target}", "loss at the end", "sent by a host per step", "memory of a rank"],
                    [line(row, target) for row in rows if row["rate"] == rate])


def line(row, target):
    reached = next((time for _, time, loss in smoothed(row) if loss <= target), None)
    step, time, _ = row["steps"][-1]
    return [f"{row['side']}, {row['method']}", step, f"{time:.0f} s", "not reached" if reached is None else f"{reached:.0f} s",
            "" if row["loss"] is None else f"{row['loss']:.3f}", f"{row['sent'] / step / 1000:,.1f} kB", f"{row['memory'] / 1e6:.0f} MB"]


class Panel:
    """Loss against time at one rate, in pixels; times are logarithmic."""

    WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 260, 52, 40, 60

    def __init__(self, number, rate, rows, losses):
        self.rate, self.rows, self.begin = rate, rows, self.LEFT + number * (self.WIDTH + self.GAP)
        self.low, self.high = math.floor(10 * min(losses)) / 10, math.ceil(10 * max(losses)) / 10
        times = [time for row in rows for _, time, _ in row["steps"]]
        self.first, self.last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(self, time):
        return self.begin + self.WIDTH * (math.log10(time) - self.first) / (self.last - self.first)

    def y(self, loss):
        return self.TOP + self.HEIGHT * (self.high - loss) / (self.high - self.low)

    def draw(self):
        bottom = self.TOP + self.HEIGHT
        yield f'<text x="{self.begin}" y="{self.TOP - 14}" font-weight="600">{self.rate}: training loss against seconds</text>'
        yield f'<rect x="{self.begin}" y="{self.TOP}" width="{self.WIDTH}" height="{self.HEIGHT}" fill="none" stroke="#d0d7de"/>'
        for power in range(self.first, self.last + 1):
            yield f'<text x="{self.x(10.0 ** power):.1f}" y="{bottom + 18}" text-anchor="middle">{10.0 ** power:g}</text>'
        for half in range(math.ceil(2 * self.low), math.floor(2 * self.high) + 1):
            yield f'<text x="{self.begin - 6}" y="{self.y(half / 2) + 4:.1f}" text-anchor="end">{half / 2:g}</text>'
        for row in self.rows:
            points = " ".join(f"{self.x(time):.1f},{self.y(loss):.1f}" for _, time, loss in smoothed(row))
            yield f'<polyline points="{points}" fill="none" {stroke(row["side"], row["method"])}/>'


def stroke(side, method):
    return f'stroke="{COLORS[list(DRAGONN).index(method)]}" stroke-width="1.8"{DASHES[side]}'


def figure(rows):
    """A panel for each rate, and the names of the lines, as SVG."""
    losses = [loss for row in rows for _, _, loss in smoothed(row)]
    rates = list(dict.fromkeys(row["rate"] for row in rows))
    panels = [Panel(number, rate, [row for row in rows if row["rate"] == rate], losses) for number, rate in enumerate(rates)]
    parts = [part for panel in panels for part in panel.draw()]
    for number, (side, method) in enumerate(dict.fromkeys((row["side"], row["method"]) for row in rows)):
        at, below = Panel.LEFT + number % 4 * 190, Panel.TOP + Panel.HEIGHT + 44 + 20 * (number // 4)
        parts.append(f'<path d="M{at} {below - 4}h24" {stroke(side, method)}/><text x="{at + 30}" y="{below}">{side}, {method}</text>')
    width = Panel.LEFT + max(2, len(rates)) * (Panel.WIDTH + Panel.GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{Panel.TOP + Panel.HEIGHT + 90}" '
            f'font-family="sans-serif" font-size="12.5" fill="#1b1f24"><rect width="100%" height="100%" fill="#ffffff"/>'
            f'{"".join(parts)}</svg>\n')


def main():
    options = parse_arguments()
    rows, failed = Rows(options.json), 0
    if not options.table:
        if reason := obstacle("torch, torchft.local_sgd"):
            print(f"skipped: {reason}", file=sys.stderr)
            return 77
        failed = measure(options, rows)
    if options.svg and rows:
        options.svg.write_text(figure(rows))
    print("\n".join(report(rows, options.target)))
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main, 2, json.JSONDecodeError)
