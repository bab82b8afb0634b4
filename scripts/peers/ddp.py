#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a model of images data-parallel with PyTorch DDP over gloo, as a peer of dragonn-train.

    ddp.py --config configs/cifar10_resnet20.toml --hooks none --steps 20 --warmup 5                # one process alone
    netns_cluster.sh run 4 100mbit -- ddp.py --config ... --hooks plain,fp16,powersgd --epochs 8 --data DIR

Model (of scripts/pytorch_models.py), batch, optimizer and schedule are those of dragonn's config; the ranks are those of mpirun.
Hooks, one after the other: none (the model without DDP, one rank alone), plain, fp16 (fp16_compress_hook), powersgd (rank 1,
error feedback, warm start).

--steps: seconds of each step behind --warmup, and bytes that leave by the interface. --epochs: test accuracy after each
epoch, and the training's seconds until then, evaluations left out. Without --data images are random.

Rank 0 writes a JSON array with one object per hook to --output (or the standard output).
Exit code: 0 done, 1 failed, 2 bad usage, 77 PyTorch or NumPy is not installed.
"""
import functools
import itertools
import json
import os
import pathlib
import statistics
import sys
import time
import tomllib
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Of DDP, which recommends an option that older versions lack.
warnings.filterwarnings("ignore", message=".*broadcast_buffers.* is deprecated")
try:
    import numpy  # noqa: F401: PowerSGD's state draws with it
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    import pytorch_models
    from runs import make_parser, run_main, words
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

from interface_bytes import sent_bytes

CHANNELS, SIDE, CLASSES, PADDING = 3, 32, 10, 4
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the 50,000 training images
# The layout in which PyTorch computes each model faster on a CPU.
LAYOUTS = {"resnet20": torch.channels_last, "vgg16": torch.contiguous_format}
# The settings of both models that their configs leave as they are.
SETTINGS = {"shortcut": "pad", "form": "cifar", "width": 1, "dropout": 0}
# PowerSGD's hook starts its second and third allreduce when the one before is done. Over gloo ranks then start those of
# several buckets in different orders, and end with an error: so it gets one bucket. The others have DDP's default.
BUCKET_MB = {"powersgd": 1024}
HOOKS = ["none", "plain", "fp16", "powersgd"]
# The first steps send whole gradients; so many belong to the warm-up beside what is asked for.
WHOLE_STEPS = {"powersgd": 2}


class Images:
    """Images of CIFAR-10 in memory, the same on every rank; random ones without a folder."""

    def __init__(self, folder, name, limit=0):
        if folder is None:
            draw = functools.partial(torch.randint, generator=torch.Generator().manual_seed(1))
            self.labels, self.pixels = draw(CLASSES, (1024,)), draw(256, (1024, CHANNELS, SIDE, SIDE), dtype=torch.uint8)
        else:
            content = bytearray(b"".join(path.read_bytes() for path in sorted(folder.glob(name))))
            records = torch.frombuffer(content, dtype=torch.uint8).view(-1, 1 + CHANNELS * SIDE * SIDE)[: limit or None]
            self.labels, self.pixels = records[:, 0].long(), records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
        self.mean, self.deviation = (torch.tensor(values).view(1, CHANNELS, 1, 1) for values in (MEAN, DEVIATION))

    def normalized(self, pixels, layout):
        return ((pixels.float() / 255 - self.mean) / self.deviation).contiguous(memory_format=layout)

    def augmented_batch(self, indices, layout, generator):
        """Each image is padded with black pixels, cropped and mirrored at random."""
        count = len(indices)
        padded = nn.functional.pad(self.pixels[indices], (PADDING,) * 4)
        columns, rows = torch.randint(0, 2 * PADDING + 1, (2, count, 1), generator=generator) + torch.arange(SIDE)
        is_mirrored = torch.randint(0, 2, (count, 1), generator=generator).bool()
        columns = torch.where(is_mirrored, columns.flip(1), columns)
        sample, channel = torch.arange(count).view(-1, 1, 1, 1), torch.arange(CHANNELS).view(1, -1, 1, 1)
        pixels = padded[sample, channel, rows.view(count, 1, -1, 1), columns.view(count, 1, 1, -1)]
        return self.normalized(pixels, layout), self.labels[indices]


def initialize(module):
    """As dragonn does (layers/layers.h): He's normal by fan-out for convolutions, and biases of zero."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
        nn.init.zeros_(module.bias)


