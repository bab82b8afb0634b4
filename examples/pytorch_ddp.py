#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains ResNet-20 on CIFAR-10 with PyTorch DDP on the CPU; dragonn exchanges the gradients.

    mpirun -np 4 python3 examples/pytorch_ddp.py --variants plain,dense,dragonn --steps 20
    torchrun --nproc-per-node 4 examples/pytorch_ddp.py --variants dragonn --steps 100 --save DIR
    torchrun --nproc-per-node 4 examples/pytorch_ddp.py --variants dragonn --steps 200 --resume DIR
    scripts/netns_cluster.sh run 4 100mbit -- env MASTER_ADDR=198.18.0.1 GLOO_SOCKET_IFNAME=eth0 \\
      python3 examples/pytorch_ddp.py --variants dense,dragonn --rounds 5 --steps 4 --batch 4

A variant is `plain`, DDP with its own allreduce, or a method of dragonn (dense, topk, dgc, dragonn, ...). Each starts from
the same parameters and sees the same images. With --rounds the variants take turns, so that a busy machine slows all
alike; compare their ratio. The images are those of $DRAGONN_DATA/cifar10, or random ones where there are none.

Rank 0 prints a line of JSON for each variant: losses of the steps (mean over the ranks), seconds per step, bytes that a
rank sends per step, and a hash of the parameters. Exit code: 0 done, 1 failed, 2 bad usage, 77 PyTorch is not installed.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys
import time
import warnings

warnings.filterwarnings("ignore")  # of PyTorch, about NumPy and about options that other versions lack
try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python"))  # unless it is installed
import dragonn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.added = stride, outputs - inputs

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added)))


class ResNet20(nn.Module):
    """The paper's network for CIFAR-10 (arXiv:1512.03385, section 4.2) with `width` channels at first, 16 there."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        inputs, blocks = width, []
        for stage in range(3):
            for index in range(3):
                blocks.append(Block(inputs, width << stage, 2 if stage > 0 and index == 0 else 1))
                inputs = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.output(self.blocks(F.relu(self.bn(self.conv(x)))).mean((2, 3)))


def load_images():
    """Returns images, labels, and where they are from."""
    folder = pathlib.Path(os.environ.get("DRAGONN_DATA", "")) / "cifar10"
    files = sorted(folder.glob("data_batch_*.bin")) if "DRAGONN_DATA" in os.environ else []
    if not files:
        generator = torch.Generator().manual_seed(1)
        images = torch.randn((1024, 3, 32, 32), generator=generator)
        return images, torch.randint(0, 10, (1024,), generator=generator), "random images: DRAGONN_DATA has no cifar10"
    records = torch.cat([torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8) for path in files])
    records = records.view(-1, 1 + 3 * 32 * 32)
    images = (records[:, 1:].reshape(-1, 3, 32, 32).float() / 255 - 0.47) / 0.25
    return images, records[:, 0].long(), str(folder)


class Training:
    """One variant: its model, its optimizer and its hook."""

    def __init__(self, name, options, images, labels):
        self.name, self.options, self.images, self.labels = name, options, images, labels
        torch.manual_seed(options.seed)
        self.model = DistributedDataParallel(ResNet20(options.width))
        self.hook, self.step, self.losses, self.seconds, self.bytes = None, 0, [], 0.0, 0
        groups = list(self.model.parameters())
        if name != "plain":
            config = options.config.read_text() if options.config else (
                f"[optimizer]\nmomentum = {options.momentum}\n"
                f'[compression]\nmethod = "{name}"\ndensity = {options.density}\n')
            self.hook = dragonn.DdpHook(self.model, config)
            groups = self.hook.parameter_groups(options.momentum)
        self.optimizer = torch.optim.SGD(groups, lr=options.learning_rate, momentum=options.momentum)

    def run(self, steps):
        """Trains. Time counts from when all ranks are here until all are done."""
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            generator = torch.Generator().manual_seed(1000 * self.step + dist.get_rank())
            chosen = torch.randint(0, len(self.labels), (self.options.batch,), generator=generator)
            loss = F.cross_entropy(self.model(self.images[chosen]), self.labels[chosen])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            self.losses.append(loss.item())
            if self.step == self.options.save_at:
                self.save(self.options.save)
            if self.hook:
                self.bytes += self.hook.exchange.statistics()["bytes_sent"]
        dist.barrier()
        self.seconds += time.perf_counter() - begin

    def path(self, folder):
        return folder / f"{self.name}-rank{dist.get_rank()}.pt"

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        state = {"step": self.step, "model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.hook:
            state["hook"] = self.hook.state_dict()
        torch.save(state, self.path(folder))

    def resume(self, folder):
        state = torch.load(self.path(folder), weights_only=True)
        self.step = state["step"]
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.hook:
            self.hook.load_state_dict(state["hook"])

    def result(self):
        losses = torch.tensor(self.losses, dtype=torch.float64)
        dist.all_reduce(losses)
        bits = b"".join(value.detach().contiguous().numpy().tobytes() for value in self.model.module.parameters())
        return {"variant": self.name, "steps": self.step, "loss": [round(x, 6) for x in (losses / dist.get_world_size()).tolist()],
                "seconds_per_step": self.seconds / max(len(self.losses), 1),
                "bytes_per_step": self.bytes / max(len(self.losses), 1) if self.hook else None,
                "parameters_hash": hashlib.sha256(bits).hexdigest()[:16]}

    def close(self):
        if self.hook:
            self.hook.exchange.close()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--variants", default="dragonn", help="plain, or methods of dragonn, with commas between")
    parser.add_argument("--steps", type=int, default=20, help="steps of a round; with --resume those before count")
    parser.add_argument("--rounds", type=int, default=1, help="rounds in which the variants take turns, behind one step each")
    parser.add_argument("--batch", type=int, default=32, help="images of a rank in a step")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--config", type=pathlib.Path, help="TOML file for the exchange, instead of variant and density")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path, help="folder for model, optimizer and error feedback of each rank")
    parser.add_argument("--save-at", type=int, help="the step after which --save does so, instead of the last")
    parser.add_argument("--resume", type=pathlib.Path, help="such a folder")
    options = parser.parse_args()
    if options.save_at and not options.save:
        parser.error("--save-at needs --save")
    return options


def start_group():
    """PyTorch's own group, which DDP needs to begin; torchrun or mpirun say who this is."""
    os.environ.setdefault("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    os.environ.setdefault("WORLD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    dist.init_process_group("gloo")


def main():
    options = parse_arguments()
    torch.set_num_threads(1)
    start_group()
    is_first = dist.get_rank() == 0
    images, labels, source = load_images()
    if is_first:
        print(f"{dist.get_world_size()} ranks, {source}", file=sys.stderr)
    trainings = [Training(name, options, images, labels) for name in options.variants.split(",")]
    for training in trainings:
        if options.resume:
            training.resume(options.resume)
        if options.rounds > 1:  # buckets and buffers get their size
            training.run(1)
            training.losses, training.seconds, training.bytes = [], 0.0, 0
    for _ in range(options.rounds):
        for training in trainings:
            training.run(options.steps - (training.step if options.resume else 0))
    for training in trainings:
        if options.save and not options.save_at:
            training.save(options.save)
        result = training.result()
        training.close()
        if is_first:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (dragonn.DragonnError, TypeError, ValueError, OSError) as error:
        print(f"rank {os.environ.get('RANK', '0')}: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # the other ranks are not waited for
