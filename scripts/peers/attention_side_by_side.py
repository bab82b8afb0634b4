#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures attention of dragonn beside PyTorch's scaled_dot_product_attention, on this machine's processors.

    scripts/peers/attention_side_by_side.py                             # 128, 512 and 1,024 steps at 1 and 2 threads
    scripts/peers/attention_side_by_side.py --steps 2048 --threads 2

Both begin with queries, keys and values as one linear layer writes them, [batch, steps, 3, heads, width / heads], end with
[batch, steps, width], and backward with the gradient of what they began with. There are 1,024 steps in a batch, or one sample.
PyTorch runs in the environments of scripts/peers/baselines.py. All take their turn, round by round; the table has medians, in
milliseconds, and PyTorch's faster one. A ratio above 1 means that dragonn is faster.

Run it on a quiet machine; build dragonn-bench before (scripts/test.sh).
Exit code: 0 done, 1 a run failed, 2 bad usage, 77 PyTorch is not installed.
"""
import json
import pathlib
import statistics
import sys
import time

import baselines
from side_by_side import WORKER, PeerProcess, bench_rows, finish_parse, make_parser, serve, skip_without

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
    baselines.add_option(parser)
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


def pytorch_times(question):
    """The milliseconds of forward and backward, and PyTorch's version."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(question["threads"])
    batch, steps, width, heads = (question[key] for key in ("batch", "steps", "width", "heads"))
    projected = torch.randn(batch, steps, 3 * width, requires_grad=True)
    gradient = torch.randn(batch, steps, width)
    times = [[], []]
    for _ in range(question["repeats"] + 2):
        projected.grad = None
        begin = time.perf_counter()
        queries, keys, values = projected.view(batch, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        result = F.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).reshape(batch, steps, width)
        middle = time.perf_counter()
        result.backward(gradient)
        times[0].append(middle - begin)
        times[1].append(time.perf_counter() - middle)
    return {"times": [1e3 * statistics.median(part[2:]) for part in times], "torch": torch.__version__}


def compare(options, peers, steps, threads):
    row = {"steps": steps, "batch": max(1, STEPS_OF_BATCH // steps), "heads": options.heads, "width": options.width,
           "threads": threads}
    rounds = {}
    for _ in range(options.rounds):
        rounds.setdefault("dragonn", []).append(dragonn_times(options, row["batch"], steps, threads))
        for peer in peers:
            found = peer.ask(row | {"repeats": options.repeats})
            rounds.setdefault(peer.name, []).append(found["times"])
            row["torch"] = found["torch"]
    medians = {name: [statistics.median(part) for part in zip(*times)] for name, times in rounds.items()}
    own = medians.pop("dragonn")
    best = min(medians, key=lambda name: sum(medians[name]))
    for name, times in (("dragonn", own), ("pytorch", medians[best])):
        row[f"{name}_forward"], row[f"{name}_backward"] = times
    return row | {"baseline": best, "ratio": sum(medians[best]) / sum(own)}


COLUMNS = ["steps", "batch", "threads", "dragonn_forward", "dragonn_backward", "pytorch_forward", "pytorch_backward", "baseline",
           "ratio"]


def main():
    if sys.argv[1:2] == [WORKER]:
        return serve(pytorch_times)
    options = parse()
    skip_without("torch")
    peers = [PeerProcess(name, environment) for name, environment in baselines.environments(options).items()]
    print("\n".join(baselines.describe(baselines.environments(options))) + "\n")
    print("| " + " | ".join(name.replace("_", ", ") for name in COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    rows = []
    for steps in options.steps:
        for threads in options.threads:
            rows.append(compare(options, peers, steps, threads))
            values = [rows[-1][name] for name in COLUMNS]
            cells = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
            print("| " + " | ".join(cells) + " |", flush=True)
    for peer in peers:
        peer.close()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
