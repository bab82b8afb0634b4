#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares losses of local steps, step by step: dragonn-train, dragonn.LocalSteps around PyTorch's optimizer, and torchft's
DiLoCo.

    scripts/peers/local_curves.py configs/shakespeare_diloco.toml --set data.path=FOLDER --set train.max_steps=90

All start from the same weights, which PyTorch draws, and take the same windows in the same order on this machine:
dragonn-train with its workers as threads, the others a process for each. The optimizer of LocalSteps and torchft is
PyTorch's.

Prints the losses of the steps that exchange, means over the ranks, a column each, and the largest relative difference from
dragonn-train. torchft takes dense changes alone, and is left out where it is not installed.
Exit code: 0 done, 1 a run failed or differs by more than --tolerance, 2 bad usage, 77 PyTorch or safetensors is not installed.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import gpt_twin
from runs import expect_known, last_line, metrics, output_of, run_main, sets, table, words

TRAIN = "dragonn-train"
# The others and their scripts.
TORCHFT = "torchft"
PEERS = {"LocalSteps": "local_twin.py", TORCHFT: "torchft_diloco.py"}


def parse_arguments():
    parser = gpt_twin.twin_parser(__doc__)
    parser.add_argument("--peers", type=words, default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--tolerance", type=float, default=1e-3, help="relative (1e-3)")
    options = parser.parse_args()
    expect_known(parser, "peers", options.peers, PEERS)
    return options


def dragonn_train(options, config, folder):
    """Losses by the steps of exchanges, means over the ranks."""
    model, _, _ = gpt_twin.make_model(config)
    save_file(gpt_twin.transformers_tensors(model), folder / "model.safetensors", metadata={"format": "pt"})
    keys = {"train.init_from": folder / "model.safetensors", "logging.every_steps": 1, "checkpoint.every_epochs": 0,
            "train.eval_every_epochs": 0}
    output_of([options.bin / "dragonn-train", options.config, *sets(options.set), *sets(keys), "--output", folder / "run"])
    return {line["step"]: line["loss"] for line in metrics(folder / "run", "step")}


def peer_losses(options, config, script, folder):
    """The losses of the steps, means over the ranks, of a script that writes FOLDER/rank.RANK."""
    world = config["comm"]["workers"]
    command = [sys.executable, HERE / script, options.config, *sets(options.set), "--bin", options.bin,
               "--every", 1, "--interface", "lo", "--output", folder / "rank"]
    store, processes = free_port(), []
    for rank in range(world):
        names = {"RANK": rank, "WORLD_SIZE": world, "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world,
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store, "TORCHELASTIC_RUN_ID": "local_curves"}
        environment = os.environ | {name: str(value) for name, value in names.items()}
        log = open(folder / f"log.{rank}", "w+", encoding="utf-8")
        processes.append((subprocess.Popen([*map(str, command)], env=environment, stdout=log, stderr=log), log))
    for process, log in processes:
        if process.wait() != 0:
            log.seek(0)
            raise RuntimeError(f"{script}: exit code {process.returncode}: {last_line(log.read())}")
        log.close()
    found = [json.loads((folder / f"rank.{rank}").read_text())["steps"] for rank in range(world)]
    return [sum(loss for _, _, loss in steps) / world for steps in zip(*found)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    options = parse_arguments()
    config = gpt_twin.read_config(options, {"train.clip": "local", "update.scheme": "local"})
    torch.set_num_threads(options.threads)
    columns, differs = {}, False
    for side in [TRAIN, *(peer for peer in options.peers if peer != TORCHFT or is_comparable(config))]:
        print(f"local_curves: {side}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            if side == TRAIN:
                own = dragonn_train(options, config, pathlib.Path(folder))
                columns["steps"], columns[TRAIN] = own.keys(), own.values()
            else:
                losses = peer_losses(options, config, PEERS[side], pathlib.Path(folder))
                columns[side] = [losses[step - 1] for step in own]
    print(table(columns, ([step, *(f"{loss:.5f}" for loss in losses)] for step, *losses in zip(*columns.values()))) + "\n")
    for peer in list(columns)[2:]:
        largest = max(abs(a - b) / a for a, b in zip(columns[TRAIN], columns[peer], strict=True))
        differs |= not largest <= options.tolerance
        print(f"{peer} differs from {TRAIN} by {largest:.1e} at most")
    return 1 if differs else 0


def is_comparable(config):
    """Whether torchft is here and has what the config says; says why not."""
    command = [sys.executable, "-W", "ignore", "-c", "import torchft.local_sgd"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    reason = last_line(done.stderr) if done.returncode != 0 else (
        f"compression.method = {config['compression']['method']}" if config["compression"]["method"] != "dense" else None)
    if reason:
        print(f"left out: {TORCHFT}: {reason}", file=sys.stderr)
    return reason is None


try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

if __name__ == "__main__":
    run_main(main, 1, (RuntimeError, OSError, ValueError))
