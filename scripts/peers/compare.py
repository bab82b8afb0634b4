#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares dragonn with PyTorch DDP over gloo on the same slow hosts.

    scripts/peers/compare.py                # measures what bench/results/peers.json lacks, then prints the tables

The hosts are those of scripts/netns_cluster.sh (root is needed): a rank on each, one thread a rank. Both programs read
the same config. The parts:
  compute     one rank alone, without a network: PyTorch, with torch.compile too, and dragonn
  throughput  samples/s, and bytes that leave by a host's interface per step: DDP plain, with its fp16 hook and with
              PowerSGD; dragonn dense, and with the gradient of the whole model sparsified to density 0.01
  accuracy    test accuracy against seconds of training, evaluations left out: ResNet-20 on CIFAR-10, once
compute and throughput are made of rounds, in which all take their turn; each side gives the seconds of windows of as
many steps. PyTorch runs in the environments of scripts/peers/side_by_side.py, eagerly and, for compute and with --compile,
compiled; the tables have the fastest. Data: 10,000 training and all test images of DRAGONN_DATA/cifar10; without it both
train on made-up images, and the part accuracy is left out.

Every row is kept in a JSON array and not measured again. Run it on a quiet machine.
Exit code: 0 all rows are there, 1 a run failed or rows are missing, 2 bad usage, 77 PyTorch, NumPy or the hosts are missing.
"""
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tables
from runs import BIN, CLUSTER, ROOT, Rows, cifar10_part, expect_known, make_parser, metrics, obstacle, run_main, sets, words
from side_by_side import add_baselines, describe, environments

PARTS = ["compute", "throughput", "accuracy"]
RATES = ["100mbit", "1gbit"]
ACCURACY_MODEL, ACCURACY_RATE = "resnet20", "100mbit"
ACCURACY = {"ddp": ["plain", "powersgd"], "dragonn": ["dense", "topk", "gtopk", "dragonn"]}
# As shares of the epochs: those of configs/cifar10_resnet20.toml.
MILESTONES = 15 / 30, 25 / 30
# A run that takes longer hangs.
RUN_SECONDS = 1800


def config_of(model):
    return ROOT / "configs" / f"cifar10_{model}.toml"


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--parts", type=words, default=PARTS, help=",".join(PARTS))
    parser.add_argument("--models", type=words, default=["resnet20", "vgg16"], help="of configs/cifar10_MODEL.toml")
    parser.add_argument("--rates", type=words, default=RATES)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--hooks", type=words, default=["plain", "fp16", "powersgd"], help="of DDP")
    parser.add_argument("--methods", type=words, default=["dense", "topk", "gtopk", "dragonn", "oktopk"], help="of dragonn")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--batch", type=int, default=32, help="per rank")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="measured in a round, one a window; default: by model and rate")
    parser.add_argument("--epochs", type=int, default=5, help="of the part accuracy")
    parser.add_argument("--test-limit", type=int, default=2000, help="test images of the part accuracy")
    parser.add_argument("--target", type=float, default=0.9, help="share of plain DDP's last accuracy to reach")
    parser.add_argument("--compile", action="store_true", help="torch.compile for DDP, too")
    add_baselines(parser)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no other run after that")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "peers.json")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    expect_known(parser, "parts", options.parts, PARTS)
    for model in options.models:
        if not config_of(model).is_file():
            parser.error(f"--models: no '{model}': there is no configs/cifar10_{model}.toml")
    if options.table and not options.json.is_file():
        parser.error(f"--json {options.json}: no such file")
    if not options.table and not (options.bin / "dragonn-train").is_file():
        parser.error(f"--bin {options.bin}: no dragonn-train there")
    return options


def jobs(options, has_data):
    """All of them, in the order in which they run: round by round. A job is a start of one of the programs: a row, as far as
    it identifies what is measured, for each method."""
    modes = list(itertools.product([False, True], environments(options)))  # of PyTorch
    of_ddp = [mode for mode in modes if options.compile or not mode[0]]

    def job(part, side, methods, model, rate, number=1, mode=(False, None)):
        return [{"part": part, "side": side, "method": method, "model": model, "rate": rate,
                 "ranks": options.hosts if rate else 1, "batch": options.batch,
                 "density": options.density if side == "dragonn" and method not in ("dense", "alone") else None,
                 "compile": mode[0], "baseline": mode[1], "round": number,
                 "length": options.epochs if part == "accuracy" else None} for method in methods]

    for number, part, model in itertools.product(range(1, options.rounds + 1), ["compute", "throughput"], options.models):
        if part == "compute" and part in options.parts:
            yield job(part, "dragonn", ["alone"], model, None, number)
            yield from (job(part, "ddp", ["none"], model, None, number, mode) for mode in modes)
        for rate in options.rates if part == "throughput" and part in options.parts else []:
            yield from (job(part, "ddp", options.hooks, model, rate, number, mode) for mode in of_ddp)
            yield from (job(part, "dragonn", [method], model, rate, number) for method in options.methods)
    if "accuracy" in options.parts and has_data:
        for side, methods, all_modes in (("ddp", options.hooks, of_ddp), ("dragonn", options.methods, [(False, None)])):
            yield from (job("accuracy", side, [method], ACCURACY_MODEL, ACCURACY_RATE, mode=mode)
                        for method in ACCURACY[side] if method in methods for mode in all_modes)


class Bench:
    """Starts the programs, and makes rows of what they report."""

    def __init__(self, options, folder, data):
        self.options, self.folder, self.data = options, folder, data
        self.environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.milestones = [round(share * options.epochs) for share in MILESTONES]

    def measure(self, rows):
        job, methods = rows[0], [row["method"] for row in rows]
        print(f"compare: round {job['round']}: {job['part']} {job['model']} {job['rate'] or ''} {job['side']} {','.join(methods)}"
              f"{' compiled' if job['compile'] else ''} {job['baseline'] or ''}", file=sys.stderr)
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        (self.folder / "run").mkdir()
        return self.ddp(job, methods) if job["side"] == "ddp" else self.dragonn(job)

    def steps(self, job):
        """(warm-up, measured steps, steps of a window). A dense step of VGG-16 at 100 Mbit/s takes ten seconds."""
        if self.options.steps:
            return 1, self.options.steps, 1
        if job["model"] == "resnet20":
            return 5, 15, 5
        return (1, 3, 1) if job["rate"] == "100mbit" else (1, 4, 1)

    def run(self, job, command):
        cluster = [CLUSTER, "run", self.options.hosts, job["rate"], "--"] if job["rate"] else []
        # By a command of its own: mpirun does not pass every variable on.
        variables = [f"{key}={value}" for key, value in environments(self.options).get(job["baseline"], {}).items()]
        with open(self.folder / "log.txt", "w+", encoding="utf-8") as log:
            done = subprocess.run([*map(str, [*cluster, "env", *variables, *command])], env=self.environment, cwd=ROOT,
                                  stdout=log, stderr=log, timeout=RUN_SECONDS, check=False)
            if done.returncode != 0:
                log.seek(0)
                raise RuntimeError("".join(log.readlines()[-20:]) + f"exit code {done.returncode}")

    def ddp(self, job, methods):
        warmup, steps, window = self.steps(job)
        output = self.folder / "run" / "ddp.json"
        command = [sys.executable, HERE / "ddp.py", "--config", config_of(job["model"]), "--hooks", ",".join(methods), "--batch",
                   self.options.batch, "--output", output, *(["--data", self.data] if self.data else []),
                   *(["--compile"] if job["compile"] else [])]
        if job["part"] == "accuracy":
            command += ["--epochs", self.options.epochs, "--milestones", ",".join(map(str, self.milestones)), "--test-limit",
                        self.options.test_limit]
        else:
            command += ["--steps", steps, "--warmup", warmup]
        self.run(job, command)
        for report in json.loads(output.read_text()):
            if seconds := report.get("step_seconds"):
                report["step_seconds"] = [sum(seconds[at : at + window]) / window for at in range(0, steps, window)]
            yield {key: report[key] for key in ("torch", "epochs", "step_seconds", "sent_per_step") if key in report}

    def dragonn(self, job):
        warmup, steps, window = self.steps(job)
        folder, counts = self.folder / "run" / "dragonn", self.folder / "run" / "sent"
        command = [self.options.bin / "dragonn-train", config_of(job["model"]), "--output", folder, *sets(self.settings(job))]
        command += [] if job["rate"] else ["--workers", 1]
        if job["part"] == "throughput":
            command = [sys.executable, HERE / "interface_bytes.py", "--run", folder, "--from-step", warmup, "--to-step",
                       warmup + steps, "--output", counts, "--", *command]
        self.run(job, command)
        if job["part"] == "accuracy":
            return [{"epochs": tables.training_epochs(metrics(folder))}]
        times = [line["time"] for line in metrics(folder, "step") if line["step"] >= warmup]
        windows = [(after - before) / window for before, after in zip(times, times[1:])]
        return [{"step_seconds": windows, "sent_per_step": self.sent(counts) if job["part"] == "throughput" else 0.0}]

    def settings(self, job):
        options, method = self.options, job["method"]
        settings = {"compression.method": "dense" if method == "alone" else method, "compression.bucket": "model",
                    "compression.density": options.density, "compression.density_schedule": "constant",
                    "train.batch_size": options.batch, "checkpoint.every_epochs": 0}
        settings |= {"data.path": self.data, "data.test_limit": 128} if self.data else {
            "data.name": "synthetic_images", "data.train_samples": 1024, "data.test_samples": 128, "data.augment": "true"}
        if job["part"] == "accuracy":
            images = sum(file.stat().st_size for file in self.data.glob("data_batch_*.bin")) // 3073
            return settings | {
                "train.epochs": options.epochs, "schedule.milestones": self.milestones,
                "data.test_limit": options.test_limit, "logging.every_steps": images // (options.hosts * options.batch)}
        warmup, steps, window = self.steps(job)
        return settings | {"train.max_steps": warmup + steps, "logging.every_steps": window, "train.eval_every_epochs": 0}

    def sent(self, counts):
        """Bytes by a host's interface per step, mean over the hosts."""
        hosts = [json.loads(file.read_text()) for file in counts.parent.glob(f"{counts.name}.*")]
        between = [{key: values[1] - values[0] for key, values in host.items()} for host in hosts]
        if any(host["step"] <= 0 for host in between):
            raise RuntimeError(f"{counts.name}: an interface was not read at two steps")
        return statistics.mean(host["bytes"] / host["step"] for host in between)


