#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds what dragonn-train advises against what is faster: each point is a model, a method and a network; dense runs, by
each algorithm, and a run with the method measure the time per step, and the latter's profile.json has the advice. Where
computing takes no time the other settings that the advice knows are measured, too.

Usage:
  scripts/advisor_grid.py --output grid.json [--grid small|full] [--markdown FILE] [--bin build/release/bin]
  scripts/advisor_grid.py --hosts 3 --rates 10mbit,100mbit,1gbit --output hosts.json     # needs root: real messages

A grid runs on virtual networks. With compute "zero" a step takes the network's time alone, and the profile says so; with
"measured" compute time is CPU time, and profile and backward time come from a run ahead. With --hosts every worker is a
host of scripts/netns_cluster.sh, times are wall times, and the run measures its network.
Points that the output has already are not run again. Exit code 1 if an advice is wrong where both differ by more than 10 %,
or if some setting is faster by more than 10 % than all that the advice names with a time. An advice that says that it
depends on the entries which the method will select claims nothing.
"""
import json
import math
import pathlib
import re
import shutil
import statistics
import tempfile

from runs import BIN, CLUSTER, Rows, make_parser, metrics, output_of, run_main, sets, table, words

# Below this difference of the two times no advice is wrong.
TOLERANCE = 0.10
WARM_UP = 2
# Thresholds that are reused settle in the first period, and steps of a period differ: the third one is measured.
PERIODS = {"oktopk": 32}

IMAGES = ["data.name=synthetic_images", "data.train_samples=512", "data.test_samples=8", "data.classes=10"]
MODELS = {
    "mlp": IMAGES + ["model.name=mlp", "model.hidden=[256]", "data.height=16", "data.width=16", "data.channels=1"],
    "resnet20": IMAGES + ["model.name=resnet20", "data.height=32", "data.width=32", "data.channels=3"],
    # At the default learning rate it diverges, and forecasts are of training that learns.
    "mlp_large": IMAGES + ["model.name=mlp", "model.hidden=[1024, 1024]", "data.height=32", "data.width=32",
                           "data.channels=3", "optimizer.learning_rate=0.01"],
}
# The run ends after the steps that are measured; nothing but steps is timed.
COMMON = ["train.batch_size=2", "train.epochs=2", "train.eval_every_epochs=0", "checkpoint.every_epochs=0",
          "train.replica_check_every=0", "logging.every_steps=1", "compression.density_schedule=constant"]
METHODS = ["topk", "dragonn", "gtopk", "oktopk"]
THRESHOLD_METHODS = ["dgc", "gaussiank", "sidco_e", "exdyna"]
QUANTIZERS = ["qsgd", "signsgd"]
ALGORITHMS = ["ring", "rabenseifner", "native"]


def point(model, method, gbps, latency_us, **more):
    return {"model": model, "method": method, "gbps": gbps, "latency_us": latency_us, "compute": "zero", "density": 0.01,
            "workers": 4} | more


def grid_of(name):
    if name == "small":
        networks = [(0.01, 10), (1, 50000), (100, 10)]
        return [point("mlp", method, gbps, latency) for method in ("topk", "gtopk") for gbps, latency in networks] + [
            point("mlp", "topk", 4.5, 9000, workers=6, bucket="tensor"), point("mlp", "qsgd", 0.035, 100, workers=12)]
    points = []
    for method in METHODS:
        for model in MODELS:
            networks = [(0.01, 10), (0.01, 50000), (0.1, 500), (1, 50), (1, 5000), (10, 10), (100, 10), (100, 1000)]
            points += [point(model, method, *network) for network in networks[:: 2 if model == "mlp_large" else 1]]
    points += [point("resnet20", method, *network, compute="measured") for method in METHODS
               for network in [(0.1, 500), (0.889, 436), (1, 50), (10, 50)]]
    points += [point("resnet20", "dragonn", *network, compute="measured", overlap=overlap, bucket="tensor", batch=32)
               for overlap in (False, True) for network in [(0.05, 100), (0.889, 436), (10, 50)]]
    points += [point("resnet20", "topk", gbps, 100, density=density, workers=8) for density in (0.001, 0.1) for gbps in (0.1, 10)]
    # Latencies at which the number of messages decides.
    for workers in (6, 12, 24):
        for latency in (9000, 60000):
            points += [point("mlp", "topk", 4.5, latency, workers=workers, bucket=bucket) for bucket in ("tensor", "model")]
            points += [point("mlp", "qsgd", 4.5, latency, workers=workers),
                       point("mlp", "topk", 4.5, latency, workers=workers, bucket="tensor", algorithm="rabenseifner")]
    points += [point("resnet20", "topk", 4.5, 9000, workers=6, bucket="tensor"),
               point("resnet20", "topk", 4.5, 60000, workers=12, bucket="tensor"),
               point("resnet20", "topk", 1, 50, workers=6, bucket="tensor", fusion=0)]
    # Two levels, where a node counts as one worker.
    for workers, per_node in ((8, 2), (12, 3)):
        points += [point("resnet20", method, *network, workers=workers, workers_per_node=per_node)
                   for method in METHODS for network in ((0.01, 1000), (0.1, 200), (100, 10))]
    # Links that differ, of which the slowest decides.
    for method in METHODS:
        points += [point("resnet20", method, 0.1, 100, up_gbps=[0.1, 0.1, 0.1, 0.01]),
                   point("resnet20", method, 1, 50, down_gbps=[1, 0.02, 1, 1]),
                   point("resnet20", method, 100, 10, up_gbps=[100, 100, 0.1, 100], down_gbps=[100, 100, 0.1, 100])]
    for workers in (6, 12):
        points += [point("mlp", method, 0.035, 100, workers=workers) for method in QUANTIZERS]
        points += [point("mlp", method, *network, workers=workers)
                   for method in THRESHOLD_METHODS for network in ((0.035, 100), (4.5, 9000))]
    return points


def name_of(p):
    return " ".join(f"{key}={value}" for key, value in sorted(p.items()))


class Runner:
    def __init__(self, options, folder):
        self.options, self.hosts, self.folder, self.profiles = options, options.hosts, folder, {}
        self.config = folder / "empty.toml"
        self.config.touch()

    def settings(self, p, dense, network, more):
        steps = self.options.steps if dense or p["method"] not in PERIODS else 3 * PERIODS[p["method"]] + 1
        keys = {"batch": "train.batch_size", "algorithm": "comm.dense_algorithm"}
        if network:
            keys |= {name: f"network.{name}" for name in ("gbps", "latency_us", "up_gbps", "down_gbps", "compute", "workers_per_node")}
        if not dense:
            keys |= {name: f"compression.{name}" for name in ("method", "density", "overlap", "bucket")}
            keys |= {"fusion": "compression.fusion_mib"}
        # Dense as DDP: beside backward, where a bucket ends before the first layer. It has two levels only if asked.
        if "workers_per_node" in p:
            more = [*more, "comm.hierarchy=node"]
        return [*COMMON, *MODELS[p["model"]], f"train.max_steps={steps}", *(["network.model=alpha-beta"] if network else []),
                *(["compression.method=dense", "compression.overlap=true"] if dense else []),
                *(f"{key}={str(p[name]).lower()}" for name, key in keys.items() if name in p), *more]

    def run(self, p, dense, network=True, more=()):
        output = self.folder / "run"
        shutil.rmtree(output, ignore_errors=True)
        command = [self.options.bin.resolve() / "dragonn-train", self.config, "--output", output,
                   *sets(self.settings(p, dense, network, more))]
        output_of([CLUSTER, "run", self.hosts, p["rate"], "--", *command] if self.hosts else [*command, "--workers", p["workers"]])
        return output

    def seconds_per_step(self, p, dense, more):
        times = [line["time"] for line in metrics(self.run(p, dense, not self.hosts, more), "step")]
        for period in PERIODS.values():
            if len(times) == 3 * period + 1:
                return (times[-1] - times[-1 - period]) / period
        return statistics.median(b - a for a, b in zip(times[WARM_UP - 1:], times[WARM_UP:]))

    def profile(self, p):
        """Of a run ahead: the machine's times, without the network; or zeros, where computing takes no time."""
        key = name_of({k: v for k, v in p.items() if k not in ("gbps", "latency_us", "rate")})
        if key not in self.profiles:
            ahead = {k: v for k, v in p.items() if k != "overlap"} | {"gbps": 1, "latency_us": 100, "compute": "measured"}
            # A network is given, so that the run asks for costs at all; hosts have wall times, whatever it is.
            measured = json.loads((self.run(ahead, False) / "profile.json").read_text())
            profile = {"version": 1, "profile": measured["profile"], "backward_seconds": measured["backward_seconds"]}
            if p["compute"] == "zero":
                profile["backward_seconds"] = 0
                for row in profile["profile"]:
                    row.update(dict.fromkeys(row.keys() & {"encode_seconds", "decode_seconds", "dense_seconds", "coding_seconds"}, 0))
            self.profiles[key] = self.folder / f"profile-{len(self.profiles)}.json"
            self.profiles[key].write_text(json.dumps(profile))
        return self.profiles[key]

    def measure(self, p):
        profile, algorithms = self.profile(p), ALGORITHMS[:-1] if self.hosts else ALGORITHMS  # under MPI native is MPI's own
        denses = {a: self.seconds_per_step(p, True, [f"comm.dense_algorithm={a}"]) for a in algorithms}
        dense, sparse = min(denses.values()), self.seconds_per_step(p, False, [f"compression.profile={profile}"])
        decided = json.loads((self.folder / "run" / "profile.json").read_text())
        advice = decided["advice"]
        faster, difference = "sparse" if sparse < dense else "dense", abs(sparse - dense) / min(sparse, dense)
        uncertain = advice.get("uncertain", False)
        row = {**p, "dense_seconds": dense, "dense_algorithms": denses, "sparse_seconds": sparse, "faster": faster,
               "difference": difference, "advice": advice,
               "right": advice["faster"] == faster or difference <= TOLERANCE or uncertain}
        # In the small grid only where the bucket is a part of the question: each setting is one more run.
        if p["compute"] == "zero" and (self.options.grid != "small" or "bucket" in p):
            algorithm = p.get("algorithm", "ring")
            if "dense_setting" in advice:
                algorithm = settings_of(advice["dense_setting"])[0].partition("=")[2]
            named = {"sparse": sparse, "dense": denses[algorithm]}
            others = {setting: self.seconds_per_step(p, False, setting.split()) for setting in self.alternatives(p)}
            if "remedy" in advice:
                settings = settings_of(advice["remedy"])
                others[" ".join(settings)] = named["remedy"] = self.seconds_per_step(p, False, settings)
            best = min(named, key=lambda name: advice.get(f"{name}_seconds", math.inf))
            others.update({f"dense {algorithm}": seconds for algorithm, seconds in denses.items()}, sparse=sparse)
            fastest = min(others, key=others.get)
            row.update(settings=others, named=best, named_seconds=named[best], fastest=fastest,
                       missed=not uncertain and min(named.values()) > (1 + TOLERANCE) * others[fastest])
        return row | ({"measured_network": decided["network"]} if self.hosts else {})

    def alternatives(self, p):
        """The settings that the advice knows, besides those of the point; without overlap, which no time is gained by."""
        for bucket in ("tensor", "model"):
            for vectors in ("yes", "no"):
                base = f"compression.bucket={bucket} compression.include_vectors={vectors} compression.fusion_mib=25"
                yield base
                if p["method"] not in QUANTIZERS:
                    yield f"{base} compression.codec.indices=smallest"
                if vectors == "no":
                    yield from (f"{base} comm.dense_algorithm={a}" for a in ALGORITHMS[1:])


