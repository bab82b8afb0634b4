#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the memory that `dragonn-train --dry-run` predicts against the peak of the process that trains.

Usage: scripts/memory_table.py [--bin build/release/bin] [--only NAME]...

Prints a row for each config: predicted for all workers, measured (largest resident set, without that of the program with
the smallest model and one worker), their ratio. Each run has some steps, an evaluation and a checkpoint. Exit code 1 if a
ratio is off by more than 10 %.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from runs import BIN, output_of, sets, table_head, table_line

TOLERANCE = 0.10
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
COMMON = ["data.name=synthetic_images", "train.epochs=1", "train.max_steps=4", "optimizer.name=sgd",
          "optimizer.learning_rate=0.01", "checkpoint.every_steps=2", "logging.every_steps=1", "data.classes=10"]
SMALL = ["data.height=2", "data.width=2", "data.channels=1", "model.name=mlp", "model.hidden=[2]", "data.train_samples=64",
         "data.test_samples=8", "train.batch_size=2", "train.eval_batch_size=2"]


def mlp(hidden, batch=16):
    return ["model.name=mlp", f"model.hidden={hidden}", "data.height=32", "data.width=32", "data.channels=3",
            "data.train_samples=512", "data.test_samples=32", f"train.batch_size={batch}", "train.eval_batch_size=16"]


def images(model, batch, side=32):
    return [f"model.name={model}", f"data.height={side}", f"data.width={side}", "data.channels=3", "data.train_samples=512",
            f"data.test_samples={batch}", f"train.batch_size={batch}", f"train.eval_batch_size={batch}"]


CONFIGS = {  # name: (workers, settings)
    "mlp, one worker": (1, mlp("[2048, 2048]") + ["compression.method=dense"]),
    "mlp, adam": (1, mlp("[2048, 2048]") + ["compression.method=dense", "optimizer.name=adam"]),
    "mlp, dense": (4, mlp("[1024, 1024]") + ["compression.method=dense"]),
    "mlp, topk": (4, mlp("[1024, 1024]") + ["compression.method=topk"]),
    "mlp, dgc": (8, mlp("[1024, 1024]") + ["compression.method=dgc"]),
    "mlp, gtopk": (4, mlp("[1024, 1024]") + ["compression.method=gtopk"]),
    "mlp, oktopk": (4, mlp("[1024, 1024]") + ["compression.method=oktopk"]),
    "mlp, signsgd": (4, mlp("[1024, 1024]") + ["compression.method=signsgd"]),
    "resnet20, topk": (2, images("resnet20", 64) + ["compression.method=topk"]),
    "vgg16, topk": (1, images("vgg16", 16) + ["compression.method=topk"]),
    "vit, dgc": (2, images("vit", 32) + ["compression.method=dgc"]),
}


def in_bytes(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


class Program:
    def __init__(self, folder, program):
        self.folder, self.program = folder, program
        self.config = folder / "empty.toml"
        self.config.write_text("")

    def command(self, settings, workers, more):
        return [str(self.program), str(self.config), *sets(COMMON + settings), "--workers", str(workers), *more]

    def predicted(self, settings, workers):
        text = output_of(self.command(settings, workers, ["--dry-run"]))
        kinds = dict(re.findall(r"^  (\S.*?)  +([\d.]+ [kMG]?B)$", text.split("memory per worker")[1].split("exchange:")[0], re.M))
        total = re.search(r"^  total .*\(\d+ workers: ([\d.]+ \w+)[,)]", text, re.M)
        return in_bytes(total.group(1)), kinds

    def measured(self, settings, workers):
        process = subprocess.Popen(self.command(settings, workers, ["--output", str(self.folder / "run")]),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        text = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"memory_table: {text}")
        return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--kinds", action="store_true", help="also print the kinds of memory of each prediction")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        program = Program(pathlib.Path(folder), options.bin / "dragonn-train")
        base = program.measured(SMALL + ["compression.method=dense"], 1)
        print(f"base: {base / 1e6:.1f} MB, of a model of 14 parameters\n")
        print(table_head(["config", "workers", "predicted, MB", "measured, MB", "measured / predicted"]))
        for name, (workers, settings) in CONFIGS.items():
            if options.only and name not in options.only:
                continue
            expected, kinds = program.predicted(settings, workers)
            peak = program.measured(settings, workers) - base
            ratio = peak / expected
            wrong += abs(ratio - 1) > TOLERANCE
            print(table_line([name, workers, f"{expected / 1e6:.1f}", f"{peak / 1e6:.1f}", f"{ratio:.2f}"]), flush=True)
            if options.kinds:
                print("  ", kinds)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"memory_table: {error}")
