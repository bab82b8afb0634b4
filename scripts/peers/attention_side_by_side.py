#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures attention of dragonn beside PyTorch's scaled_dot_product_attention, on this machine's processors.

    scripts/peers/attention_side_by_side.py                             # 128, 512 and 1,024 steps at 1 and 2 threads
    scripts/peers/attention_side_by_side.py --steps 2048 --threads 2

Both begin with queries, keys and values as one linear layer writes them, [batch, steps, 3, heads, width / heads], end with
[batch, steps, width], and backward with the gradient of what they began with. There are 1,024 steps in a batch, or one sample.
The table has milliseconds. A ratio above 1 means that dragonn is faster.
"""
import itertools
import statistics
import time

from side_by_side import OWN, bench_rows, finish_parse, make_parser, pytorch_peers, run, take_turns, words
from runs import run_main, sets

STEPS_OF_BATCH = 1024
COLUMNS = ["steps", "batch", "threads", "dragonn_forward", "dragonn_backward", "pytorch_forward", "pytorch_backward", "baseline",
           "ratio"]


def parse():
    parser = make_parser(__doc__)
    parser.add_argument("--steps", type=words, default=["128", "512", "1024"], help="lengths of the samples")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=10, help="passes in each round")
    options = finish_parse(parser, ["steps"])
    if min(options.width, options.heads, options.repeats) < 1 or options.width % options.heads:
        parser.error("--width, --heads, --repeats: expected numbers above 0; the heads must divide the width")
    return options


def dragonn_times(options, case):
    """The milliseconds of forward and backward of the attention layer of a transformer of one block."""
    settings = {"layers": 1, "hidden": options.width, "heads": options.heads, "max_steps": case["steps"], "dropout": 0}
    rows = bench_rows(options, "step", "--profile", "--model", "bert", "--classes", 64, "--batch", case["batch"], "--sample",
                      case["steps"], "--threads", case["threads"], "--rounds", options.repeats, *sets(settings))
    times = {row["pass"]: row["milliseconds"] for row in reversed(rows) if row["layer_kind"].startswith("attention")}
    return [times["forward"], times["backward"]]


def prepare(_kind, case):
    """PyTorch: answers with the milliseconds of forward and backward."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(case["threads"])
    batch, steps, width, heads = (case[key] for key in ("batch", "steps", "width", "heads"))
    projected = torch.randn(batch, steps, 3 * width, requires_grad=True)
    gradient = torch.randn(batch, steps, width)

    def measure(repeats):
        times = [[], []]
        for _ in range(repeats + 2):
            projected.grad = None
            begin = time.perf_counter()
            queries, keys, values = projected.view(batch, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            result = F.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).reshape(batch, steps, width)
            middle = time.perf_counter()
            result.backward(gradient)
            times[0].append(middle - begin)
            times[1].append(time.perf_counter() - middle)
        return [1e3 * statistics.median(part[2:]) for part in times]

    return {"torch": torch.__version__}, measure


def cases(options):
    for steps, threads in itertools.product(options.steps, options.threads):
        yield {"steps": steps, "batch": max(1, STEPS_OF_BATCH // steps), "heads": options.heads, "width": options.width,
               "threads": threads}


def compare(options, case):
    peers = pytorch_peers(options, case)
    answers = take_turns(options.rounds, lambda: dragonn_times(options, case), peers, options.repeats)
    medians = {name: [statistics.median(part) for part in zip(*times)] for name, times in answers.items()}
    own = medians.pop(OWN)
    best = min(medians, key=lambda name: sum(medians[name]))
    row = {"torch": peers[0].found["torch"]}
    for name, times in (("dragonn", own), ("pytorch", medians[best])):
        row[f"{name}_forward"], row[f"{name}_backward"] = times
    return row | {"baseline": best, "ratio": sum(medians[best]) / sum(own)}


if __name__ == "__main__":
    run_main(lambda: run(prepare, parse, cases, compare, {name: name.replace("_", ", ") for name in COLUMNS}))