def settings_of(text):
    """['a=b', 'c=d'] of 'a = "b", c = d'."""
    return [key + "=" + value.strip('"') for key, value in re.findall(r'([\w.]+) = ("[^"]*"|[^,]+)', text)]


def network_of(row):
    if "rate" in row:
        measured = row["measured_network"]
        return f"{row['rate']} ({measured['bytes_per_second'] * 8e-9:.3g} Gbit/s, {measured['latency_seconds'] * 1e6:.3g} us)"
    links = "".join(f", {key} {row[key]}" for key in ("up_gbps", "down_gbps") if key in row)
    return f"{row['gbps']:g} Gbit/s, {row['latency_us']:g} us{links}"


def named_text(row):
    if "named" not in row:
        return ""
    advice = row["advice"]
    what = {"sparse": "as it is", "dense": "dense", "remedy": f"`{advice.get('remedy')}`"}[row["named"]]
    if row["named"] == "dense" and "dense_setting" in advice:
        what = f"dense, `{advice['dense_setting']}`"
    return f"{what}: {row['named_seconds'] * 1e3:.4g} ms"


def markdown(rows):
    def cells(row):
        overlap = "overlap" if row.get("overlap") else ""
        method = ", ".join(filter(None, (row["method"], row.get("bucket"), overlap, row.get("algorithm"))))
        verdict = "claims nothing" if row["advice"].get("uncertain") else \
            "right" if row["advice"]["faster"] == row["faster"] else \
            "within 10 %" if row["right"] else "**wrong**"
        if row.get("missed"):
            verdict += f", **misses {row['fastest']}**"
        workers = f"{row['workers']}, {row['workers_per_node']} a node" if "workers_per_node" in row else row["workers"]
        return [row["model"], method, workers, f"{row['density']:g}", row["compute"], network_of(row),
                f"{row['dense_seconds'] * 1e3:.4g}", f"{row['sparse_seconds'] * 1e3:.4g}", row["faster"], row["advice"]["faster"],
                named_text(row), f"{row['settings'][row['fastest']] * 1e3:.4g} ms" if "fastest" in row else "", verdict]

    return table(["model", "method", "workers", "density", "compute", "network", "dense ms", "sparse ms", "faster", "advice",
                  "named as best", "best of all", ""], map(cells, rows)) + "\n"


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--grid", choices=["small", "full"], default="full")
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--rates", type=words, default=["10mbit", "100mbit", "1gbit"])
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    points = grid_of(options.grid) if not options.hosts else [
        {"model": model, "method": "topk", "rate": rate, "compute": "measured", "density": 0.01, "workers": options.hosts}
        for rate in options.rates for model in ("mlp", "resnet20")]
    rows = Rows(options.output)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, pathlib.Path(folder))
        for number, p in enumerate(points, 1):
            if rows.has(p):
                continue
            row = runner.measure(p)
            rows.add([row])
            print(f"{number}/{len(points)} {name_of(p)}: dense {row['dense_seconds'] * 1e3:.4g} ms, sparse "
                  f"{row['sparse_seconds'] * 1e3:.4g} ms, advice {row['advice']['faster']}{'' if row['right'] else ' WRONG'}"
                  f"{' MISSES ' + row['fastest'] if row.get('missed') else ''}", flush=True)
    wrong, missed = sum(not row["right"] for row in rows), sum(row.get("missed", False) for row in rows)
    uncertain = sum(row["advice"].get("uncertain", False) for row in rows)
    clear = sum(row["difference"] > TOLERANCE for row in rows)
    print(f"{len(rows)} points, {clear} with a difference above 10 %, {uncertain} where nothing is claimed; {wrong} advices "
          f"are wrong, {missed} miss a setting")
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    run_main(main)
