# SPDX-License-Identifier: MIT
"""Local steps (DiLoCo, SparseLoCo, Streaming DiLoCo) around any optimizer of PyTorch."""
import ctypes
import re
from typing import Any, Callable, Dict, Iterable, List, Optional

import torch
import torch.distributed as dist

from ._ddp import check_ranks, rendezvous
from ._exchange import Exchange, check_parameters
from ._library import Array, call
from ._state import restore, saved


class LocalSteps:
    """Lets every rank step by its own optimizer, and exchanges in every so many steps how far the ranks came from their
    common parameters. An outer optimizer, which all ranks share, applies the mean.

    The model is a plain module, without DistributedDataParallel: backward() sends nothing. step() takes the place of the
    inner optimizer's. `config` has `update.scheme = "local"`, and that table's other keys; [compression] compresses the
    changes (SparseLoCo), `fragments` and `overlap_steps` stream them (Streaming DiLoCo). Rank 0's parameters are the first
    common ones. Buffers of the model (running means) stay each rank's own.

    One optimizer and one model belong to an object; parameters that need no gradient are not exchanged.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, config: str,
                 steps_per_epoch: int = 0, trace: Optional[str] = None) -> None:
        """Collective. `trace`: file for a timeline of the config's logging.trace exchanges."""
        self.optimizer = optimizer
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        check_parameters(named)
        self._parameters = [parameter for _, parameter in named]
        self._hosts: List[torch.Tensor] = []
        self.exchange = Exchange([(_in_layers(name), tuple(parameter.shape)) for name, parameter in named], config,
                                 steps_per_epoch, rendezvous(), trace)
        check_ranks(self.exchange)
        for parameter in self._parameters:
            dist.broadcast(parameter.detach(), src=0)
        self._call("local_start")

    def step(self, closure: Optional[Callable[[], Any]] = None, last: bool = False) -> Any:
        """Makes an inner step, and what follows it. Collective where the schedule exchanges. `last`: the run's last step,
        after which all ranks have the same parameters."""
        loss = self.optimizer.step(closure)
        touches = ctypes.c_int32()
        call("local_next", self.exchange._open(), int(last), ctypes.byref(touches))
        if touches.value:
            self._call("local_step", int(last))
        else:
            call("local_step", self.exchange._open(), None, 0, ctypes.sizeof(Array), int(last))
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def load_common(self) -> None:
        """Gives the model the common parameters, those of the last exchange: to evaluate them, or to go on from them where
        this rank's own are not finite any more."""
        self._call("local_common")

    def state_dict(self) -> Dict[str, Any]:
        """This rank's state: the common parameters, the outer optimizer, error feedback, the place in the round, and the
        inner optimizer. The model's own state_dict() belongs to it."""
        return {**saved(self.exchange), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Dict[str, Any], all_ranks: Optional[Iterable[Dict[str, Any]]] = None) -> None:
        """Restores what state_dict() returned on this rank. In a run of another number of ranks, `all_ranks` are the states
        of all ranks that saved, in their order, and `state` is one of them, whose inner optimizer this rank takes."""
        restore(self.exchange, state, all_ranks)
        self.optimizer.load_state_dict(state["optimizer"])

    def close(self) -> None:
        """Collective. Ends the exchange in order."""
        self.exchange.close()

    def _call(self, name: str, *arguments: int) -> None:
        """Calls a function with all parameters, which are on the host, or copied there and back."""
        values = [parameter.detach() for parameter in self._parameters]
        hosts = values
        if any(value.device.type != "cpu" for value in values):
            self._hosts = self._hosts or [torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
                                          for value in values]
            hosts = self._hosts
            for host, value in zip(hosts, values):
                host.copy_(value)
        self.exchange._call_with(name, self.exchange._records(dict(enumerate(hosts))), *arguments)
        if hosts is not values:
            for host, value in zip(hosts, values):
                value.copy_(host)


def _in_layers(name: str) -> str:
    """The name with a dot behind its layer alone: fragments are made of layers, by the names up to the first dot. A block
    "transformer.h.3.mlp.weight" is the layer transformer/h/3; other modules are layers of their own."""
    block = re.match(r"(?:[^.]+\.)*?\d+(?=\.)", name)
    layer = block.group(0) if block else name.rpartition(".")[0]
    return layer.replace(".", "/") + name[len(layer):] if layer else name
