#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains in a plain loop of PyTorch, without DDP: dragonn averages the gradients while backward computes them.

    torchrun --nproc-per-node 4 examples/pytorch_exchange.py --steps 50

Each gradient begins to travel when it is there, by a hook of its parameter, and the loop waits for all ahead of the
optimizer's step. --blocking exchanges all of them behind backward instead, with the same bits.

Rank 0 prints a line of JSON: first and last loss, bytes that a rank sends in a step, and a hash of the parameters.
Exit code: 0 done, 1 failed, 77 PyTorch is missing.
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
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python"))  # unless it is installed
import dragonn

CONFIG = 'compression = { method = "topk", density = 0.01, codec = { indices = "rice", values = "int8" } }'


def overlap(exchange, parameters):
    """Lets every gradient begin to travel when backward has it, as it does from the last parameter to the first."""
    exchange.set_parts(list(reversed(range(len(parameters)))))
    for place, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda parameter, place=place: exchange.begin({place: parameter.grad}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--blocking", action="store_true", help="exchange behind backward")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")  # for the rendezvous alone
    rank = dist.get_rank()
    torch.manual_seed(1)  # the same first parameters on every rank
    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    parameters, losses = list(network.parameters()), []
    tensors = [(name, tuple(parameter.shape)) for name, parameter in network.named_parameters()]
    optimizer = torch.optim.Adam(parameters)
    with dragonn.Exchange(tensors, CONFIG, rendezvous=dragonn.rendezvous()) as exchange:
        if not options.blocking:
            overlap(exchange, parameters)
        generator = torch.Generator().manual_seed(rank)
        for _ in range(options.steps):
            inputs = torch.randn((16, 64), generator=generator)
            labels = (inputs[:, :32].sum(1) > inputs[:, 32:].sum(1)).long()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(inputs), labels)
            loss.backward()
            if options.blocking:
                exchange.exchange([parameter.grad for parameter in parameters])
            else:
                exchange.wait()
            optimizer.step()
            losses.append(loss.item())
        sent = exchange.statistics()["bytes_sent"]
    if rank == 0:
        bits = b"".join(bytes(value.detach().contiguous().view(torch.uint8).flatten().tolist()) for value in parameters)
        print(json.dumps({"loss": [losses[0], losses[-1]], "bytes_per_step": sent,
                          "parameters_hash": hashlib.sha256(bits).hexdigest()[:16]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (dragonn.DragonnError, RuntimeError) as error:
        print(f"rank {os.environ['RANK']}: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # the other ranks are not waited for
