#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what a worker that joins an elastic run costs the others: their steps while its state streams, and the time without one.

    scripts/peers/join_cost.py --config configs/gpt2_small.toml --hosts 1gbit --set data.path=... --set compression.method=topk

P workers make --warm steps; one is killed, and after --before steps of the others another one comes. A row has the medians of the times
between steps before it comes, while its state streams, and when it trains, too ("before", "beside", "after"), the steps that "beside" is
of, the seconds of the stream, the longest time without a step around the join ("gap"), and the bytes that were left to copy then (none:
all). A join stalls the others for the gap less the step that ends it, one of all workers. Rows are kept in a file and not measured
again. Run it on a quiet machine. Exit code: 0 all rows are there, 1 a run failed, 2 bad usage.
"""
import json
import pathlib
import signal
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from elastic_campaign import Run, add_run_options
from runs import ROOT, Rows, make_parser, measure_missing, run_main, table


def parse_arguments():
    parser = make_parser(__doc__)
    add_run_options(parser)
    parser.add_argument("--share", type=float, default=0.1, help="comm.join_share")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm", type=int, default=10, help="steps of all")
    parser.add_argument("--before", type=int, default=30, help="steps of those that are left, before another one comes")
    parser.add_argument("--after", type=int, default=10, help="steps of all again")
    parser.add_argument("--patience", type=float, default=1200, help="seconds that any of these takes at most")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "join-cost.json")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.set_defaults(steps=0)  # a signal ends the runs
    return parser.parse_args()


def median_step(times):
    return statistics.median(later - earlier for earlier, later in zip(times, times[1:]))


class Join(Run):
    """A run in which one worker is lost, and another one comes."""

    def times(self, begin, end=float("inf")):
        return [at for _, at in self.steps if begin < at <= end]

    def is_given(self):
        return "gives the state of the run" in (self.folder / "coordinator.log").read_text()

    def measure(self):
        self.begin()
        options, lost = self.options, self.workers[-1]
        self.wait(options.patience, f"no {options.warm} steps", lambda: len(self.steps) >= options.warm)
        lost.is_expected_to_end = True
        lost.send(signal.SIGKILL)
        self.wait(options.patience, "the others do not go on", lambda: len(self.members()) == options.workers - 1)
        begin = time.monotonic()
        self.wait(options.patience, f"no {options.before} steps", lambda: len(self.times(begin)) > options.before)
        before = self.times(begin)
        lost.start()
        self.wait(options.patience, "nobody gives the state", self.is_given)
        given = time.monotonic()
        self.wait(options.patience, "the worker does not join", self.are_all_there)
        joined = time.monotonic()
        self.wait(options.patience, f"no {options.after} steps", lambda: len(self.times(joined)) > options.after)
        beside, after, around = self.times(given, joined), self.times(joined), [given, *self.times(given)]
        gap = max(later - earlier for earlier, later in zip(around, around[1:]))
        self.stop()
        stream = self.membership.lines[-1].get("streams", [{}])[0]
        return {"before": median_step(before), "beside": median_step(beside) if len(beside) > 2 else None, "after": median_step(after),
                "steps": len(beside), "seconds": joined - given, "gap": gap, "rest_bytes": stream.get("rest_bytes")}


def measure(options, rows):
    """Adds what is missing to the rows, and returns how many runs failed."""
    cases = [{"config": options.config.name, "set": options.set, "workers": options.workers, "hosts": options.hosts,
              "share": options.share, "repeat": repeat} for repeat in range(options.repeats)]

    return measure_missing("join_cost", cases, rows, lambda case, folder: Join(
        options, case["repeat"], folder, [f"comm.join_share={options.share}"]), lambda run, _: run.measure())


def left_bytes(rows):
    """What the worker still lacked at the join: all where its stream had fallen behind."""
    left = [row["rest_bytes"] for row in rows]
    return "all" if None in left else max(left)


def report(rows):
    lines = []
    for key in dict.fromkeys((row["config"], " ".join(row["set"]), row["workers"], row["hosts"], row["share"]) for row in rows):
        own = [row for row in rows if (row["config"], " ".join(row["set"]), row["workers"], row["hosts"], row["share"]) == key]
        before = statistics.median(row["before"] for row in own)
        after = statistics.median(row["after"] for row in own)
        beside = [row["beside"] for row in own if row["beside"]]
        stalls = [max(0, row["gap"] - row["after"]) for row in own]
        lines.append([key[0].removesuffix(".toml"), key[2], key[3] or "-", key[4], len(own), f"{1000 * before:.0f} ms",
                      f"{1000 * statistics.median(beside):.0f} ms, {statistics.median(beside) / before - 1:+.0%}" if beside else "-",
                      f"{statistics.median(row['seconds'] for row in own):.1f} s",
                      f"{1000 * after:.0f} ms", f"{statistics.median(stalls):.2f} s, {max(stalls):.2f} s",
                      left_bytes(own)])
    return table(["config", "workers", "links", "share", "runs", "a step before", "beside the stream", "stream",
                  "a step after", "stall: median, most", "bytes left"], lines)


def main():
    options = parse_arguments()
    rows = Rows(options.json)
    failed = 0 if options.table else measure(options, rows)
    print(report(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main, 2, json.JSONDecodeError)
