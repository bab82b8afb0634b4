#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares dragonn's hook of PyTorch DDP with DDP's own on the same slow hosts: the time of a step.

    scripts/peers/hooks.py                  # measures what bench/results/hooks.json lacks, then prints the tables

The hosts are those of scripts/netns_cluster.sh (root is needed): a rank on each, one thread a rank. scripts/peers/ddp.py
trains ResNet-20 (images in channels-last) and a GPT-2 of 10 M parameters without an exchange (no_sync), by DDP's allreduce
(plain), its fp16 hook and PowerSGD, and with dragonn (top-k at density 0.01, rice x int8), during backward and in one call
behind it. All take their turns in one process, in which the C library keeps freed memory (scripts/peers/side_by_side.py). A
turn lasts until all ranks are done.

Rows are kept and not measured again. Run it on a quiet machine. Exit code: 0 all rows are there, 1 a run failed, 2 bad usage,
77 PyTorch, NumPy or the hosts are missing.
"""
import json
import operator
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from runs import CLUSTER, ROOT, Rows, expect_known, make_parser, obstacle, run_main, table, words
from side_by_side import tuned

CONFIGS = {"resnet20": "cifar10_resnet20", "gpt2": "gpt2_small"}
OWN = {"plain": "DDP", "fp16": "DDP, `fp16_compress_hook`", "powersgd": "DDP, PowerSGD of rank 1"}
LABELS = {"no_sync": "no exchange (`no_sync`)", **OWN, "dragonn": "dragonn, during backward",
          "blocking": "dragonn, behind backward"}
NETWORKS = {"10mbit": "10 Mbit/s", "100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s"}
# Steps of a turn where --steps does not say it: of 40 MB at 10 Mbit/s DDP takes a minute each.
STEPS = {"resnet20": {"10mbit": 4}, "gpt2": {"10mbit": 1, "100mbit": 3}}
OTHERWISE = 8
VISIBLE = 0.05  # of a step without an exchange: what an exchange behind backward adds is more than noise


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--models", type=words, default=list(CONFIGS), help=",".join(CONFIGS))
    parser.add_argument("--rates", type=words, default=list(NETWORKS))
    parser.add_argument("--hooks", type=words, default=list(LABELS), help=",".join(LABELS))
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each hook")
    parser.add_argument("--steps", type=int, help="of a turn; default: by model and rate")
    parser.add_argument("--warmup", type=int, default=5, help="steps of each hook ahead of its turns")
    parser.add_argument("--batch", type=int, help="of a rank, instead of the config's")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "hooks.json")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    for name, known in (("models", CONFIGS), ("hooks", LABELS)):
        expect_known(parser, name, getattr(options, name), known)
    return options


def run(options, model, rate, steps, output):
    """A row of measured values for each hook."""
    # By a command of its own: mpirun does not pass every variable on.
    variables = [f"{key}={value}" for key, value in {**tuned(), "OMP_NUM_THREADS": "1"}.items()]
    variables += [f"{name}={os.environ[name]}" for name in ("DRAGONN_LIBRARY", "PYTHONPATH") if name in os.environ]
    command = [CLUSTER, "run", options.hosts, rate, "--", "env", *variables, sys.executable, "-W", "ignore", HERE / "ddp.py",
               "--config", ROOT / "configs" / f"{CONFIGS[model]}.toml", "--hooks", ",".join(options.hooks), "--steps", steps,
               "--rounds", options.rounds, "--warmup", options.warmup, "--output", output]
    command += ["--batch", options.batch] if options.batch else []
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(output.read_text())


def measure(options, rows):
    """Adds what is missing to the rows, and returns how many runs failed."""
    failed = 0
    for model in options.models:
        for rate in options.rates:
            steps = options.steps or STEPS[model].get(rate, OTHERWISE)
            case = {"model": model, "rate": rate, "hosts": options.hosts, "rounds": options.rounds, "steps": steps}
            if all(rows.has(case | {"hook": hook}) for hook in options.hooks):
                continue
            print(f"hooks: {model} {rate}", file=sys.stderr)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    rows.add([case | row for row in run(options, model, rate, steps, pathlib.Path(folder) / "rows.json")])
            except (RuntimeError, OSError) as error:
                failed += 1
                print(f"hooks: failed: {error}", file=sys.stderr)
    return failed


def seconds(row):
    """Of a step: the median over the turns."""
    return statistics.median(row["turns"])


def paired(function, row, other):
    """The median of a function of two hooks' seconds, turn by turn: the machine's speed changes less from one turn to the next
    than from round to round. Of hooks that were not in the same run, the function of their medians."""
    if len(row["turns"]) != len(other["turns"]):
        return function(seconds(row), seconds(other))
    return statistics.median(map(function, row["turns"], other["turns"]))


def speed(row, other):
    """How many times as fast as the other hook's a step is."""
    return paired(lambda own, base: base / own, row, other)


def added(row, other):
    """The seconds that a step takes more than the other hook's."""
    return paired(operator.sub, row, other)


def report(rows):
    for model, rate in dict.fromkeys((row["model"], row["rate"]) for row in rows):
        found = {row["hook"]: row for row in rows if (row["model"], row["rate"]) == (model, rate)}
        one, base = next(iter(found.values())), found.get("no_sync")
        yield (f"\n{model}, batch {one['batch']} a rank, {NETWORKS.get(rate, rate)}, {one['hosts']} hosts, "
               f"turns of {one['steps']} step{'s' if one['steps'] > 1 else ''}, PyTorch {one['torch']}:\n")
        yield table(["", "turns", "ms per step", "of its processor's time", "speed over `no_sync`'s", "sent by a host per step"],
                    ([LABELS[hook], row["rounds"], f"{1e3 * seconds(row):,.0f}",
                      f"{1e3 * statistics.median(row['processor']):,.0f} ms", f"{speed(row, base):.2f}" if base else "",
                      f"{row['sent_per_step'] / 1e3:,.0f} kB"] for hook, row in found.items()))
        yield from ("\n" + line for line in conclusions(found))


def conclusions(found):
    own = {hook: seconds(found[hook]) for hook in OWN if hook in found}
    if own and "dragonn" in found:
        best = min(own, key=own.get)
        yield (f"dragonn is {speed(found['dragonn'], found[best]):.2f} times as fast as the fastest of DDP's own "
               f"({LABELS[best]}).")
    if not {"no_sync", "dragonn", "blocking"} <= found.keys():
        return
    during, behind = (added(found[hook], found["no_sync"]) for hook in ("dragonn", "blocking"))
    if behind <= VISIBLE * seconds(found["no_sync"]):
        return
    yield (f"An exchange behind backward adds {1e3 * behind:,.0f} ms to a step, and one during backward "
           f"{share(during, behind)} of that.")
    if "exposed" in found["dragonn"]:
        exposed = found["dragonn"]["exposed"]
        yield f"By its timeline {1e3 * exposed:,.0f} ms of it, {share(exposed, behind)}, follow the last gradient of all ranks."


def share(part, whole):
    return f"{100 * part / whole:.0f} %"


def main():
    options = parse_arguments()
    rows, failed = Rows(options.json), 0
    if not options.table:
        if reason := obstacle("numpy, torch"):
            print(f"skipped: {reason}", file=sys.stderr)
            return 77
        failed = measure(options, rows)
    print("\n".join(report(rows)))
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main, 2, json.JSONDecodeError)
