#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the twin of a config with the model gpt2 in PyTorch: the same model (scripts/pytorch_models.py), distribution of first
weights, token shards, global batch, clipping, AdamW and cosine schedule.

    scripts/peers/gpt_twin.py configs/shakespeare_gpt.toml --set data.path=FOLDER --set seed=2 --json rows.json

Windows are those of the data set token_shards, in its order (scripts/peers/dragonn_order.py). Prints the loss of every hundredth step, then a row:
the mean loss over the validation shards, and the time of training. --json keeps rows, and does not repeat those that it has.
Exit code: 0 done, 2 bad usage, 77 PyTorch is not installed.
"""
import itertools
import json
import math
import os
import pathlib
import sys
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from dragonn_order import epoch_order
from runs import BIN, Rows, make_parser, output_of, run_main, sets

EVALUATION_BATCH = 64
HEADER_BYTES = 1024  # of a shard
# What a config must have to have a twin.
EXPECTED = {"model.name": "gpt2", "data.name": "token_shards", "optimizer.name": "adamw", "schedule.name": "cosine",
            "optimizer.weight_decay_norm_bias": False}


# Parts of a block by their names in transformers.
TRANSFORMERS_NAMES = {"attention.qkv": "attn.c_attn", "attention.output": "attn.c_proj", "part1.norm": "ln_1", "part2.norm": "ln_2",
                      "feed_forward.linear1": "mlp.c_fc", "feed_forward.linear2": "mlp.c_proj"}


class Windows:
    """The windows of the shards of one split, as in data/text/token_shards.cpp."""

    def __init__(self, folder, prefix, window):
        self.shards, self.window = [], window
        for path in sorted(folder.glob(f"{prefix}*.bin")):
            self.shards.append(torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint16, offset=HEADER_BYTES).int())
        self.starts = [(shard, i * window) for shard in self.shards for i in range((len(shard) - 1) // window)]

    def batch(self, numbers):
        """Tokens and labels [batch, window]."""
        rows = torch.stack([shard[begin:begin + self.window + 1] for shard, begin in (self.starts[i] for i in numbers)]).long()
        return rows[:, :-1], rows[:, 1:]


def initialize(model, layers):
    """First weights as those of layers/models/gpt2.cpp; biases are zero, and norms are ones."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.constant_(parameter, 1 if name.endswith("norm.weight") else 0)
            continue
        is_residual = name.endswith(("attention.output.weight", "feed_forward.linear2.weight"))
        scale = 1 / math.sqrt(2 * layers) if is_residual else 0.5 if name == "position.weight" else 1
        torch.nn.init.normal_(parameter, std=pytorch_models.INITIAL_DEVIATION * scale)


def optimizer_of(model, settings):
    """AdamW, which decays matrices only."""
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == is_matrix],
               "weight_decay": settings["weight_decay"] if is_matrix else 0} for is_matrix in (True, False)]
    return torch.optim.AdamW(groups, settings["learning_rate"], (settings["beta1"], settings["beta2"]), settings["epsilon"], fused=True)


def rate_factor(schedule, step):
    """optim/schedule.cpp's cosine."""
    warm_up, first, last = schedule["warmup_steps"], schedule["warmup_start_factor"], schedule["final_factor"]
    if step < warm_up:
        return first + (1 - first) * step / warm_up
    progress = min(1, (step - warm_up) / (schedule["decay_steps"] - warm_up))
    return last + (1 - last) * (1 + math.cos(math.pi * progress)) / 2


def make_model(config):
    """The model with first weights, and its windows of training and of validation."""
    torch.manual_seed(config["seed"])
    data = config["data"]
    folder = pathlib.Path(data["path"])
    vocabulary = data["vocabulary"] or json.loads((folder / "tokens.json").read_text())["vocabulary"]
    training, validation = (Windows(folder, data[name], data["window"]) for name in ("train_prefix", "test_prefix"))
    model = pytorch_models.build({"model": config["model"]["name"], "settings": config["model"], "sample": [data["window"]],
                                  "classes": vocabulary})
    initialize(model, config["model"]["layers"])
    return model, training, validation


def scheduled(optimizer, schedule):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_factor(schedule, step))


