#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Restates the headlines of the five papers: each paper's number beside ours, on a virtual cluster with the paper's number of
workers, network, model, density, batch and compute time.

Usage:
  scripts/paper_headlines.py [--bin build/release/bin] [--only ID,...] [--json FILE] [--update docs/headlines.md] [--list]

Everything assumed is in scripts/paper_headlines.toml, with its source. Tensors and FLOPs come from `dragonn-train --dry-run`.
Bytes, messages and times of exchanges come from running the collectives (`dragonn-bench collective --payload-only`).
Each row has two numbers: "theirs" takes the paper's selectors and our collectives, "ours" takes our kernels, too. "Implied" is
the rate of the network, in Gbit/s, at which the first of them would equal the paper's number. Both are also given at the
effective rate that a paper's own numbers imply, where they agree on one.
"""
import collections
import dataclasses
import functools
import json
import pathlib
import re
import statistics
import sys
import tempfile
import tomllib
import wave

from runs import BIN, ROOT, bench_rows, make_parser, metrics, output_of, run_main, sets, table, words

ASSUMPTIONS = pathlib.Path(__file__).with_suffix(".toml")
WORD = 4
ENTRY = 8
# A run with more elements than this over all its ranks is made smaller, gradient and bandwidth alike: times stay the same.
LARGEST_RUN = 4e8
# The ranks unite real lists here, which the size-only mode refuses.
LARGEST_UNION = 2e7
UNLIMITED_GBPS = 1e9
MARKS = ("<!-- tables: written by scripts/paper_headlines.py --update -->", "<!-- end of tables -->")

Tensor = collections.namedtuple("Tensor", "numel mflop is_vector")  # mflop: of a forward pass of one sample


@dataclasses.dataclass(frozen=True)
class Exchange:
    seconds: float
    latency_seconds: float  # on a network of unlimited bandwidth
    gbps: float
    bytes_sent: float  # by a worker, mean, headers included
    messages: float

    def seconds_at(self, gbps):
        """Returns the time at another bandwidth: what is not latency is inversely proportional to it."""
        return self.latency_seconds + (self.seconds - self.latency_seconds) * self.gbps / gbps


@dataclasses.dataclass
class Step:
    """Times of a step in seconds, and what a worker sends in it."""
    compute: float
    total: float = 0.0
    select: float = 0.0
    exchange: float = 0.0
    decode: float = 0.0
    bytes_sent: float = 0.0
    messages: float = 0.0

    @property
    def synchronization(self):
        return self.select + self.exchange + self.decode


def write_words(folder, count):
    text = "".join(f"w{i}" + ("\n" if i % 20 == 19 or i == count - 1 else " ") for i in range(count))
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_text(text)


def write_audio(folder, seconds):
    with wave.open(str(folder / "tone.wav"), "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(16000)
        audio.writeframes(b"\1\0" * int(16000 * seconds))
    for name in ("train.tsv", "test.tsv"):
        (folder / name).write_text("tone.wav\tTONE\n" * 4)


def parse_dry_run(text, resize):
    """Returns the tensors in the order of the exchange, the last layer's first, each with the FLOPs of its layer."""
    mflop = {name: float(number) for name, number in re.findall(r"^  (\S+) .*\] +\d+ +([\d.]+)$", text, re.MULTILINE)}
    if not (buckets := re.findall(r"^  (\S+) +(\d+) +\d+ +(?:sparse|dense)$", text, re.MULTILINE)):
        raise RuntimeError("dragonn-train --dry-run printed no buckets")
    # A layer's FLOPs count once: at the first of its tensors. Layers without weights of their own count with the vectors.
    tensors = [Tensor(resize.get(name, int(numel)), mflop.pop(name.rsplit(".", 1)[0], 0.0), ".." in name) for name, numel in buckets]
    return [*tensors[:-1], tensors[-1]._replace(mflop=tensors[-1].mflop + sum(mflop.values()))]


def rows_of(group):
    columns, rows, each = (group.pop(key, default) for key, default in (("columns", []), ("rows", [[]]), ("each", {})))
    for values in rows:
        row = group | dict(zip(columns, values)) | each
        for at in range(len(row["paper"]) if each else 1):
            one = {key: value[at] if each and isinstance(value, list) else value for key, value in row.items()}
            yield {key: value.format(**one) if isinstance(value, str) else value for key, value in one.items()}


