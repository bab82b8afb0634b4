#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the twin of a config of local steps (update.scheme = "local") in PyTorch with dragonn.LocalSteps, which gets the
config's tables [update] and [compression].

    torchrun --nproc-per-node 4 scripts/peers/local_twin.py configs/shakespeare_diloco.toml --output DIR/local

The ranks are those of torchrun or mpirun. Model, first weights, shards, batch per rank, clipping and rates are the config's
(scripts/peers/gpt_twin.py). Every rank writes OUTPUT.RANK, a JSON object: "steps", a list of [step, seconds of training, loss], and
on rank 0 "loss", that of the common parameters on the validation shards. Exit code: 0 done, 1 failed, 2 bad usage, 77 PyTorch is
not installed.
"""
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "python")]
import gpt_twin
from runs import run_main


def flat(table, name):
    """The lines `name.key = value` of a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{name}.{key}")
        else:
            yield f"{name}.{key} = {json.dumps(value)}"


def train(config, every, rank, world):
    """This rank's record of the run."""
    model, training, validation = gpt_twin.make_model(config)
    settings, batch = config["train"], config["train"]["batch_size"]
    optimizer = gpt_twin.optimizer_of(model, config["optimizer"])
    schedule = gpt_twin.scheduled(optimizer, config["schedule"])
    tables = (line for name in ("update", "compression") for line in flat(config[name], name))
    local = dragonn.LocalSteps(model, optimizer, "\n".join([f"seed = {config['seed']}", *tables]) + "\n")
    all_batches, steps = gpt_twin.batches(training, batch * world, config["seed"]), []
    begin = time.monotonic()
    for step in range(1, settings["max_steps"] + 1):
        loss = gpt_twin.loss_of(model, training, next(all_batches)[rank * batch:(rank + 1) * batch])
        local.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        local.step(last=step == settings["max_steps"])
        schedule.step()
        if step % every == 0:
            steps.append([step, time.monotonic() - begin, loss.item()])
    local.close()
    row = {"steps": steps, "torch": torch.__version__}
    return row | {"loss": gpt_twin.validation_loss(model, validation)} if rank == 0 else row


def main():
    parser = gpt_twin.twin_parser(__doc__)
    gpt_twin.add_rank_options(parser)
    options = parser.parse_args()
    config = gpt_twin.read_config(options, {"train.clip": "local", "update.scheme": "local"})
    torch.set_num_threads(options.threads)
    join_group(options.interface)
    rank = dist.get_rank()
    record = train(config, options.every, rank, dist.get_world_size())
    options.output.with_name(f"{options.output.name}.{rank}").write_text(json.dumps(record))
    dist.destroy_process_group()
    return 0


try:
    import torch
    import torch.distributed as dist

    import dragonn
    from process_group import join_group
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

if __name__ == "__main__":
    run_main(main, 1, (RuntimeError, OSError, ValueError))
