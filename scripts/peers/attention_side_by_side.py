#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures attention of dragonn beside PyTorch's scaled_dot_product_attention, on this machine's processors.

    scripts/peers/attention_side_by_side.py                             # 128, 512 and 1,024 steps at 1 and 2 threads
    scripts/peers/attention_side_by_side.py --steps 2048 --threads 2

Both begin with queries, keys and values as one linear layer writes them, [batch, steps, 3, heads, width / heads], end with
[batch, steps, width], and backward with the gradient of what they began with. There are 1,024 steps in a batch, or one sample. Both
take their turn, round by round; the table has medians, in milliseconds. A ratio above 1 means that dragonn is faster.

Run it on a quiet machine; build dragonn-bench before (scripts/test.sh).
Exit code: 0 done, 1 a run failed, 2 bad usage, 77 PyTorch is not installed.
"""
import json
import pathlib
import statistics
import sys
import time

from side_by_side import bench_rows, finish_parse, make_parser

STEPS_OF_BATCH = 1024


def parse():
    parser = make_parser(__doc__)
    parser.add_argument("--steps", default="128,512,1024", help="lengths of the samples")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=10, help="passes in each round")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows as a JSON array")
    options = finish_parse(parser, ["steps", "threads"])
    if min(options.width, options.heads, options.repeats) < 1 or options.width % options.heads:
        parser.error("--width, --heads, --repeats: expected numbers above 0; the heads must divide the width")
    return options


def dragonn_times(options, batch, steps, threads):
    """The milliseconds of forward and backward of the attention layer of a transformer of one block."""
    settings = {"layers": 1, "hidden": options.width, "heads": options.heads, "max_steps": steps, "dropout": 0}
    arguments = ["step", "--profile", "--model", "bert", "--classes", 64, "--batch", batch, "--sample", steps]
    arguments += ["--threads", threads, "--rounds", options.repeats]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    rows = [row for row in bench_rows(options, *arguments) if row["layer_kind"].startswith("attention")]
    return [next(row["milliseconds"] for row in rows if row["pass"] == name) for name in ("forward", "backward")]


def pytorch_times(options, batch, steps, threads):
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    width, heads = options.width, options.heads
    projected = torch.randn(batch, steps, 3 * width, requires_grad=True)
    gradient = torch.randn(batch, steps, width)
    times = [[], []]
    for _ in range(options.repeats + 2):
        projected.grad = None
        begin = time.perf_counter()
        queries, keys, values = projected.view(batch, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        result = F.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).reshape(batch, steps, width)
        middle = time.perf_counter()
        result.backward(gradient)
        times[0].append(middle - begin)
        times[1].append(time.perf_counter() - middle)
    return [1e3 * statistics.median(part[2:]) for part in times]


def compare(options, steps, threads):
    batch = max(1, STEPS_OF_BATCH // steps)
    rounds = {"dragonn": [], "pytorch": []}
    for _ in range(options.rounds):
        rounds["dragonn"].append(dragonn_times(options, batch, steps, threads))
        rounds["pytorch"].append(pytorch_times(options, batch, steps, threads))
    row = {"steps": steps, "batch": batch, "heads": options.heads, "width": options.width, "threads": threads}
    for name, times in rounds.items():
        row[f"{name}_forward"], row[f"{name}_backward"] = map(statistics.median, zip(*times))
    both = [row[f"{name}_forward"] + row[f"{name}_backward"] for name in ("pytorch", "dragonn")]
    return row | {"ratio": both[0] / both[1]}


COLUMNS = ["steps", "batch", "threads", "dragonn_forward", "dragonn_backward", "pytorch_forward", "pytorch_backward", "ratio"]


def main():
    options = parse()
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    print("| " + " | ".join(name.replace("_", ", ") for name in COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    rows = []
    for steps in options.steps:
        for threads in options.threads:
            rows.append(compare(options, steps, threads))
            values = [rows[-1][name] for name in COLUMNS]
            cells = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
            print("| " + " | ".join(cells) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps([row | {"torch": torch.__version__} for row in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
