#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small model with PyTorch DDP and dragonn's hook for many steps, and checks that each rank's memory stays flat.

    torchrun --nproc-per-node 2 scripts/soak_ddp.py --steps 10000

Gradients travel in several buckets during backward. Every hundredth step one rank has NaN, and all skip it.
Exit code: 0 flat, 1 resident memory grew by more than --megabytes after the first fifth of the run, 77 PyTorch is missing.
"""
import argparse
import pathlib
import sys
import time
import warnings

warnings.filterwarnings("ignore")  # of PyTorch, about NumPy
try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python"))  # unless it is installed
import dragonn

CONFIG = '[compression]\nmethod = "topk"\ndensity = 0.05\ncodec = { indices = "rice", values = "int8" }\n'
SKIPPED_EVERY = 100


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--megabytes", type=float, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(30, 30) for _ in range(4))), bucket_cap_mb=0.005)
    hook = dragonn.DdpHook(model, CONFIG, non_finite="skip")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, settled, largest, begin = torch.randn(2, 30), 0, 0, time.monotonic()
    for step in range(1, options.steps + 1):
        bad = step % SKIPPED_EVERY == 0 and rank == step // SKIPPED_EVERY % dist.get_world_size()
        model(inputs * float("nan") if bad else inputs).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == options.steps // 5:
            settled = resident_bytes()
        largest = max(largest, resident_bytes()) if settled else 0
    grown, expected = (largest - settled) / 1e6, options.steps // SKIPPED_EVERY
    print(f"rank {rank}: {options.steps} steps, {1e3 * (time.monotonic() - begin) / options.steps:.2f} ms each: "
          f"{settled / 1e6:.1f} MB after a fifth, {grown:.2f} MB more at most", flush=True)
    exchanges = hook.exchange.statistics()["exchanges"]
    hook.exchange.close()
    dist.destroy_process_group()
    if hook.skipped != expected or exchanges != options.steps - expected:
        print(f"rank {rank}: {hook.skipped} steps skipped, {exchanges} exchanged: expected {expected} skipped", flush=True)
        return 1
    return 1 if grown > options.megabytes else 0


if __name__ == "__main__":
    sys.exit(main())