class Training:
    """A model, its optimizer and its batches, as the config and a hook say."""

    def __init__(self, options, hook):
        config = tomllib.loads(options.config.read_text())
        name, optimizer = config["model"]["name"], config["optimizer"]
        if name not in LAYOUTS:
            raise ValueError(f"{options.config}: model.name = {name}: expected one of {', '.join(LAYOUTS)}")
        if optimizer["name"] != "sgd":
            raise ValueError(f"{options.config}: optimizer.name = {optimizer['name']}: expected sgd")
        torch.manual_seed(options.seed)
        self.schedule, self.rate = config["schedule"], optimizer["learning_rate"]
        self.rank, self.world = dist.get_rank() if dist.is_initialized() else 0, options.world
        self.layout, self.batch = LAYOUTS[name], options.batch or config["train"]["batch_size"]
        self.inner = pytorch_models.build(
            {"model": name, "settings": SETTINGS, "sample": [SIDE, SIDE, CHANNELS], "classes": CLASSES})
        self.inner.apply(initialize).to(memory_format=self.layout)
        self.model = torch.compile(self.inner) if options.compile else self.inner
        if hook != "none":
            # Each rank keeps its batch norm's statistics during training, as dragonn's do: nothing is sent for them.
            self.model = DistributedDataParallel(self.model, bucket_cap_mb=BUCKET_MB.get(hook),
                                                 gradient_as_bucket_view=True, broadcast_buffers=False)
        if hook == "fp16":
            self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif hook == "powersgd":
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=WHOLE_STEPS[hook])
            self.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        self.optimizer = torch.optim.SGD(self.inner.parameters(), self.rate, optimizer["momentum"],
                                         weight_decay=optimizer["weight_decay"])
        self.images, self.seed = Images(options.data, "data_batch_*.bin"), options.seed
        self.generator = torch.Generator().manual_seed(1000 * self.seed + self.rank)

    def batches(self, epoch):
        """This rank's part of a shuffled epoch, a batch at a time. The last, incomplete global batch is left out."""
        order = torch.randperm(len(self.images.labels), generator=torch.Generator().manual_seed(100 * self.seed + epoch))
        for step in range(len(order) // (self.batch * self.world)):
            begin = (step * self.world + self.rank) * self.batch
            yield self.images.augmented_batch(order[begin : begin + self.batch], self.layout, self.generator)

    def step(self, images, labels):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def set_rate(self, epoch, milestones):
        """For an epoch, from 0, by the schedule of the config."""
        if self.schedule["name"] != "milestones" or self.schedule.get("warmup_epochs", 0) != 0:
            raise ValueError("schedule: expected milestones without a warm-up")
        passed = sum(epoch >= int(milestone) for milestone in milestones or self.schedule["milestones"])
        self.optimizer.param_groups[0]["lr"] = self.rate * self.schedule["gamma"] ** passed


def settle():
    """Until all ranks are here, and what they have sent has left their interfaces."""
    if dist.is_initialized():
        dist.barrier()
        time.sleep(0.2)


def mean_over_ranks(value):
    tensor = torch.tensor([float(value)], dtype=torch.float64)
    if dist.is_initialized():
        dist.all_reduce(tensor)
        tensor /= dist.get_world_size()
    return tensor.item()


def measure_steps(training, hook, options):
    """Seconds of every step behind the warm-up, on this rank, and what a rank sends, mean over ranks."""
    batches = itertools.chain.from_iterable(map(training.batches, itertools.count()))
    for _ in range(options.warmup + WHOLE_STEPS.get(hook, 0)):
        training.step(*next(batches))
    settle()
    before = sent_bytes(options.interface) if dist.is_initialized() else 0
    seconds = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        training.step(*next(batches))
        seconds.append(time.perf_counter() - begin)
    settle()
    sent = (sent_bytes(options.interface) - before) / options.steps if dist.is_initialized() else 0
    return {"step_seconds": seconds, "sent_per_step": mean_over_ranks(sent),
            "samples_per_second": training.batch * training.world / statistics.median(seconds)}


@torch.no_grad()
def test_accuracy(training, test):
    """Over all images, which the ranks deal out among them, with the mean of the ranks' batch-norm statistics."""
    if dist.is_initialized():
        for name, buffer in training.inner.named_buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= training.world
    training.inner.eval()
    hits = 0
    for indices in torch.arange(training.rank, len(test.labels), training.world).split(128):
        images = test.normalized(test.pixels[indices], training.layout)
        hits += (training.inner(images).argmax(1) == test.labels[indices]).sum().item()
    training.inner.train()
    return mean_over_ranks(hits) * training.world / len(test.labels)


def train(training, _hook, options):
    """Accuracy and seconds of training after each epoch."""
    test = Images(options.data, "test_batch.bin", options.test_limit)
    seconds, rows = 0.0, []
    for epoch in range(options.epochs):
        training.set_rate(epoch, options.milestones)
        settle()
        begin = time.perf_counter()
        for images, labels in training.batches(epoch):
            training.step(images, labels)
        seconds += time.perf_counter() - begin
        rows.append({"epoch": epoch + 1, "seconds": seconds, "accuracy": test_accuracy(training, test)})
    return {"epochs": rows}


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--config", type=pathlib.Path, required=True, help="a config of dragonn-train")
    parser.add_argument("--hooks", type=words, required=True, help=",".join(HOOKS))
    parser.add_argument("--steps", type=int, default=0, help="measure so many steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps ahead of them, at least 1")
    parser.add_argument("--epochs", type=int, default=0, help="train so many epochs")
    parser.add_argument("--milestones", type=words, help="epochs, instead of the config's")
    parser.add_argument("--batch", type=int, help="per rank, instead of the config's")
    parser.add_argument("--data", type=pathlib.Path, help="folder with data_batch_*.bin and test_batch.bin")
    parser.add_argument("--test-limit", type=int, default=0, help="first test images; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--threads", type=int, default=1, help="per rank")
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    options.world = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    for hook in options.hooks:
        if hook not in HOOKS:
            parser.error(f"--hooks: no '{hook}': expected some of {', '.join(HOOKS)}")
        if (hook == "none") != (options.world == 1):
            parser.error(f"--hooks {hook}: with {options.world} ranks; 'none' is for one rank, the others for several")
    if bool(options.steps) == bool(options.epochs):
        parser.error("expected --steps or --epochs")
    if options.data and not (options.data / "test_batch.bin").is_file():
        parser.error(f"--data {options.data}: no test_batch.bin there")
    return options


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    if options.world > 1:  # gloo over the ranks of mpirun. The defaults are scripts/netns_cluster.sh's.
        os.environ.setdefault("MASTER_ADDR", "198.18.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", options.interface)
        dist.init_process_group("gloo", rank=int(os.environ["OMPI_COMM_WORLD_RANK"]), world_size=options.world)
    rows = []
    for hook in options.hooks:
        training = Training(options, hook)
        row = {"hook": hook, "batch": training.batch, "world": training.world, "threads": torch.get_num_threads(),
               "compile": options.compile, "torch": torch.__version__}
        rows.append(row | (measure_steps if options.steps else train)(training, hook, options))
    if training.rank == 0:
        (options.output.write_text if options.output else sys.stdout.write)(json.dumps(rows, indent=1) + "\n")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    run_main(main, 2, (OSError, ValueError, KeyError))