def measure(options, rows, folder):
    """Adds what is missing to the rows, and returns how many jobs are left."""
    data = cifar10_part(folder) if os.environ.get("DRAGONN_DATA") else None
    if data is None and "accuracy" in options.parts:
        print("compare: no part accuracy: DRAGONN_DATA is not set", file=sys.stderr)
    bench, end, left = Bench(options, folder, data), time.monotonic() + 60 * options.minutes, 0
    for job in jobs(options, data is not None):
        missing = [row for row in job if not rows.has(row)]
        if not missing:
            continue
        if time.monotonic() >= end:
            left += 1
            continue
        try:
            rows.add([row | measured for row, measured in zip(missing, bench.measure(missing), strict=True)])
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            left += 1
            print(f"compare: failed: {error}", file=sys.stderr)
    return left


def main():
    options = parse_arguments()
    rows, left = Rows(options.json), 0
    if not options.table:
        if reason := obstacle("numpy, torch"):
            print(f"skipped: {reason}", file=sys.stderr)
            return 77
        with tempfile.TemporaryDirectory() as folder:
            left = measure(options, rows, pathlib.Path(folder))
    print("\n".join(tables.report(rows, options.target, describe(environments(options)))))
    if left:
        print(f"compare: {left} runs are not there; the same command goes on", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    run_main(main, 2, json.JSONDecodeError)
