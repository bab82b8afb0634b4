#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the twin of a config of local steps (update.scheme = "local", dense) with torchft's DiLoCo over gloo, as a peer of
dragonn-train.

    netns_cluster.sh run 4 10mbit -- torchft_diloco.py configs/shakespeare_diloco.toml --output DIR/torchft

The ranks are those of mpirun, each a replica group of its own; rank 0 also runs torchft's lighthouse. Model, first weights, shards,
batch per rank, clipping and rates are the config's (scripts/peers/gpt_twin.py), and so are inner and outer steps, fragments, delay and
mix. Every rank writes OUTPUT.RANK, a JSON object: "steps", a list of [step, seconds of training, loss], and on rank 0 "loss", that
of the outer parameters on the validation shards.
Exit code: 0 done, 1 failed, 2 bad usage, 77 PyTorch or torchft is not installed.
"""
import datetime
import json
import os
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import gpt_twin
from runs import run_main

TIMEOUT = datetime.timedelta(minutes=30)  # a synchronization of a large model on a slow network
NETWORK = "198.18.0.1"  # an address of scripts/netns_cluster.sh; nothing is sent to it


def own_address():
    """The address by which other ranks reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((NETWORK, 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def shared_text(path, make=None):
    """The text that rank 0 makes for all ranks, by a file that all see."""
    if make is not None:
        partial = path.with_suffix(".part")
        partial.write_text(make)
        os.replace(partial, path)
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{path}: rank 0 has not written it")
        time.sleep(0.05)
    return path.read_text()


def fragments_of(model, count):
    """Whole blocks in turn; what is no block belongs to the first fragment."""
    fragments = [torch.nn.ModuleList() for _ in range(count)]
    for name, child in model.named_children():
        number = int(name.removeprefix("layer")) if name.startswith("layer") else 0
        fragments[number % count].append(child)
    return fragments


def make_diloco(config, model, optimizer, manager):
    update, outer = config["update"], config["update"]["outer"]
    if outer["optimizer"] != "sgd":
        raise RuntimeError(f"update.outer.optimizer = {outer['optimizer']}: expected sgd")
    fragments = fragments_of(model, update["fragments"])
    is_nesterov = outer["momentum"] > 0 and outer["nesterov"]
    outers = [torch.optim.SGD(fragment.parameters(), outer["learning_rate"], outer["momentum"], nesterov=is_nesterov)
              for fragment in fragments]
    return DiLoCo(manager, fragments, optimizer, outers, update["inner_steps"], fragment_sync_delay=update["overlap_steps"],
                  fragment_update_alpha=update["mix"], use_bucketization=True)


def train(config, output, every, rank, world):
    """This rank's record of the run."""
    address = own_address()
    lighthouse = LighthouseServer(bind="0.0.0.0:0", min_replicas=world, join_timeout_ms=60000) if rank == 0 else None
    url = lighthouse and f"http://{address}:{lighthouse.address().rpartition(':')[2]}"
    url = shared_text(output.with_name(output.name + ".lighthouse"), url)
    store = torch.distributed.TCPStore(address, 0, is_master=True, wait_for_workers=False)
    model, training, validation = gpt_twin.make_model(config)
    settings, batch = config["train"], config["train"]["batch_size"]
    optimizer = gpt_twin.optimizer_of(model, config["optimizer"])
    schedule = gpt_twin.scheduled(optimizer, config["schedule"])
    all_batches, steps = gpt_twin.batches(training, batch * world, config["seed"]), []
    manager = Manager(ProcessGroupGloo(timeout=TIMEOUT), None, None, min_replica_size=world, use_async_quorum=False, timeout=TIMEOUT,
                      quorum_timeout=TIMEOUT, rank=0, world_size=1, store_addr=address, store_port=store.port, lighthouse_addr=url,
                      replica_id=f"rank{rank}", hostname=address, init_sync=False)
    diloco = make_diloco(config, model, optimizer, manager)
    begin = time.monotonic()
    with diloco:
        for step in range(1, settings["max_steps"] + 1):
            loss = gpt_twin.loss_of(model, training, next(all_batches)[rank * batch:(rank + 1) * batch])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
            optimizer.step()
            schedule.step()
            if step % every == 0:
                steps.append([step, time.monotonic() - begin, loss.item()])
    row = {"steps": steps, "torch": torch.__version__, "torchft": importlib.metadata.version("torchft")}
    if rank == 0:
        for fragment in diloco._fragments:  # torchft has no other way to the outer parameters
            fragment.restore_parameters()
        row["loss"] = gpt_twin.validation_loss(model, validation)
    # The others' last messages may still need this rank's servers.
    output.with_name(f"{output.name}.{rank}").write_text(json.dumps(row))
    for other in range(world):
        shared_text(output.with_name(f"{output.name}.{other}"))
    manager.shutdown(wait=False)
    return 0


def main():
    parser = gpt_twin.twin_parser(__doc__)
    gpt_twin.add_rank_options(parser)
    options = parser.parse_args()
    config = gpt_twin.read_config(options, {"train.clip": "local", "update.scheme": "local", "compression.method": "dense"})
    rank, world = (int(os.environ.get(f"OMPI_COMM_WORLD_{name}", default)) for name, default in (("RANK", 0), ("SIZE", 1)))
    torch.set_num_threads(options.threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", options.interface)
    return train(config, options.output, options.every, rank, world)


try:
    import importlib.metadata

    import torch
    from torchft.coordination import LighthouseServer
    from torchft.local_sgd import DiLoCo
    from torchft.manager import Manager
    from torchft.process_group import ProcessGroupGloo
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

if __name__ == "__main__":
    run_main(main, 1, (RuntimeError, OSError))
