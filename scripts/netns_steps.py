#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what training steps take on shaped TCP with what the virtual cluster says they take.

    scripts/netns_steps.py [--hosts 4] [--rates 10mbit:50mbit:20mbit/100mbit,100mbit,100mbit,100mbit] [--inner-steps 1,8,32] ...

For every network scripts/netns_cluster.sh makes a cluster (root is needed), `dragonn-bench network --pairs` measures it there, and
`dragonn-train` trains a perceptron of a million parameters on it, over TCP: synchronously, and with so many local steps between two
exchanges. Then as many local workers make the same steps on a virtual cluster with the measured network (`network.file`). There a
step computes for as long as it did on the hosts (`network.step_ms`), all parts of a step but the exchange, since what four hosts'
processes do to each other on few cores is no matter of the network. Of each round that is the time of the host that took longest, since
all wait for it; the hosts' timeline says it. Times are medians over rounds, from exchange to exchange.

Writes all rows to JSON (a row of an earlier call is kept and not measured again unless --again), and prints the table in Markdown.
Run it on a quiet machine, and not with real-time priority, which keeps the kernel from the hosts' frames. Exit code: 0 all rows are there,
1 a run failed, 77 this machine has no such hosts.
"""
import json
import pathlib
import statistics
import sys
import tempfile

from runs import (BIN, CLUSTER, ROOT, Rows, expect_known, make_parser, metrics, obstacle, output_of, run_main, sets, summary, table,
                  words)

EVEN = ["10mbit", "50mbit", "200mbit", "1gbit"]
UNEVEN = ["10mbit/50mbit,50mbit,50mbit,50mbit", "200mbit,200mbit,50mbit,200mbit", "200mbit,1gbit/200mbit,1gbit,50mbit/1gbit"]
METHODS = {
    "dense": {"compression.method": "dense"},
    "topk": {"compression.method": "topk", "compression.density": 0.1, "compression.bucket": "model"},
    "topk_direct": {"compression.method": "topk", "compression.density": 0.1, "compression.bucket": "model",
                    "compression.allgather.route": "direct"},
    "gtopk": {"compression.method": "gtopk", "compression.density": 0.1},
}
# A step computes for a few milliseconds, and sends much.
MODEL = {"model.hidden": [1000, 800], "optimizer.learning_rate": 0.001, "train.batch_size": 2, "train.epochs": 1000,
         "train.eval_every_epochs": 0, "checkpoint.every_epochs": 0, "logging.advice": "false", "comm.timeout_s": 300}
BACKENDS = {"mpi": {}, "tcp": {"comm.backend": "tcp", "comm.rendezvous": "tcp:198.18.0.1:29400"}}


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--hosts", default="4", help="and ranks on each, as 4x2")
    parser.add_argument("--rates", type=lambda text: text.split(":"), default=EVEN + UNEVEN,
                        help="networks, with colons; each as scripts/netns_cluster.sh takes it")
    parser.add_argument("--methods", type=words, default=["dense", "topk"], help=",".join(METHODS))
    parser.add_argument("--inner-steps", type=lambda text: [int(word) for word in words(text)], default=[1, 8, 32],
                        help="local steps between two exchanges; 1: synchronous training")
    parser.add_argument("--backend", default="tcp", choices=BACKENDS, help="of the hosts' ranks")
    parser.add_argument("--ahead", type=float, default=15,
                        help="seconds of exchanges ahead, 3 to 40 exchanges, in which the windows of connections grow")
    parser.add_argument("--rounds", type=int, default=5, help="exchanges whose time counts")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "netns-steps.json")
    parser.add_argument("--again", action="store_true", help="measure what is in the JSON file anew")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    options = parser.parse_args()
    expect_known(parser, "methods", options.methods, METHODS)
    return options


def workers_of(hosts):
    count, _, ranks = hosts.partition("x")
    return int(count) * int(ranks or 1)


class Network:
    """Hosts at some rates, which are measured once."""

    def __init__(self, options, rates, folder):
        self.options, self.rates, self.folder = options, rates, folder
        self.file = folder / "net.json"

    def on_hosts(self, *command):
        return output_of([CLUSTER, "run", self.options.hosts, self.rates, "--", *command])

    def measure(self):
        if not self.file.exists():
            self.on_hosts(self.options.bin / "dragonn-bench", "network", "--pairs", "--json", self.file)

    def training(self, method, inner_steps, ahead):
        """The command of as many rounds as count, behind a first one and those `ahead`. It traces those that count, and one more."""
        update = {} if inner_steps == 1 else {"update.scheme": "local", "update.inner_steps": inner_steps}
        traced = inner_steps * (1 + self.options.rounds)
        steps = {"train.max_steps": inner_steps * ahead + traced, "logging.every_steps": inner_steps,
                 "logging.trace_first": inner_steps * ahead + 1, "logging.trace": traced}
        config = ROOT / "configs" / "synthetic_quick.toml"
        return [self.options.bin / "dragonn-train", config, *sets(MODEL | METHODS[method] | update | steps)]

    def run_virtually(self, command, computing, output):
        described = {"network.model": "alpha-beta", "network.file": self.file, "network.compute": "zero",
                     "network.step_ms": 1000 * computing}
        output_of([*command, "--workers", workers_of(self.options.hosts), *sets(described), "--output", output])

    def rounds_ahead(self, method, inner_steps):
        output = self.folder / f"{method}-{inner_steps}-ahead"
        self.run_virtually(self.training(method, inner_steps, 0), 0, output)
        seconds = inner_steps * self.seconds_of(output, inner_steps)
        return max(3, min(40, round(self.options.ahead / seconds)))

    def row(self, method, inner_steps):
        self.measure()
        command = self.training(method, inner_steps, self.rounds_ahead(method, inner_steps))
        hosts, virtual = (self.folder / f"{method}-{inner_steps}-{where}" for where in ("hosts", "virtual"))
        self.on_hosts(*command, *sets(BACKENDS[self.options.backend]), "--output", hosts)
        seconds, computing = self.seconds_of(hosts, inner_steps), self.computing_of(hosts, inner_steps)
        self.run_virtually(command, computing, virtual)
        seconds_virtual = self.seconds_of(virtual, inner_steps)
        if summary(hosts)["parameters_hash"] != summary(virtual)["parameters_hash"]:
            raise RuntimeError(f"{self.rates}, {method}, {inner_steps} steps: the hosts and the virtual cluster did not compute the same")
        return {"seconds": seconds, "seconds_virtual": seconds_virtual, "ratio": seconds / seconds_virtual,
                "seconds_computing": computing, "bytes_sent_max": metrics(virtual, "step")[-1]["bytes_sent"]["max"]}

    def seconds_of(self, folder, inner_steps):
        """The median seconds of a step, from exchange to exchange, of the rounds that count."""
        times = [line["time"] for line in metrics(folder, "step")][-1 - self.options.rounds:]
        return statistics.median(later - earlier for earlier, later in zip(times, times[1:])) / inner_steps

    def computing_of(self, folder, inner_steps):
        """The median seconds for which a step computes: for as long as the slowest rank ahead of an exchange, and as the slowest one
        that decodes, since all wait for both."""
        events = [event for event in json.loads((folder / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"]
        ranks = [computing_of_rank([event for event in events if event["pid"] == rank]) for rank in {event["pid"] for event in events}]
        return statistics.median(sum(map(max, zip(*parts))) for parts in zip(*ranks)) / inner_steps


def computing_of_rank(events):
    """The seconds ahead of each exchange but the first, and those in which it decodes."""
    exchanges = []  # of a round: begin, end, and what lies between the spans, which are of a list and of the agreement
    for step in [event for event in events if event["name"] == "step"]:
        inside = [event for event in events if step["ts"] <= event["ts"] < step["ts"] + step["dur"]]
        spans = [(event["ts"], event["dur"]) for event in inside if event["name"] == "exchange"]
        if spans:
            begin, end = min(spans)[0], max(ts + dur for ts, dur in spans)
            decoding = sum(event["dur"] for event in inside if event["name"] == "decode")
            exchanges.append((begin, end, end - begin - sum(dur for _, dur in spans), decoding))
    return [(1e-6 * (begin - earlier[1] + between), 1e-6 * decoding)
            for earlier, (begin, _, between, decoding) in zip(exchanges, exchanges[1:])]


def measure(options, known):
    """Adds to `known` what is missing. Returns how many runs failed."""
    failed = 0
    for rates in options.rates:
        with tempfile.TemporaryDirectory() as folder:
            network = Network(options, rates, pathlib.Path(folder))
            for method in options.methods:
                for inner_steps in options.inner_steps:
                    case = {"hosts": options.hosts, "rates": rates, "backend": options.backend, "method": method,
                            "inner_steps": inner_steps}
                    if known.has(case) and not options.again:
                        continue
                    print(f"netns_steps: {rates} {method}, {inner_steps} steps", file=sys.stderr)
                    try:
                        row = network.row(method, inner_steps)
                    except (RuntimeError, OSError) as error:
                        failed += 1
                        print(f"netns_steps: failed: {error}", file=sys.stderr)
                        continue
                    known[:] = [row for row in known if not case.items() <= row.items()]
                    known.add([case | row])
    return failed


def report(options, known):
    """A line per network, a column per method and number of steps: milliseconds of a step, over what the virtual clock says."""
    rows = {(row["rates"], row["method"], row["inner_steps"]): row for row in known
            if row["hosts"] == options.hosts and row["backend"] == options.backend}
    columns = [(method, steps) for method in options.methods for steps in options.inner_steps]
    lines, ratios = [], []
    for rates in options.rates:
        cells = []
        for column in columns:
            row = rows.get((rates, *column))
            cells.append(f"{1000 * row['seconds']:.4g} ms ({row['ratio']:.2f})" if row else "")
            ratios += [row["ratio"]] if row else []
        lines.append([f"`{rates}`", *cells])
    yield table([f"{options.hosts} hosts", *(f"`{method}`, {steps}" for method, steps in columns)], lines)
    if ratios:
        within = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
        yield f"\n{within} of {len(ratios)} within 10 %; ratios from {min(ratios):.3f} to {max(ratios):.3f}."


def main():
    options = parse_arguments()
    if reason := obstacle("json"):
        print(f"netns_steps: {reason}", file=sys.stderr)
        return 77
    known = Rows(options.json)
    failed = measure(options, known)
    print("\n".join(report(options, known)))
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main)