def read_assumptions(path):
    """Returns the assumptions, with what setups and headlines have in common in each of them."""
    given = tomllib.loads(path.read_text())
    given["setups"] = {name: given["papers"][name.partition("_")[0]] | setup for name, setup in given["setups"].items()}
    given["headlines"] = [row for group in given["headlines"] for row in rows_of(group)]
    for model in given["models"].values():
        if "image" in model:
            side, classes = model["image"]
            model["set"] = [*model.get("set", []), f"data.height={side}", f"data.width={side}", "data.channels=3",
                            f"data.classes={classes}"]
    return given


class Headlines:
    """What the rows state. Each command runs once."""

    def __init__(self, assumptions, programs, work):
        self.given, self.programs, self.work = assumptions, programs, work

    def trained(self, *arguments):
        return output_of([self.programs / "dragonn-train", *arguments], cwd=ROOT)

    def exchanged(self, collective, row, *more):
        """Rows of a collective; `row` has ranks, numel, density, latency_us and gbps."""
        options = [option for key in ("ranks", "numel", "density", "latency_us", "gbps")
                   for option in (f"--{key.replace('_', '-')}", row[key])]
        return bench_rows([self.programs / "dragonn-bench", "collective", "--collective", collective, *options, *more])

    @functools.cache
    def tensors(self, name):
        model = self.given["models"][name]
        arguments = [*([f"model.name={name}"] if "image" in model else []), *model["set"], "compression.method=topk",
                     "compression.bucket=tensor", "compression.density_schedule=constant"]
        for kind, amount in model.get("generated", {}).items():
            folder = self.work / name
            folder.mkdir()
            {"words": write_words, "seconds": write_audio}[kind](folder, amount)
            arguments.append(f"data.path={folder}")
        config = model.get("config", "configs/synthetic_quick.toml")
        return parse_dry_run(self.trained(config, "--dry-run", *sets(arguments)), model.get("resize", {}))

    def compute_seconds(self, setup):
        if "step_ms" in setup:
            return setup["step_ms"] / 1e3
        flops = 3e6 * setup["batch"] * sum(tensor.mflop for tensor in self.tensors(setup["model"]))
        return flops / (self.given["devices"][setup["device"]]["tflops"] * 1e12 * setup["efficiency"])

    def memory_seconds(self, setup, moved):
        return moved / (self.given["devices"][setup["device"]]["memory_gbs"] * 1e9 * self.given["ours"]["memory_share"])

    def select_seconds(self, setup, selector, numel, whose, ranks):
        """Returns the time of accumulation and selection on one bucket."""
        ours, side, rate = self.given["ours"], self.given[whose], 0.0  # nanoseconds for an element
        moved = ours["accumulate_bytes"][setup["memory"]]
        if whose == "ours":
            moved += ours["further_passes"].get(selector, 0) * WORD
        else:
            rates = side[setup["device"]]
            rate = rates[selector] / (ranks if selector == "exdyna" else 1)  # there a worker searches its partition
            rate += rates["topk"] / setup["period"] if selector == "oktopk" else 0.0
        return rate * numel * 1e-9 + self.memory_seconds(setup, moved * numel) + side["kernels"] * side["launch_us"] * 1e-6

    def decode_seconds(self, setup, decode, numel, ranks, whose):
        """Returns the time to sum the lists of all ranks. Our kernels decode sparse, whatever the paper does."""
        k = setup["density"] * numel
        if decode == "merge":  # a tree: each round reads two lists, adds and selects; theirs selects in a dense vector
            if whose == "theirs":
                return 0.0  # within the papers' rate of topk, which is fitted to a row with merges
            return (ranks - 1).bit_length() * self.memory_seconds(setup, 6 * 2 * k * ENTRY)
        entries = {"sum": 2 * k, "fill": min(k * ranks, numel)}.get(decode, k * ranks)
        scatter = 64 * entries  # a sector is read and written for each entry
        if decode == "dense" and whose == "theirs":
            return self.memory_seconds(setup, 4 * WORD * numel * ranks + scatter)  # clear, and add one vector after another
        return self.memory_seconds(setup, WORD * numel + ENTRY * entries + scatter)

    def exchange(self, setup, collective, numel, ranks):
        network = self.given["networks"][setup["network"]]
        density = max(setup["density"], 1 / numel)
        period = setup.get("period") if collective == "oktopk" else None
        return self.measured_exchange(collective, ranks, numel, density, network["latency_us"], network["gbps"], period)

    @functools.cache
    def measured_exchange(self, collective, ranks, numel, density, latency_us, gbps, period):
        is_union = collective == "index_union"
        scale = max(1, ranks * numel / (LARGEST_UNION if is_union else LARGEST_RUN))
        options = ["--steps", 1, "--warmup", 1] if is_union else ["--payload-only"]
        options += ["--set", f"oktopk.global_period={period}"] if period else []

        def row_at(rate):
            run = {"ranks": ranks, "numel": max(1, round(numel / scale)), "density": density, "latency_us": latency_us,
                   "gbps": rate / scale}
            return self.exchanged(collective, run, *options)[-1]  # the mean of a period comes last

        row = row_at(gbps)
        return Exchange(row["seconds"], row_at(UNLIMITED_GBPS)["seconds"], gbps,
                        row["bytes_sent"]["mean"] * scale + row["header_bytes_sent"]["mean"],
                        row["messages"]["mean"] + row["header_messages"]["mean"])

    def buckets(self, setup, scheme, gbps, whose, ranks):
        """Returns (numel, mflop, is_sparse) of each bucket, the last layer's first."""
        tensors = self.tensors(setup["model"])
        if scheme["bucket"] == "model":
            return [(sum(t.numel for t in tensors), sum(t.mflop for t in tensors), "selector" in scheme)]
        if scheme["bucket"] != "tensor":
            return fused([tensor[:2] for tensor in tensors], scheme["bucket"])

        def pays(numel):  # as DRAGONN 4.2 decides on a tensor
            dense, sparse = (self.exchange(setup, name, numel, ranks).seconds_at(gbps) for name in ("dense", scheme["collective"]))
            return dense - sparse > (self.select_seconds(setup, scheme["selector"], numel, whose, ranks) +
                                     self.decode_seconds(setup, scheme["decode"], numel, ranks, whose))

        sparse, dense = [], []
        for numel, mflop, is_vector in tensors:
            is_sparse = not is_vector and (not scheme.get("choose") or pays(numel))
            (sparse if is_sparse else dense).append((numel, mflop))
        return [(*tensor, True) for tensor in sparse] + fused(dense, 64)

    def step(self, setup_name, scheme_name, whose, gbps=None, ranks=None):
        """Lets the device and the network work in the order of the buckets: a bucket's exchange begins when it is selected
        and the network is free; all lists are decoded after backward."""
        setup, scheme = self.given["setups"][setup_name], self.given["schemes"][scheme_name]
        gbps = gbps or self.given["networks"][setup["network"]]["gbps"]
        ranks, compute = ranks or setup["ranks"], self.compute_seconds(setup)
        buckets = self.buckets(setup, scheme, gbps, whose, ranks)
        mflop = sum(bucket[1] for bucket in buckets) or 1.0
        backward = 2 / 3 * compute if scheme.get("overlap") else 0.0
        result, device, network, ends = Step(compute), compute - backward, 0.0, []
        for numel, flops, is_sparse in buckets:
            select = self.select_seconds(setup, scheme["selector"], numel, whose, ranks) if is_sparse else 0.0
            device += backward * flops / mflop + select
            exchange = self.exchange(setup, scheme["collective"] if is_sparse else "dense", numel, ranks)
            network = max(network, device) + exchange.seconds_at(gbps)
            ends.append((network, self.decode_seconds(setup, scheme["decode"], numel, ranks, whose) if is_sparse else 0.0))
            result.select += select
            result.exchange += exchange.seconds_at(gbps)
            result.bytes_sent += exchange.bytes_sent
            result.messages += exchange.messages
        for end, decode in ends:
            device = max(device, end) + decode
            result.decode += decode
        result.total = device
        return result

    # The kinds of headlines. Each returns the number for "theirs" or "ours", as a float.

    def ratio(self, row, whose, gbps, part):
        baseline, method = (self.step(row["setup"], row[side], whose, gbps, row.get("ranks")) for side in ("baseline", "method"))
        return getattr(baseline, part) / getattr(method, part)

    def speed(self, row, whose, gbps=None):
        """Time of a step with the baseline over that with the method."""
        return self.ratio(row, whose, gbps, "total")

    def synchronization(self, row, whose, gbps=None):
        """The same of selection, exchange and decoding, without overlap."""
        return self.ratio(row, whose, gbps, "synchronization")

    def total(self, row, whose, gbps=None):
        """The same of a whole training: steps that the baseline needs for each of the method's, times their times."""
        return row["iterations"][whose] * self.speed(row, whose, gbps)

    def efficiency(self, row, whose, gbps=None):
        """Compute time over the time of a step: scaling efficiency, in percent."""
        step = self.step(row["setup"], row["method"], whose, gbps, row.get("ranks"))
        return 100 * step.compute / step.total

    def scaling(self, row, whose, gbps=None):
        """Time of a step with few workers over that with all of them, in percent."""
        few, all_ranks = (self.step(row["setup"], row["method"], whose, gbps, ranks).total for ranks in (row["ranks"], None))
        return 100 * few / all_ranks

    def encode(self, row, whose, gbps=None):
        """Time to select in one vector, without accumulation where a paper gives a rate."""
        theirs, setup = self.given["theirs"]["v100"], self.given["setups"][row["setup"]]
        baseline, method = (theirs[row[scheme]] if whose == "theirs" else
                            self.select_seconds(setup, row[scheme], row["numel"], whose, 1) for scheme in ("baseline", "method"))
        return baseline / method

    def range_of(self, row, whose, gbps=None):
        """The least and the most speed over several baselines, as text."""
        speeds = sorted((self.speed({**row, "baseline": name}, whose, gbps), name) for name in row["baselines"])
        return " to ".join(f"{speed:.2f} ({name})" for speed, name in (speeds[0], speeds[-1]))

    def density(self, row):
        """Entries that all workers' lists have together, over the target, measured in a short training."""
        folder = self.work / "density"
        self.trained(row["config"], "--output", folder, *sets(row["set"]))
        return statistics.mean(s["density_global"] / s["density_target"] for s in metrics(folder, "step"))

    def exchanges(self, row):
        """Time of an exchange of drawn gradients with the baseline's settings over that with the method's, by number of
        workers, as text."""
        seconds = {}
        for side in ("baseline", "method"):
            rows = self.exchanged("oktopk", row | {"ranks": ",".join(map(str, row["ranks"]))}, "--warmup", row["warm_up"],
                                  "--steps", row["steps"], *sets(row[side]))
            seconds[side] = {r["ranks"]: r["seconds"] for r in rows if r["phase"] == "reuse"}
        return ", ".join(f"{seconds['baseline'][ranks] / seconds['method'][ranks]:.2f} at {ranks}" for ranks in row["ranks"])

    def curve(self, row, whose, gbps=None):
        """The efficiency in percent of several schemes at several numbers of workers, as text."""
        return "; ".join(
            f"{scheme} " + ", ".join(f"{self.efficiency({**row, 'method': scheme, 'ranks': ranks}, whose, gbps):.3g}"
                                     for ranks in row["ranks"]) for scheme in row["schemes"])

    def implied_gbps(self, row, value):
        """Returns the bandwidth at which "theirs" has the paper's value; None if there is none in 0.001 to 1000 Gbit/s."""
        def above(gbps):
            return getattr(self, row.get("kind", "speed"))(row, "theirs", gbps) > value

        low, high = 1e-3, 1e3
        at_low = above(low)
        if at_low == above(high):
            return None
        for _ in range(40):
            middle = (low * high)**0.5
            low, high = (middle, high) if above(middle) == at_low else (low, middle)
        return low

    def restate(self, row):
        """Returns the row's result: each part a number, a text, or None where there is none."""
        kind = row.get("kind", "speed")
        result = dict.fromkeys(("theirs", "ours", "implied_gbps", "theirs_effective", "ours_effective"))
        result |= {"id": row["id"], "headline": row["headline"], "paper": row["paper"], "why": row["why"]}
        if kind in ("none", "density", "exchanges"):
            return result | ({} if kind == "none" else {"ours": getattr(self, kind)(row)})
        measure = getattr(self, {"range": "range_of"}.get(kind, kind))
        result |= {"theirs": measure(row, "theirs"), "ours": measure(row, "ours")}
        if kind == "encode":
            return result
        if isinstance(row["paper"], (int, float)) and kind != "range":
            result["implied_gbps"] = self.implied_gbps(row, row["paper"])
        if effective := self.given["networks"][self.given["setups"][row["setup"]]["network"]].get("effective_gbps"):
            result |= {"theirs_effective": measure(row, "theirs", effective), "ours_effective": measure(row, "ours", effective)}
        return result

    def traffic(self, rows):
        """Returns what each setup does with each scheme that the rows name."""
        used = dict.fromkeys((row["setup"], scheme) for row in rows if "setup" in row and row.get("kind") not in ("encode", "none")
                             for scheme in [row.get("baseline"), row.get("method"), *row.get("baselines", [])] if scheme)
        for name, scheme in used:
            theirs, ours, setup = self.step(name, scheme, "theirs"), self.step(name, scheme, "ours"), self.given["setups"][name]
            yield {"setup": name, "scheme": scheme, "ranks": setup["ranks"],
                   "numel": sum(t.numel for t in self.tensors(setup["model"])),
                   "compute_ms": 1e3 * ours.compute, "select_theirs_ms": 1e3 * theirs.select,
                   "select_ours_ms": 1e3 * ours.select, "exchange_ms": 1e3 * ours.exchange,
                   "step_theirs_ms": 1e3 * theirs.total, "step_ours_ms": 1e3 * ours.total,
                   "bytes_sent": ours.bytes_sent, "messages": ours.messages}


