#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the memory that `dragonn-train --dry-run` predicts against the peak of the process that trains.

Usage: scripts/memory_table.py [--bin build/release/bin] [--only NAME]...

Prints a row for each config: predicted for all workers, measured (largest resident set, without that of the program with
the smallest model and one worker), their ratio. Each run has some steps, an evaluation and a checkpoint. Exit code 1 if a
ratio is off by more than 10 %.
"""
import os
import pathlib
import re
import subprocess
import tempfile

from runs import BIN, make_parser, output_of, run_main, sets, table_head, table_line

TOLERANCE = 0.10
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
COMMON = ["data.name=synthetic_images", "train.epochs=1", "train.max_steps=4", "optimizer.name=sgd",
          "optimizer.learning_rate=0.01", "checkpoint.every_steps=2", "logging.every_steps=1", "data.classes=10"]
SMALL = ["data.height=2", "data.width=2", "data.channels=1", "model.name=mlp", "model.hidden=[2]", "data.train_samples=64",
         "data.test_samples=8", "train.batch_size=2", "train.eval_batch_size=2"]


def images(model, batch, test_samples):
    return [f"model.name={model}", "data.height=32", "data.width=32", "data.channels=3", "data.train_samples=512",
            f"data.test_samples={test_samples}", f"train.batch_size={batch}", f"train.eval_batch_size={batch}"]


LARGE, WIDE = ([*images("mlp", 16, 32), f"model.hidden=[{units}, {units}]"] for units in (2048, 1024))
FOUR_BITS = ["compression.codec.values=int4"]
DSA = ["compression.collective=dsa", "compression.dsa.switch=1"]
CONFIGS = {  # name: (workers, method, other settings)
    "mlp, one worker": (1, "dense", LARGE),
    "mlp, adam": (1, "dense", [*LARGE, "optimizer.name=adam"]),
    **{f"mlp, {method}": (8 if method == "dgc" else 4, method, WIDE)
       for method in ("dense", "topk", "dgc", "gtopk", "oktopk", "signsgd")},
    **{f"mlp, {method}, density 0.8 in 4 bits": (4, method, [*WIDE, "compression.density=0.8", *FOUR_BITS, *more])
       for method, more in (("topk", DSA), ("dgc", DSA), ("oktopk", []))},
    "resnet20, topk": (2, "topk", images("resnet20", 64, 64)),
    "vgg16, topk": (1, "topk", images("vgg16", 16, 16)),
    "vit, dgc": (2, "dgc", images("vit", 32, 32)),
}


def command_of(options, settings, workers, *more):
    return list(map(str, [options.bin / "dragonn-train", options.config, *sets(COMMON + settings), "--workers", workers, *more]))


def predicted(options, settings, workers):
    text = output_of(command_of(options, settings, workers, "--dry-run"))
    kinds = dict(re.findall(r"^  (\S.*?)  +([\d.]+ [kMG]?B)$", text.split("memory per worker")[1].split("exchange:")[0], re.M))
    total = re.search(r"^  total .*\(\d+ workers: ([\d.]+) (\w+)[,)]", text, re.M)
    return float(total[1]) * UNITS[total[2]], kinds


def measured(options, settings, workers):
    process = subprocess.Popen(command_of(options, settings, workers, "--output", options.config.parent / "run"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(text)
    return usage.ru_maxrss * 1024


def main(folder):
    parser = make_parser(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--kinds", action="store_true", help="also print the kinds of memory of each prediction")
    options = parser.parse_args()
    options.config = pathlib.Path(folder) / "empty.toml"
    options.config.touch()
    base = measured(options, SMALL + ["compression.method=dense"], 1)
    print(f"base: {base / 1e6:.1f} MB, of a model of 14 parameters\n")
    print(table_head(["config", "workers", "predicted, MB", "measured, MB", "measured / predicted"]))
    wrong = False
    for name, (workers, method, settings) in CONFIGS.items():
        if options.only and name not in options.only:
            continue
        settings = [*settings, f"compression.method={method}"]
        expected, kinds = predicted(options, settings, workers)
        peak = measured(options, settings, workers) - base
        wrong = wrong or abs(peak / expected - 1) > TOLERANCE
        print(table_line([name, workers, f"{expected / 1e6:.1f}", f"{peak / 1e6:.1f}", f"{peak / expected:.2f}"]), flush=True)
        if options.kinds:
            print("  ", kinds)
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_main(lambda: main(work))
