#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a program that runs every block of Python in a Markdown file, one after the other, each by itself.

    python_blocks.py FILE...

A block finds what a reader has: a PyTorch group, `network`, `batches` of images and labels, a `trainer`, and the names below.
"""
import re
import sys

print('''import atexit, os, sys, tempfile
import torch, torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
import dragonn

torch.set_num_threads(1)
dist.init_process_group("gloo")
folder = tempfile.mkdtemp()
path_of_this_rank = os.path.join(folder, "state.pt")


class Trainer:
    """Calls a callback where the Trainer of transformers does."""

    def __init__(self, network, batches):
        self.network, self.batches = network, batches

    def add_callback(self, callback):
        self.callback = callback

    def train(self):
        self.model_wrapped = DistributedDataParallel(self.network)
        self.callback.on_train_begin(None, None, None, model=self.network)
        for images, labels in self.batches:
            cross_entropy(self.model_wrapped(images), labels).backward()
        self.callback.on_train_end(None, None, None, model=self.network)


def names():
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(30, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    torch.manual_seed(dist.get_rank())
    batches = [(torch.randn(4, 30), torch.randint(0, 10, (4,))) for _ in range(6)]
    return dict(globals(), network=network, batches=batches, trainer=Trainer(network, batches), TrainerCallback=object)
''')
for path in sys.argv[1:]:
    for block in re.findall(r"^```python\n(.*?)^```$", open(path).read(), re.MULTILINE | re.DOTALL):
        print(f"exec(compile({block!r}, {path!r}, 'exec'), names())")
print("dist.barrier()\nos._exit(0)")
