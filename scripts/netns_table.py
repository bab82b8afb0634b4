#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures every collective on a slow network, beside what the virtual cluster predicts for it.

    scripts/netns_table.py [--hosts 4,8] [--rates 1gbit,100mbit] [--densities 0.001,0.01] [--numel 25000000] ...

For every number of hosts and rate, scripts/netns_cluster.sh makes a cluster (root is needed) and `dragonn-bench` measures
there: a ping-pong, whose fit gives latency and bandwidth; every collective alone, all ranks beginning at the same time;
and the whole exchange, from compensate to settle, as training makes it. Then the virtual cluster of as many local workers
runs the same steps with the fitted latency and bandwidth, and each worker's processor time.

Writes all rows to JSON (a result of an earlier call is kept and not measured again unless --again), and prints the table
in Markdown. Run it on a quiet machine: `chrt -f 1 scripts/netns_table.py` keeps other processes off the cores.
"""
import itertools
import operator
import pathlib
import sys

from runs import BIN, CLUSTER, ROOT, Rows, bench_rows, make_parser, registered, run_main, table, words

# A dense exchange takes many seconds and varies little. All others: as many as dragonn-bench takes, whole periods.
STEPS = {"dense": ["--warmup", "1", "--steps", "1"]}


KEY = operator.itemgetter("collective", "algorithm", "density", "phase")


class Measurement:
    """One cluster: so many hosts at one rate."""

    def __init__(self, arguments, hosts, rate):
        self.bench, self.numel, self.hosts, self.rate = arguments.bin / "dragonn-bench", arguments.numel, hosts, rate
        self.on_hosts = [CLUSTER, "run", hosts, rate, "--", self.bench]
        row = bench_rows([*self.on_hosts, "network"])[-1]
        self.network = {"latency_us": row["fit_latency_us"], "gbps": row["fit_gbps"]}

    def rows(self, what):
        """Rows of the exchanges that the options `what` name: measured, predicted and in whole."""
        options = ["collective", "--numel", self.numel, *what, *STEPS.get(what[1], [])]
        virtual = ["--ranks", self.hosts, "--latency-us", self.network["latency_us"], "--gbps", self.network["gbps"],
                   "--compute", "measured"]
        with_all = bench_rows([*self.on_hosts, *options, "--everything"])
        whole = {KEY(row): row for row in with_all}
        # Beside a dense exchange it is nothing how long ranks wait for each other to begin.
        alone = with_all if what[1] == "dense" else bench_rows([*self.on_hosts, *options])
        # What Open MPI's own allreduce sends is not known here.
        is_predicted = alone[0]["algorithm"] != "native"
        predicted = {KEY(row): row for row in bench_rows([self.bench, *options, *virtual])} if is_predicted else {}
        for row in alone:
            key = KEY(row)
            virtual_seconds = predicted[key]["seconds"] if is_predicted else None
            kept = ("collective", "algorithm", "sparsifier", "phase", "numel", "density", "steps", "seconds")
            yield {"hosts": int(self.hosts), "rate": self.rate, **self.network, **{name: row[name] for name in kept},
                   "seconds_virtual": virtual_seconds, "ratio": row["seconds"] / virtual_seconds if is_predicted else None,
                   "seconds_total": whole[key]["seconds_total"],
                   "bytes_sent_max": row["bytes_sent"]["max"], "messages_max": row["messages"]["max"]}


def measure(arguments, known):
    """Adds to `known` what is missing."""
    sparse = arguments.collectives
    if sparse is None:
        sparse = [name for name in registered(arguments.bin / "dragonn-train", "collective") if name != "dense"]
    wanted = [["--collective", "dense", "--dense-algorithm", name, "--density", arguments.densities[0]] for name in arguments.dense]
    wanted += [["--collective", name, "--density", density] for density in arguments.densities for name in sparse]
    for hosts, rate in itertools.product(arguments.hosts, arguments.rates):
        measurement = None
        for what in wanted:
            options = dict(zip(what[::2], what[1::2]))
            case = {"hosts": int(hosts), "rate": rate, "numel": int(arguments.numel), "collective": options["--collective"],
                    "algorithm": options.get("--dense-algorithm"), "density": float(options["--density"])}
            if not arguments.again and known.has(case):
                continue
            measurement = measurement or Measurement(arguments, hosts, rate)
            print(f"{hosts} hosts, {rate}: {' '.join(what)}", file=sys.stderr)
            rows = list(measurement.rows(what))
            known[:] = [row for row in known if not case.items() <= row.items()]
            known.add(rows)


def seconds(value):
    return "" if value is None else f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def name_of(row):
    return f"dense, `{row['algorithm']}`" if row["collective"] == "dense" else f"`{row['collective']}`, {row['density']}"


def cell(row):
    ratio = "" if row["ratio"] is None else f" ({row['ratio']:.2f})"
    whole = "" if row["collective"] == "dense" else f"; {seconds(row['seconds_total'])}"
    return seconds(row["seconds"]) + ratio + whole


def report(rows):
    """A column per cluster: the collective alone (over the prediction); the whole exchange. Of phases the mean over all."""
    rows = [row for row in rows if row["phase"] in ("step", "period")]
    clusters = sorted({(row["hosts"], row["rate"]) for row in rows})
    names = list(dict.fromkeys(name_of(row) for row in sorted(rows, key=lambda row: (
        row["collective"] != "dense", row["density"], row["collective"]))))
    cells = {(name_of(row), (row["hosts"], row["rate"])): cell(row) for row in rows}
    yield table(["collective, density", *(f"{hosts} hosts, {rate}" for hosts, rate in clusters)],
                ([name, *(cells.get((name, cluster), "") for cluster in clusters)] for name in names)) + "\n"
    yield from (f"- {line}" for cluster in clusters for line in gains(rows, cluster))


def gains(rows, cluster):
    """At each density, what the best sparse exchange in whole gains over the best dense one alone."""
    here = [row for row in rows if (row["hosts"], row["rate"]) == cluster]
    dense = [row for row in here if row["collective"] == "dense"]
    sparse = [row for row in here if row["collective"] != "dense"]
    for density in sorted({row["density"] for row in sparse}) if dense else []:
        slow = min(dense, key=lambda row: row["seconds"])
        fast = min((row for row in sparse if row["density"] == density), key=lambda row: row["seconds_total"])
        yield (f"{cluster[0]} hosts, {cluster[1]}, density {density}: {name_of(slow)} {seconds(slow['seconds'])}, `"
               f"{fast['collective']}` in whole {seconds(fast['seconds_total'])}: {slow['seconds'] / fast['seconds_total']:.0f} times.")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--hosts", type=words, default=["4", "8"])
    parser.add_argument("--rates", type=words, default=["1gbit", "100mbit"])
    parser.add_argument("--densities", type=words, default=["0.001", "0.01"])
    parser.add_argument("--collectives", type=words, default=None, help="sparse ones; default: all that are registered")
    parser.add_argument("--dense", type=words, default=["ring", "rabenseifner", "native"], help="algorithms; '' for none")
    parser.add_argument("--numel", default="25000000")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "netns.json")
    parser.add_argument("--again", action="store_true", help="measure what is in the JSON file anew")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    arguments = parser.parse_args()
    known = Rows(arguments.json)
    measure(arguments, known)
    print("\n".join(report(known)))


if __name__ == "__main__":
    run_main(main)
