#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a model data-parallel with PyTorch DDP over gloo, as a peer of dragonn-train, and with dragonn's hook.

    ddp.py --config configs/cifar10_resnet20.toml --hooks none --steps 20 --warmup 5                # one process alone
    netns_cluster.sh run 4 100mbit -- ddp.py --config ... --hooks plain,fp16,powersgd --epochs 8 --data DIR
    netns_cluster.sh run 4 100mbit -- ddp.py --config configs/gpt2_small.toml --hooks no_sync,plain,dragonn --steps 5 --rounds 3

Model (of scripts/pytorch_models.py), batch, optimizer and schedule are those of dragonn's config; the ranks are those of mpirun.
Hooks: none (the model without DDP, one rank alone), no_sync (DDP, but no rank sends anything), plain, fp16 (fp16_compress_hook),
powersgd (rank 1, error feedback, warm start), dragonn (DdpHook: top-k at --density, rice x int8) and blocking (the same exchange in
one call behind backward).

--steps: seconds of each step behind --warmup, and bytes that leave by the interface. With --rounds the hooks take turns, so
that a busy machine slows all alike; "turns" are the seconds of a step in each turn, from when all ranks begin until all are
done, and the seconds of the processor that it takes, a rank's mean; "exposed", of dragonn, is the part of an exchange, in seconds,
that follows the last gradient of all ranks, by the timeline of the warm-up's steps from the third on, the mean over them. --epochs,
of a model of images: test accuracy after each
epoch, and the training's seconds until then, evaluations left out. Without --data images are random; tokens always are.

