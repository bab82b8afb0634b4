#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains with PyTorch DDP and dragonn's hook, and goes on where it was when torchrun starts its processes again.

    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nproc-per-node 4 --max-restarts 3 \\
      examples/pytorch_restart.py --folder saved --steps 200

Every --every steps each rank saves model, optimizer and the hook's error feedback. When a process dies, backward() of the
others raises an error that names it; all end, and torchrun starts them again. They take the newest step that every rank has
saved, and training ends with the bits of a run in which nobody died. The variable is PyTorch's: without it the processes of a
restart may find the addresses of the ones before in a store that both share (github.com/pytorch/pytorch/issues/135712).

Rank 0 prints a line of JSON: steps, the last loss, and a hash of the parameters. Exit code: 0 done, 1 failed, 77 PyTorch is
missing.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")  # of PyTorch, about NumPy
try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python"))  # unless it is installed
import dragonn

CONFIG = """
[optimizer]
momentum = 0.9
[compression]
method = "dgc"
density = 0.01
"""


class Checkpoints:
    """Each rank's newest two files. Ranks are in the same step, so one of the two is on every rank, whenever one has died."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def path(self, step):
        return self.folder / f"rank{dist.get_rank()}-step{step}.pt"

    def steps(self):
        return sorted(int(path.stem.rpartition("step")[2]) for path in self.folder.glob(self.path("*").name))

    def save(self, step, state):
        partial = self.path(step).with_suffix(".part")
        torch.save(state, partial)
        os.replace(partial, self.path(step))  # whole at every moment
        for old in self.steps()[:-2]:
            self.path(old).unlink()

    def newest(self):
        """The newest step that every rank has, and this rank's state; 0 and None where there is none."""
        all_steps = [None] * dist.get_world_size()
        dist.all_gather_object(all_steps, self.steps())
        step = max(set.intersection(*map(set, all_steps)), default=0)
        return step, torch.load(self.path(step), weights_only=True) if step else None


def batch(step):
    """This rank's samples of a step: which half of the inputs is the larger one."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    inputs = torch.randn((16, 64), generator=generator)
    return inputs, (inputs[:, :32].sum(1) > inputs[:, 32:].sum(1)).long()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for checkpoints; each rank needs its own files again")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2)))
    hook = dragonn.DdpHook(model, CONFIG)
    optimizer = torch.optim.SGD(hook.parameter_groups(momentum=0.9), lr=0.05, momentum=0.9)
    parts = {"model": model.module, "optimizer": optimizer, "hook": hook}
    checkpoints = Checkpoints(options.folder)
    first, states = checkpoints.newest()
    for name, part in parts.items() if states else ():
        part.load_state_dict(states[name])
    if states and dist.get_rank() == 0:
        print(f"goes on after step {first}", file=sys.stderr, flush=True)
    loss = torch.zeros(())
    for step in range(first + 1, options.steps + 1):
        inputs, labels = batch(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % options.every == 0:
            checkpoints.save(step, {name: part.state_dict() for name, part in parts.items()})
    hook.exchange.close()
    if dist.get_rank() == 0:
        bits = b"".join(bytes(value.detach().contiguous().view(torch.uint8).flatten().tolist()) for value in model.parameters())
        print(json.dumps({"steps": options.steps, "loss": loss.item(), "parameters_hash": hashlib.sha256(bits).hexdigest()[:16]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (dragonn.DragonnError, RuntimeError, OSError) as error:
        print(f"rank {os.environ['RANK']}: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # the other ranks are not waited for
