#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds what `dragonn plan` proposes against all that it could have proposed: each point is a model and a network. One call plans
as a user would, another one (--all) tries every candidate on the same virtual cluster; the first proposal should take no longer
than the best of all by more than 5 %. dragonn-train then runs the first proposal with the model itself, without the density's schedule,
and should take the time that was predicted.

Usage:
  scripts/plan_grid.py --output grid.json [--grid small|full] [--markdown FILE] [--bin build/release/bin] [--points N]
  scripts/plan_grid.py --hosts 4 --output hosts.json [--rates RATES...]      # needs root: real messages

On virtual networks a step's computing takes a described time, and other work none, so that every time is exact. With --hosts every
worker is a host of scripts/netns_cluster.sh: the plan measures their network, and dragonn-train runs five candidates there, by wall
clock: the first proposal should be within 10 % of the fastest. Points that the output has already are not run again, and --points
ends after so many new ones. Exit code 1 if some point misses.
"""
import json
import pathlib
import shutil
import statistics
import tempfile

from runs import BIN, CLUSTER, Rows, make_parser, metrics, output_of, run_main, sets, table, words

# A proposal that takes longer than the best of all by more than this misses; by wall clock the second.
TOLERANCE, WALL_TOLERANCE = 0.05, 0.10
# The virtual time of dragonn-train differs from the prediction, where counts depend on gradients. They settle in so many steps.
STEPS, WALL_STEPS, WARM_UP, SETTLING = 40, 30, 3, 32
# With local steps at least so many rounds.
ROUNDS = 5

COMMON = ["train.epochs=1000", "train.eval_every_epochs=0", "checkpoint.every_epochs=0", "train.replica_check_every=0",
          "logging.every_steps=1", "logging.advice=false", "train.batch_size=1"]
IMAGES = ["data.name=synthetic_images", "data.train_samples=512", "data.test_samples=16", "data.classes=10", "data.height=32",
          "data.width=32", "data.channels=3", "optimizer.learning_rate=0.001", "optimizer.momentum=0.9"]
GPT = ["model.name=gpt2", "model.layers=4", "model.hidden=128", "model.heads=4", "model.positions=64", "data.window=64",
       "data.name=token_shards", "optimizer.name=adamw", "optimizer.learning_rate=0.001", "optimizer.beta2=0.99"]
# The settings of a model, and the milliseconds that forward and backward take.
MODELS = {"resnet20": (["model.name=resnet20", *IMAGES], 30), "gpt2": (GPT, 40), "vgg16": (["model.name=vgg16", *IMAGES], 250),
          "mlp": (["model.name=mlp", "model.hidden=[64]", *IMAGES], 5)}


def network(workers, gbps, latency_us, **more):
    return {"workers": workers, "gbps": gbps, "latency_us": latency_us} | more


# Twelve with equal links, and twelve with links or nodes that differ.
EVEN = [network(4, 0.01, 100), network(4, 0.1, 100), network(4, 0.1, 5000), network(4, 1, 50), network(4, 1, 20000),
        network(4, 10, 20), network(8, 0.01, 20000), network(8, 0.1, 500), network(8, 1, 50), network(8, 1, 5000),
        network(8, 10, 20), network(2, 0.05, 1000)]
UNEVEN = [network(4, 0.1, 100, up_gbps=[0.1, 0.1, 0.1, 0.01]), network(4, 1, 100, up_gbps=[1, 1, 0.1, 1], down_gbps=[1, 1, 0.1, 1]),
          network(4, 0.1, 2000, down_gbps=[0.1, 0.02, 0.1, 0.1]), network(4, 0.05, 20000, up_gbps=[0.05, 0.02, 0.01, 0.005]),
          network(4, 0.1, 100, workers_per_node=2), network(8, 0.1, 100, workers_per_node=2), network(8, 1, 50, workers_per_node=4),
          network(8, 0.01, 5000, workers_per_node=4), network(8, 1, 500, nodes=[1, 3, 4]),
          network(8, 0.1, 1000, workers_per_node=4, up_gbps=[0.1, 0.02]),
          network(8, 0.1, 200, nodes=[2, 2, 4], up_gbps=[0.1, 0.05, 0.1], down_gbps=[0.2, 0.2, 0.05]),
          network(4, 10, 50, workers_per_node=2, up_gbps=[10, 1])]


def grid_of(name):
    if name == "small":
        return [{"model": "mlp", "unmeasured": True} | n for n in (EVEN[1], UNEVEN[4])]
    return [{"model": model} | n for model in MODELS if model != "mlp" for n in EVEN + UNEVEN]


def name_of(p):
    return " ".join(f"{key}={value}" for key, value in p.items()).replace(", ", ",")


class Runner:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.config = folder / "empty.toml"
        self.config.touch()
        self.shards = None

    def program(self, name):
        return self.options.bin.resolve() / name

    def settings(self, model):
        """The settings of a model, with generated data."""
        if model == "gpt2" and not self.shards:
            text = self.folder / "text.txt"
            text.write_text("".join(chr(32 + (i * i + i // 7) % 65) for i in range(200000)))
            self.shards = self.folder / "shards"
            output_of([self.program("dragonn"), "tokenize", text, "--characters", "--held-out", "0.1", "--output", self.shards])
        return MODELS[model][0] + [*COMMON, *([f"data.path={self.shards}"] if model == "gpt2" else [])]

    def base(self, p):
        """The settings of a point."""
        keys = {key: value for key, value in p.items() if key not in ("model", "workers", "unmeasured")}
        return self.settings(p["model"]) + [
            "network.model=alpha-beta", "network.compute=zero", f"network.step_ms={MODELS[p['model']][1]}",
            f"comm.workers={p['workers']}", *(f"network.{key}={value}" for key, value in keys.items())]

    def plan(self, settings, *more):
        return json.loads(output_of([self.program("dragonn"), "plan", self.config, *sets(settings), "--json", "-", *more]))

    def seconds_per_step(self, settings, steps, launcher=()):
        """The time of a step of dragonn-train behind the first ones, as a mean over whole rounds, of which there are some."""
        inner_steps = [int(s.partition("=")[2]) for s in settings if s.startswith("update.inner_steps=")]
        warm_up = WARM_UP + (SETTLING if "compression.method=oktopk" in settings else 0)
        steps = max(steps + warm_up, ROUNDS * max(inner_steps, default=1))
        output = self.folder / "run"
        shutil.rmtree(output, ignore_errors=True)
        output_of([*launcher, self.program("dragonn-train"), self.config, "--output", output,
                   *sets(settings + ["compression.density_schedule=constant", f"train.max_steps={steps}"])])
        lines = [(line["step"], line["time"]) for line in metrics(output, "step")]
        # The last exchange of a run is of everything, whenever it comes.
        (begin, start), *_, (end, stop) = lines[warm_up if len(lines) > 2 * warm_up else 1:-1]
        return (stop - start) / (end - begin)

    def measure(self, p):
        base = self.base(p)
        more = ["--unmeasured"] if p.get("unmeasured") else []
        planned, everything = self.plan(base, *more), self.plan(base, *more, "--all")
        first = planned["proposals"][0]
        times = {" ".join(c["settings"]): c for c in everything["candidates"] if "seconds" in c}
        allowed = [c for c in times.values() if more or c["convergence"] != "unknown"]
        best = min(allowed, key=lambda c: c["seconds"])
        mine = times[" ".join(first["settings"])]["seconds"]
        train_seconds = self.seconds_per_step(base + first["settings"], STEPS)
        return {**p, "proposal": first["family"], "changes": first["changes"], "seconds": mine, "predicted": first["seconds"],
                "best": best["family"], "best_settings": best["settings"], "best_seconds": best["seconds"],
                "ratio": mine / best["seconds"], "own_seconds": everything["own"]["seconds"],
                "train_seconds": train_seconds, "listed": planned["search"]["listed"],
                "tried": planned["search"]["tried"], "search_seconds": planned["search"]["seconds"],
                "right": mine <= (1 + TOLERANCE) * best["seconds"]}

    def measure_hosts(self, p):
        """By wall clock: the first of each of five families, or further candidates of the first ones."""
        cluster = [CLUSTER, "run", self.options.hosts, p["rate"], "--"]
        base = self.settings(p["model"])
        result, links = self.folder / "plan.json", self.folder / "network.json"
        output_of([*cluster, self.program("dragonn"), "plan", self.config, *sets(base), "--measure", links, "--force", "--all",
                   "--json", result])
        planned = json.loads(result.read_text())
        first = planned["proposals"][0]
        others, families = [], {first["family"]}
        known = [c for c in planned["candidates"] if c["convergence"] != "unknown" and c["settings"] != first["settings"]]
        for c in [c for c in known if c["family"] not in families and not families.add(c["family"])] + known:
            if len(others) < 4 and c not in others:
                others.append(c)
        walls = {}
        for _ in range(self.options.rounds):
            for c in [first, *others]:
                taken = self.seconds_per_step(base + c["settings"], WALL_STEPS, cluster)
                walls.setdefault(" ".join(c["settings"]), []).append(taken)
        seconds = {settings: statistics.median(times) for settings, times in walls.items()}
        mine = seconds[" ".join(first["settings"])]
        return {**p, "network": json.loads(links.read_text()), "step_seconds": planned["step"]["seconds"], "proposal": first["family"],
                "predicted": first["seconds"], "seconds": mine, "best_seconds": min(seconds.values()),
                "ratio": mine / min(seconds.values()), "right": mine <= (1 + WALL_TOLERANCE) * min(seconds.values()),
                "candidates": [{"family": c["family"], "settings": c["settings"], "predicted": c["seconds"],
                                "seconds": seconds[" ".join(c["settings"])]} for c in [first, *others]]}


def network_text(row):
    if "rate" in row:
        return f"{row['workers']} hosts, {row['rate']}"
    more = [f"{key} {row[key]}" for key in ("workers_per_node", "nodes", "up_gbps", "down_gbps") if key in row]
    return ", ".join([f"{row['workers']} workers, {row['gbps']:g} Gbit/s, {row['latency_us']:g} us", *more])


def markdown(rows):
    def cells(row):
        own = f"{row['own_seconds'] * 1e3:.4g}" if "own_seconds" in row else ""
        train = f"{row['train_seconds'] * 1e3:.4g}" if "train_seconds" in row else ""
        return [row["model"], network_text(row), row["proposal"], f"{row['predicted'] * 1e3:.4g}", f"{row['seconds'] * 1e3:.4g}",
                train, f"{row['best_seconds'] * 1e3:.4g}", f"{row['ratio']:.3f}", own]

    return table(["model", "network", "proposal", "predicted ms", "tried ms", "dragonn-train ms", "best of all ms", "ratio", "dense ms"],
                 map(cells, rows)) + "\n"


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--grid", choices=["small", "full"], default="full")
    parser.add_argument("--points", type=int, default=10**6)
    parser.add_argument("--models", type=words, default=list(MODELS))
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--host-model", default="gpt2", choices=MODELS, help="that the hosts train")
    parser.add_argument("--rates", nargs="+", default=["50mbit", "10mbit", "100mbit,100mbit,100mbit,20mbit", "20mbit/100mbit"],
                        help="rates of the hosts of each network, as scripts/netns_cluster.sh takes them")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    points = [p for p in grid_of(options.grid) if p["model"] in options.models] if not options.hosts else [
        {"model": options.host_model, "rate": rate, "workers": options.hosts} for rate in options.rates]
    rows, left = Rows(options.output), options.points
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, pathlib.Path(folder))
        for number, p in enumerate(points, 1):
            if rows.has(p) or left == 0:
                continue
            left -= 1
            row = runner.measure_hosts(p) if options.hosts else runner.measure(p)
            rows.add([row])
            print(f"{number}/{len(points)} {name_of(p)}: {row['proposal']} {row['seconds'] * 1e3:.4g} ms, best "
                  f"{row['best_seconds'] * 1e3:.4g} ms{'' if row['right'] else ' MISSES'}", flush=True)
    missed = sum(not row["right"] for row in rows)
    worst = max((row["ratio"] for row in rows), default=1)
    print(f"{len(rows)} points, {missed} miss; the worst takes {worst:.3f} times as long as the best")
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    return 1 if missed else 0


if __name__ == "__main__":
    run_main(main)