def fused(tensors, mebibytes):
    """Joins neighbours to dense buckets of at least so many MiB; the last may be smaller."""
    result, numel, mflop = [], 0, 0.0
    for count, flops in tensors:
        numel, mflop = numel + count, mflop + flops
        if numel * WORD >= mebibytes * 2**20:
            result.append((numel, mflop, False))
            numel, mflop = 0, 0.0
    return result + ([(numel, mflop, False)] if numel else [])


def shown(value):
    return "-" if value is None else value if isinstance(value, str) else f"{value:.3g}"


def headline_table(results, notes):
    head = ["headline", "paper", "their selectors, our collectives", "ours", "implied Gbit/s", "at the effective rate: theirs", "ours",
            "why"]
    columns = ("paper", "theirs", "ours", "implied_gbps", "theirs_effective", "ours_effective")
    used = [key for key in notes if any(key in row["why"].split() for row in results)]
    return (table(head, ([row["headline"], *(shown(row[column]) for column in columns), row["why"]] for row in results))
            + "\n\n" + "\n".join(f"- **{key}**: {notes[key]}" for key in used))


def traffic_table(rows):
    head = ["setup", "P", "elements", "scheme", "compute, ms", "select, ms: theirs, ours", "exchange, ms", "step, ms: theirs, ours",
            "sent by a worker", "messages"]
    return table(head, ([row["setup"], row["ranks"], f"{row['numel']:,}", row["scheme"], f"{row['compute_ms']:.4g}",
                         f"{row['select_theirs_ms']:.3g}, {row['select_ours_ms']:.3g}", f"{row['exchange_ms']:.4g}",
                         f"{row['step_theirs_ms']:.4g}, {row['step_ours_ms']:.4g}", f"{row['bytes_sent'] / 1e6:.4g} MB",
                         f"{row['messages']:.0f}"] for row in rows))