Rank 0 writes a JSON array with one object per hook to --output (or the standard output).
Exit code: 0 done, 1 failed, 2 bad usage, 77 PyTorch or NumPy is not installed.
"""
import contextlib
import functools
import itertools
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
import tomllib
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]
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
    from process_group import join_group
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
# several buckets in different orders, and end with an error: so it gets one bucket. dragonn's, and the buckets of its exchange,
# are those that docs/library.md recommends. The others have DDP's default.
BUCKET_MB = {"powersgd": 1024, "dragonn": 4}
HOOKS = ["none", "no_sync", "plain", "fp16", "powersgd", "dragonn", "blocking"]
SILENT = "no_sync", "blocking"  # during backward
DRAGONN = """seed = {}
compression = {{ method = "topk", density = {}, bucket = 0.0625, codec = {{ indices = "rice", values = "int8" }} }}
comm.backend = "tcp"
"""
# DDP makes its final buckets after the first step, and the second tells their order.
FIRST_TRACED = 3
TOKEN_BATCHES = 16
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


class Tokens:
    """Random batches of tokens."""

    def __init__(self, classes, window, batch, seed):
        generator = torch.Generator().manual_seed(seed)
        self.batches = torch.randint(classes, (TOKEN_BATCHES, batch, window + 1), generator=generator)

    def all(self):
        return ((tokens[:, :-1], tokens[:, 1:]) for tokens in itertools.cycle(self.batches))


class Loss(nn.Module):
    """A model whose output is its loss, as DDP needs it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs, labels):
        return self.inner.loss(inputs, labels)[0]


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
        name = config["model"]["name"]
        if name not in (*LAYOUTS, "gpt2"):
            raise ValueError(f"{options.config}: model.name = {name}: expected one of {', '.join(LAYOUTS)}, gpt2")
        if options.epochs and name not in LAYOUTS:
            raise ValueError(f"{options.config}: model.name = {name}: --epochs expects one of {', '.join(LAYOUTS)}")
        torch.manual_seed(options.seed)
        self.schedule, self.seed, self.name, self.hook = config["schedule"], options.seed, name, hook
        self.rank, self.world = dist.get_rank() if dist.is_initialized() else 0, options.world
        self.batch = options.batch or config["train"]["batch_size"]
        (self.make_gpt if name == "gpt2" else self.make_images)(options, config)
        self.compiled = options.compile
        self.model = torch.compile(Loss(self.inner)) if options.compile else Loss(self.inner)
        if hook != "none":
            # Each rank keeps its batch norm's statistics during training, as dragonn's do: nothing is sent for them. The seed
            # has given all ranks the same parameters.
            self.model = DistributedDataParallel(self.model, bucket_cap_mb=BUCKET_MB.get(hook), init_sync=False,
                                                 gradient_as_bucket_view=True, broadcast_buffers=False)
        self.exchange = self.trace = None
        traced = options.warmup - FIRST_TRACED + 1 if options.steps else 0
        self.register(hook, DRAGONN.format(options.seed, options.density), traced)
        self.make_optimizer(options, config["optimizer"])

    def make_images(self, options, _config):
        self.layout = LAYOUTS[self.name]
        self.inner = pytorch_models.build(
            {"model": self.name, "settings": SETTINGS, "sample": [SIDE, SIDE, CHANNELS], "classes": CLASSES})
        self.inner.apply(initialize).to(memory_format=self.layout)
        self.images = Images(options.data, "data_batch_*.bin")
        self.generator = torch.Generator().manual_seed(1000 * self.seed + self.rank)

    def make_gpt(self, options, config):
        window = config["data"]["window"]
        self.inner = pytorch_models.build({"model": "gpt2", "settings": {"tied": True, "dropout": 0} | config["model"],
                                           "sample": [window], "classes": options.vocabulary})
        self.tokens = Tokens(options.vocabulary, window, self.batch, 1000 * self.seed + self.rank)

    def register(self, hook, config, traced):
        if hook in ("dragonn", "blocking"):
            import dragonn  # the other hooks need no library
        if hook == "fp16":
            self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif hook == "powersgd":
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=WHOLE_STEPS[hook])
            self.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        elif hook == "dragonn":
            if traced > 0:
                self.trace = pathlib.Path(tempfile.mkdtemp()) / "trace.json"  # of rank 0
                config += f"logging = {{ trace = {traced}, trace_first = {FIRST_TRACED} }}\n"
            self.exchange = dragonn.DdpHook(self.model, config, trace=self.trace and str(self.trace)).exchange
        elif hook == "blocking":
            tensors = [(name, tuple(parameter.shape)) for name, parameter in self.inner.named_parameters()]
            self.exchange = dragonn.Exchange(tensors, config, rendezvous=dragonn.rendezvous())

    def make_optimizer(self, options, settings):
        self.rate = settings["learning_rate"]
        if settings["name"] == "sgd":
            self.optimizer = torch.optim.SGD(self.inner.parameters(), self.rate, settings["momentum"],
                                             weight_decay=settings["weight_decay"])
        elif settings["name"] == "adamw":
            self.optimizer = torch.optim.AdamW(self.inner.parameters(), self.rate, (settings["beta1"], settings["beta2"]),
                                               weight_decay=settings["weight_decay"], fused=True)
        else:
            raise ValueError(f"{options.config}: optimizer.name = {settings['name']}: expected sgd or adamw")

    def batches(self, epoch):
        """This rank's part of a shuffled epoch, a batch at a time. The last, incomplete global batch is left out."""
        order = torch.randperm(len(self.images.labels), generator=torch.Generator().manual_seed(100 * self.seed + epoch))
        for step in range(len(order) // (self.batch * self.world)):
            begin = (step * self.world + self.rank) * self.batch
            yield self.images.augmented_batch(order[begin : begin + self.batch], self.layout, self.generator)

    def endless_batches(self):
        if self.name == "gpt2":
            return self.tokens.all()
        return itertools.chain.from_iterable(map(self.batches, itertools.count()))

    def step(self, inputs, labels):
        self.optimizer.zero_grad()
        with self.model.no_sync() if self.hook in SILENT else contextlib.nullcontext():
            loss = self.model(inputs, labels)
            loss.backward()
        if self.hook == "blocking":
            self.exchange.exchange([parameter.grad for parameter in self.inner.parameters()])
        self.optimizer.step()
        return loss.item()

    def close(self):
        if self.exchange:
            self.exchange.close()

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


class Turns:
    """What a training takes in its turns: seconds of steps, bytes that this rank sends, seconds of its processor."""

    def __init__(self, training, options):
        self.training, self.options, self.batches = training, options, training.endless_batches()
        self.step_seconds, self.turns, self.processor, self.sent = [], [], [], 0
        for _ in range(options.warmup + WHOLE_STEPS.get(training.hook, 0)):
            training.step(*next(self.batches))

    def take(self):
        steps, several = self.options.steps, dist.is_initialized()
        settle()
        before = sent_bytes(self.options.interface) if several else 0
        begin, processor = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step_begin = time.perf_counter()
            self.training.step(*next(self.batches))
            self.step_seconds.append(time.perf_counter() - step_begin)
        self.processor.append((time.process_time() - processor) / steps)
        if several:
            dist.barrier()
        self.turns.append((time.perf_counter() - begin) / steps)
        settle()
        self.sent += sent_bytes(self.options.interface) - before if several else 0

    def row(self):
        steps = len(self.step_seconds)
        return {"step_seconds": self.step_seconds, "sent_per_step": mean_over_ranks(self.sent / steps), "turns": self.turns,
                "processor": [mean_over_ranks(seconds) for seconds in self.processor],
                "samples_per_second": self.training.batch * self.training.world / statistics.median(self.step_seconds)}


def exposed_seconds(trace):
    """What of an exchange follows the last gradient of all ranks: the mean over the exchanges of a timeline."""
    ends = {"exchange": {}, "backward": {}}  # by rank
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["name"] == "backward" or "step" in event.get("args", {}):
            ends[event["name"]].setdefault(event["pid"], []).append(event["ts"] + event["dur"])
    last = {name: map(max, zip(*of_ranks.values())) for name, of_ranks in ends.items()}
    return statistics.mean(exchange - backward for exchange, backward in zip(last["exchange"], last["backward"])) / 1e6


def measure_steps(trainings, options):
    """A row for each training: all take a turn in every round."""
    all_turns = [Turns(training, options) for training in trainings]
    for _ in range(options.rounds):
        for turns in all_turns:
            turns.take()
    return [turns.row() for turns in all_turns]


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


def train(training, options):
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


def row_of(training, measured):
    return {"hook": training.hook, "batch": training.batch, "world": training.world, "threads": torch.get_num_threads(),
            "compile": training.compiled, "torch": torch.__version__} | measured


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--config", type=pathlib.Path, required=True, help="a config of dragonn-train")
    parser.add_argument("--hooks", type=words, required=True, help=",".join(HOOKS))
    parser.add_argument("--steps", type=int, default=0, help="measure so many steps")
    parser.add_argument("--rounds", type=int, default=1, help="turns of so many steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps ahead of them, at least 1")
    parser.add_argument("--epochs", type=int, default=0, help="train so many epochs")
    parser.add_argument("--milestones", type=words, help="epochs, instead of the config's")
    parser.add_argument("--batch", type=int, help="per rank, instead of the config's")
    parser.add_argument("--density", type=float, default=0.01, help="of dragonn and blocking")
    parser.add_argument("--vocabulary", type=int, default=8192, help="of a gpt2")
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
    if options.world > 1:
        join_group(options.interface)
    if options.steps:
        trainings = [Training(options, hook) for hook in options.hooks]
        rows = [row_of(*pair) for pair in zip(trainings, measure_steps(trainings, options))]
        for row, training in zip(rows, trainings):
            if training.trace and training.rank == 0:
                row["exposed"] = exposed_seconds(training.trace)
            if training.trace:
                shutil.rmtree(training.trace.parent)
        for training in trainings:
            training.close()
    else:
        rows = []
        for hook in options.hooks:
            training = Training(options, hook)
            rows.append(row_of(training, train(training, options)))
            training.close()
    if training.rank == 0:
        (options.output.write_text if options.output else sys.stdout.write)(json.dumps(rows, indent=1) + "\n")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    run_main(main, 2, (OSError, ValueError, KeyError))
