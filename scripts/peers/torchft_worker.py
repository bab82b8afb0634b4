#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One worker of a group that torchft keeps alive: the twin of a config (scripts/peers/gpt_twin.py), synchronous and dense, with
torchft's Manager, DistributedDataParallel and OptimizerWrapper over gloo, as its documentation has them.

    torchft_worker.py configs/shakespeare_gpt.toml --lighthouse http://HOST:PORT --name w0 --record FILE --heartbeat 5

FILE gets a line for each committed step: {"step", "time" (of the system, seconds), "workers", "hash" (of the parameters)}. The
worker trains until it is killed. torchft's waits for gradients end after --heartbeat seconds, too: it has no other word for a
process that is stopped.
Exit code: 1 failed, 2 bad usage, 77 PyTorch or torchft is not installed.
"""
import datetime
import hashlib
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import gpt_twin
from runs import run_main


def hash_of(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def train(config, options):
    model, training, _ = gpt_twin.make_model(config)
    optimizer = gpt_twin.optimizer_of(model, config["optimizer"])
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    waits = datetime.timedelta(seconds=options.heartbeat)

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(ProcessGroupGloo(timeout=waits), load, lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                      min_replica_size=1, timeout=waits, rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
                      lighthouse_addr=options.lighthouse, replica_id=options.name, hostname="127.0.0.1")
    replica, stepper = DistributedDataParallel(manager, LossOf(model)), OptimizerWrapper(manager, optimizer)
    batches = gpt_twin.batches(training, config["train"]["batch_size"], config["seed"])
    with options.record.open("a") as record:
        while True:
            stepper.zero_grad()  # begins a quorum
            tokens, labels = training.batch(next(batches))
            replica(tokens, labels).backward()
            before = manager.current_step()
            stepper.step()
            if manager.current_step() > before:
                line = {"step": manager.current_step(), "time": time.time(), "workers": manager.num_participants(), "hash": hash_of(model)}
                record.write(json.dumps(line) + "\n")
                record.flush()


def main():
    parser = gpt_twin.twin_parser(__doc__)
    parser.add_argument("--lighthouse", required=True, metavar="URL")
    parser.add_argument("--name", required=True, help="of this worker; another one each time")
    parser.add_argument("--record", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--heartbeat", type=float, default=5, metavar="SECONDS")
    options = parser.parse_args()
    config = gpt_twin.read_config(options, {})
    torch.set_num_threads(options.threads)
    return train(config, options)


try:
    import torch
    from torchft.ddp import DistributedDataParallel
    from torchft.manager import Manager
    from torchft.optim import OptimizerWrapper
    from torchft.process_group import ProcessGroupGloo
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)



class LossOf(torch.nn.Module):
    """A model whose output is its loss, as DistributedDataParallel wants it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, labels):
        return self.model.loss(tokens, labels)[0]


if __name__ == "__main__":
    run_main(main, 1, (RuntimeError, OSError))