def update(page, text):
    before, after = re.split(f"{MARKS[0]}.*{MARKS[1]}", page.read_text(), maxsplit=1, flags=re.DOTALL)
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN, help="folder of the programs")
    parser.add_argument("--only", type=words, help="rows by id, separated by commas (default: all)")
    parser.add_argument("--list", action="store_true", help="print the ids of all rows and end")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--update", type=pathlib.Path, help="also put the tables into this page, between its two marks")
    options = parser.parse_args()
    assumptions = read_assumptions(ASSUMPTIONS)
    rows = {row["id"]: row for row in assumptions["headlines"]}
    if options.list:
        print("\n".join(f"{name}: {row['headline']}" for name, row in rows.items()))
        return 0
    wanted = options.only or list(rows)
    if unknown := set(wanted) - rows.keys():
        parser.error(f"--only: no row '{min(unknown)}'; --list prints the rows")
    rows, results = [row for name, row in rows.items() if name in wanted], []
    with tempfile.TemporaryDirectory() as work:
        headlines = Headlines(assumptions, options.bin.resolve(), pathlib.Path(work))
        for row in rows:
            print(row["id"], file=sys.stderr, flush=True)
            results.append(headlines.restate(row))
        traffic = list(headlines.traffic(rows))
    text = headline_table(results, assumptions["notes"]) + "\n\n" + traffic_table(traffic)
    print(text)
    if options.json:
        options.json.write_text(json.dumps({"headlines": results, "traffic": traffic}, indent=1) + "\n")
    if options.update:
        update(options.update, text)
    return 0


if __name__ == "__main__":
    run_main(main)