def batches(windows, size, seed):
    """Numbers of windows, without end, as dragonn takes them: what fills no batch is left out of an epoch."""
    for epoch in itertools.count():
        order = epoch_order(len(windows.starts), seed, epoch)
        for begin in range(0, len(order) - size + 1, size):
            yield order[begin:begin + size]


def transformers_tensors(model):
    """The weights in the form of transformers, which dragonn-train reads."""
    tensors = {"wte.weight": model.embedding.weight[:model.classes], "wpe.weight": model.position.weight}
    if not model.settings["tied"]:
        tensors["lm_head.weight"] = model.output.weight[:model.classes]
    for name, value in model.named_parameters():
        block, _, rest = name.partition(".")
        layer, part = block.removeprefix("layer"), rest.rpartition(".")[0]
        if name.startswith("norm."):
            tensors[f"ln_f.{rest}"] = value
        elif part in TRANSFORMERS_NAMES:
            tensors[f"h.{layer}.{TRANSFORMERS_NAMES[part]}.{rest.rpartition('.')[2]}"] = value.t() if value.dim() > 1 else value
    return {name: value.detach().contiguous() for name, value in tensors.items()}


def validation_loss(model, validation, device="cpu"):
    """The mean loss over all windows."""
    model.eval()
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(validation.starts), EVALUATION_BATCH):
            numbers = range(first, min(first + EVALUATION_BATCH, len(validation.starts)))
            total += loss_of(model, validation, numbers, device).item() * len(numbers)
    return total / len(validation.starts)


def loss_of(model, windows, numbers, device="cpu"):
    return model.loss(*(part.to(device) for part in windows.batch(numbers)))[0]


def train(config, device):
    """The row of a run."""
    model, training, validation = make_model(config)
    model.to(device)
    settings = config["train"]
    optimizer = optimizer_of(model, config["optimizer"])
    schedule = scheduled(optimizer, config["schedule"])
    batch = batches(training, settings["batch_size"] * config["comm"]["workers"], config["seed"])
    begin = time.monotonic()
    for step in range(settings["max_steps"]):
        loss = loss_of(model, training, next(batch), device)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - begin
    return {"loss": validation_loss(model, validation, device), "seconds": seconds, "steps": settings["max_steps"],
            "parameters": sum(parameter.numel() for parameter in model.parameters()), "torch": torch.__version__,
            "threads": torch.get_num_threads()}


def read_config(options, expected):
    """The resolved config of options.config and options.set. Raises RuntimeError if it has not the expected values."""
    command = [options.bin / "dragonn-train", options.config, *sets(options.set), "--print-config"]
    # With other ranks it would print on rank 0 only.
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "RANK", "WORLD_SIZE"))}
    config = tomllib.loads(output_of(command, env=alone))
    for key, value in (EXPECTED | expected).items():
        table, _, name = key.partition(".")
        if config[table][name] != value:
            raise RuntimeError(f"{options.config}: {key} = {config[table][name]}: expected {value}")
    return config


def twin_parser(text):
    """The options of a twin."""
    parser = make_parser(text)
    parser.add_argument("config", type=pathlib.Path, metavar="CONFIG.toml", help="what to train")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the config (repeatable)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of PyTorch (1)")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN, metavar="DIR", help="folder of dragonn-train")
    return parser


def add_rank_options(parser):
    """The options of a twin with several ranks."""
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE", help="prefix of the ranks' records")
    parser.add_argument("--every", type=int, default=10, metavar="N", help="log the loss of every Nth step, as dragonn-train does (10)")
    parser.add_argument("--interface", default="eth0", metavar="NAME", help="of gloo (eth0)")


def main():
    parser = twin_parser(__doc__)
    parser.add_argument("--device", default="cpu", metavar="NAME", help="of PyTorch (cpu)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="rows that are kept")
    options = parser.parse_args()
    config = read_config(options, {"train.clip": "global"})
    rows, case = Rows(options.json), {"config": options.config.stem, "seed": config["seed"], "set": options.set, "device": options.device}
    if not rows.has(case):
        torch.set_num_threads(options.threads)
        rows.add([case | train(config, options.device)])
        print(json.dumps(rows[-1]))
    return 0


try:
    import torch

    import pytorch_models
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

if __name__ == "__main__":
    run_main(main, 2, (RuntimeError, OSError))
