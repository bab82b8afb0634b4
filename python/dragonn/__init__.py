# SPDX-License-Identifier: MIT
"""Gradients on slow networks: each process sends a part of its gradient, and keeps the rest for its next one.

    model = DistributedDataParallel(network)
    hook = dragonn.DdpHook(model, '''
    [compression]
    method = "topk"
    density = 0.01
    ''')

- `DdpHook` is the communication hook of a DistributedDataParallel model: gradients travel during backward.
- `LocalSteps` exchanges changes of parameters in every so many steps instead: DiLoCo around any optimizer.
- `Exchange` averages gradients in any other loop; `rendezvous` tells its ranks where they meet.

A config is TOML with the keys of dragonn-train: seed, [optimizer], [compression], [comm]. The guide is docs/library.md of
https://github.com/dragonn. An error of the library is a `DragonnError` of one line; a wrong argument is a TypeError or a
ValueError before anything is sent.
"""
from ._ddp import DdpHook, hook, rendezvous
from ._exchange import Exchange
from ._library import DragonnError, version
from ._local_steps import LocalSteps

__version__ = version()
__all__ = ["DdpHook", "DragonnError", "Exchange", "LocalSteps", "hook", "rendezvous", "version"]
