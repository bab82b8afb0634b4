#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures training steps of dragonn and of PyTorch on this machine's processors, side by side.

    scripts/peers/step_side_by_side.py --models lstm_lm_256,mlp --threads 1    # if not given: all models at 1 and 2 threads
    scripts/peers/step_side_by_side.py --json steps.json --table steps.md      # again after a stop: goes on behind the last row

A step is forward, loss, backward and a plain update of all parameters. PyTorch runs the same model (scripts/pytorch_models.py;
the numbers of parameters must agree) eagerly, with channels last where there are images, and compiled; what takes more than 1.3
times as long as the fastest in the first round drops out. A ratio above 1 means that dragonn is faster. Peak memory is that of a
process above what it held before it made the model, the least of PyTorch's. `load` is how many threads ran or waited beside the
row, one minute's mean.
"""
import contextlib
import itertools
import math
import statistics
import subprocess
import sys
import time

from side_by_side import (HERE, bench_rows, finish_parse, make_parser, median_seconds, medians_of, pytorch_peers, run,
                          take_turns, words)
from runs import run_main

# The options of dragonn-bench step.
MODELS = {
    "resnet20_32": "--model resnet20 --batch 32",
    "resnet20_128": "--model resnet20 --batch 128",
    "vgg16_32": "--model vgg16 --batch 32",
    "vgg16_128": "--model vgg16 --batch 128",
    "resnet50_8": "--model resnet50 --batch 8 --set stem=imagenet --sample 224x224x3 --classes 1000",
    "alexnet_32": "--model alexnet --batch 32 --sample 224x224x3 --classes 1000",
    "mlp": "--model mlp --batch 128 --sample 28x28x1",
    "lstm_lm_256": "--model lstm_lm --batch 20 --set hidden=256",
    "lstm_lm_650": "--model lstm_lm --batch 20 --set hidden=650",
    "lstm_lm_1500": "--model lstm_lm --batch 20 --set hidden=1500",
    "lstm_speech": "--model lstm_speech --batch 4",
    "xml_linear": "--model xml_linear --batch 256",
    "bert_4x256": "--model bert --batch 8 --sample 128 --set layers=4 --set hidden=256 --set heads=4",
    "bert_12x768": "--model bert --batch 2 --sample 128 --set layers=12 --set hidden=768 --set heads=12",
    "gpt2_124m": "--model gpt2 --batch 4 --sample 256 --classes 50257 --set dropout=0.0 --recompute elementwise",
    "vit": "--model vit --batch 32",
}
VARIANTS = ["eager", "compile", "eager_channels_last", "compile_channels_last"]
# A peer that takes so many times as long as the fastest in the first round has no further turns.
HOPELESS = 1.3
COLUMNS = {
    "model": "model", "threads": "threads", "dragonn_samples_per_second": "dragonn, samples/s",
    "pytorch_samples_per_second": "PyTorch's best", "pytorch_variant": "which", "ratio": "ratio", "of_gemm": "of GEMM",
    "dragonn_bytes": "dragonn, MB", "pytorch_bytes": "PyTorch, MB", "load": "load",
}


def parse():
    parser = make_parser(__doc__)
    parser.add_argument("--models", type=words, default=list(MODELS), help=",".join(MODELS))
    parser.add_argument("--variants", type=words, default=VARIANTS, help="of PyTorch: " + ",".join(VARIANTS))
    parser.add_argument("--seconds", type=float, default=3, help="about the time of each turn")
    return finish_parse(parser, models=MODELS, variants=VARIANTS)


def dragonn_memory(bench, model, threads):
    """What a step holds: the peak above that of a process that does next to nothing."""
    nothing = "--model mlp --batch 1 --sample 1 --set hidden=[1] --classes 2"
    peaks = [peak_memory([bench, "step", *options.split(), "--threads", str(threads), "--product-side", "1", "--rounds", "1"])
             for options in (MODELS[model], nothing)]
    return max(0, peaks[0] - peaks[1])


def peak_memory(command):
    """The peak of a process, in bytes. What wait4 tells counts the process that it was started by, too."""
    process, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0
    while process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):  # it has just ended
            peak = max(peak, memory_of(process.pid, "VmHWM"))
        time.sleep(0.005)
    return peak


def memory_of(process, what):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what + ":"))


def prepare(variant, row):
    """PyTorch's model: answers with the median of steps in so many seconds."""
    sys.path.insert(0, str(HERE.parent / "gpu"))
    import pytorch_rows
    import torch

    torch.set_num_threads(row["threads"])
    before = memory_of("self", "VmRSS")
    try:
        step = pytorch_rows.Step(row, torch.device("cpu"), variant)
        for _ in range(3):
            step.run()
    except Exception as error:  # a variant that PyTorch cannot run here
        return {"note": f"{type(error).__name__}: {pytorch_rows.first_line(error)}"}, None
    found = {"memory": memory_of("self", "VmHWM") - before, "torch": torch.__version__}
    return found, lambda turn: median_seconds(step.run, turn)


def cases(options):
    for model, threads in itertools.product(options.models, options.threads):
        yield {"model": model, "threads": threads}


def compare(options, case):
    model, threads = case["model"], case["threads"]

    def measured(rounds):
        return bench_rows(options, "step", *MODELS[model].split(), "--threads", threads, "--rounds", rounds)[0]

    row, of_gemm = measured(1), []
    # A turn of dragonn-bench is rounds of about the time of one large product, or of one step if that takes longer.
    turn = max(row["seconds_median"], 2e-9 * 2048**3 / row["gemm_gflops"])
    rounds = max(1, round(options.seconds / turn))
    # Channels can only be last where there are images.
    images = row["model"].startswith(("resnet", "vgg", "alexnet"))
    peers = pytorch_peers(options, row, [name for name in options.variants if images or not name.endswith("channels_last")])

    def own():
        found = measured(rounds)
        of_gemm.append(found["of_gemm"])
        return found["seconds_median"]

    seconds = take_turns(options.rounds, own, peers, options.seconds, HOPELESS)
    ours, medians = medians_of(seconds, options.rounds)
    best = min(medians, key=medians.get, default=None)
    return {
        "batch": row["batch"], "parameters": row["parameters"], "dragonn_samples_per_second": row["batch"] / ours,
        "of_gemm": statistics.median(of_gemm),
        "pytorch_samples_per_second": row["batch"] / medians[best] if best else None, "pytorch_variant": best,
        "ratio": medians[best] / ours if best else None, "dragonn_bytes": dragonn_memory(options.bench, model, threads),
        "pytorch_bytes": min((peer.found["memory"] for peer in peers), default=None), "seconds": seconds,
        "torch": next((peer.found["torch"] for peer in peers), None),
    }


def summary(rows):
    """The means over all rows."""
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if ratios:
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        yield f"Geometric mean of {len(ratios)} ratios: {mean:.2f}; least: {min(ratios):.2f}"
    more = [row["model"] for row in rows if row["pytorch_bytes"] and row["dragonn_bytes"] > row["pytorch_bytes"]]
    yield "Peak memory above PyTorch's: " + (", ".join(dict.fromkeys(more)) or "none")


if __name__ == "__main__":
    run_main(lambda: run(prepare, parse, cases, compare, COLUMNS, summary=summary))
