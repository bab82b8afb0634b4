# SPDX-License-Identifier: MIT
"""The exchange as a communication hook of PyTorch's DistributedDataParallel."""
import os
import socket
import warnings
import weakref
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ._exchange import Exchange, check_parameters
from ._library import DragonnError
from ._staging import Direct, Staging
from ._state import restore, saved

NON_FINITE = ("raise", "skip", "nan")
# A bucket of so many bytes and more than half of the gradients leaves little of backward to exchange it in.
LATE_BUCKET_BYTES = 8_000_000


class DdpHook:
    """Exchanges the gradients of a DistributedDataParallel model. It is the state of the communication hook `hook`, and
    registers itself.

    A bucket of DDP begins to travel as soon as its gradients are final, while backward computes the next ones; with the
    last bucket backward() waits for all. Error feedback belongs to each parameter, so DDP may rebuild its buckets. The
    parameters can be float32, bfloat16 or float16, on the CPU or on one GPU; residuals are float32.

    `non_finite` says what happens when the gradient of some rank holds NaN or infinity. On all ranks nothing is exchanged,
    residuals stay as they were, and DDP ends its step in order.
    - "raise": backward() raises a DragonnError with the status "non_finite".
    - "skip": all gradients become None, so that optimizer.step() does nothing, and `skipped` counts one more.
    - "nan": all gradients become NaN on every rank, for a torch.amp.GradScaler, which then skips the step on every rank.

    Another error of the exchange is raised by backward(), when DDP has ended its step: the gradients are then this rank's
    own, and after zero_grad() the next step can begin unless the group has ended. An optimizer that would apply momentum
    where the exchange does is a ValueError in its step().

    `trace` is a file for a timeline of the config's logging.trace exchanges: what each does while it waits for backward, and
    what behind it.

    state_dict() has this rank's error feedback. A hook can be pickled with it, too: attach() connects the copy to a model.
    """

    def __init__(self, model: Any, config: str = "", steps_per_epoch: int = 0, non_finite: str = "raise",
                 trace: Optional[str] = None) -> None:
        """Collective."""
        if non_finite not in NON_FINITE:
            raise ValueError(f"non_finite is {non_finite!r}: expected one of {', '.join(map(repr, NON_FINITE))}")
        self._options = {"config": config, "steps_per_epoch": steps_per_epoch, "non_finite": non_finite, "trace": trace}
        self.skipped = 0
        self.attach(model)

    def attach(self, model: Any) -> "DdpHook":
        """Collective. Connects the ranks for this model, and registers the hook. Error feedback comes from the hook that was
        pickled."""
        if model.process_group.size() != dist.get_world_size():
            raise ValueError(f"DDP averages over {model.process_group.size()} of {dist.get_world_size()} ranks: expected all")
        named = [(name, parameter) for name, parameter in model.module.named_parameters()
                 if parameter.requires_grad and name not in model.parameters_to_ignore]
        check_parameters(named)
        devices = {parameter.device for _, parameter in named}
        if len(devices) != 1:
            raise ValueError(f"the parameters are on {len(devices)} devices: expected one for each process")
        self._places = {parameter: place for place, (_, parameter) in enumerate(named)}
        self._parts: List[int] = []
        self._buckets: Dict[int, _Bucket] = {}  # by index
        self._steps = 0
        self._begin()
        self.device = devices.pop()
        self.staging: Any = Direct() if self.device.type == "cpu" else Staging(self.device)
        self.exchange = Exchange([(name, tuple(parameter.shape)) for name, parameter in named], self._options["config"],
                                 self._options["steps_per_epoch"], rendezvous(), self._options["trace"])
        check_ranks(self.exchange)
        if "_saved" in self.__dict__:
            self.exchange.load_state(self.__dict__.pop("_saved"))
        infos = map(self.exchange.tensor_info, range(len(named)))
        self._with_momentum: Dict[Any, Tuple[str, float]] = {
            parameter: (name, info["momentum"]) for (name, parameter), info in zip(named, infos)
            if info["momentum_applied"]}
        self._watch_optimizers()
        model.register_comm_hook(self, hook)
        return self

    def __getstate__(self) -> Dict[str, Any]:
        return {"_options": self._options, "skipped": self.skipped, "_saved": self.exchange.state()}

    def state_dict(self) -> Dict[str, Any]:
        """This rank's error feedback, which each rank saves. The states of model and optimizer belong to it."""
        return {**saved(self.exchange), "skipped": self.skipped}

    def load_state_dict(self, state: Dict[str, Any], all_ranks: Optional[Iterable[Dict[str, Any]]] = None) -> None:
        """Restores what state_dict() returned on this rank. In a run of another number of ranks, `all_ranks` are the states
        of all ranks that saved, in their order, and `state` is one of them."""
        restore(self.exchange, state, all_ranks)
        self.skipped = state["skipped"]

    def parameter_groups(self, momentum: float) -> List[Dict[str, Any]]:
        """Groups for an optimizer: no momentum where the exchange applies it."""
        groups: Dict[bool, List[Any]] = {False: [], True: []}
        for parameter in self._places:
            groups[parameter in self._with_momentum].append(parameter)
        wanted = [{"params": groups[False], "momentum": momentum}, {"params": groups[True], "momentum": 0.0}]
        return [group for group in wanted if group["params"]]

    def run(self, bucket: dist.GradBucket) -> torch.futures.Future:
        """Begins to exchange a bucket of gradients; with the last one, waits for all."""
        if bucket.index() == 0:  # a backward() that failed in the middle may have left some
            self._give_up()
        places = [self._places[parameter] for parameter in bucket.parameters()]
        buffer, index = bucket.buffer(), bucket.index()
        known = self._buckets.get(index)
        if known is None or not known.is_of(places, buffer):
            known = self._buckets[index] = _Bucket(places, buffer, bucket.gradients())
        for place in places:
            self._part_of[place] = index
        future: torch.futures.Future = torch.futures.Future(devices=[] if self.device.type == "cpu" else [self.device])
        self._waiting.append((future, index, buffer))

        def begin(host: torch.Tensor) -> None:
            self._guarded(lambda: self.exchange._begin(known.records(self.exchange, host), {places[0]: host}))

        self.staging.to_host(index, buffer, begin)
        if bucket.is_last():
            _behind_ddp(self._settle)
            self.staging.submit(self._end)
        return future

    def _end(self) -> None:
        """Waits for the exchange, and completes DDP's futures whatever it comes to."""
        if self._error is None:
            self._guarded(self.exchange.wait)
        else:
            self._give_up_begun()
        if self._error is None and self._part_of != self._parts:
            self._parts = list(self._part_of)
            self._guarded(lambda: self.exchange.set_parts(self._parts))
        self._steps += 1
        if self._steps == 2:  # DDP has made its final buckets after the first
            self._guarded(self._warn_of_late_bucket)
        for future, index, buffer in self._waiting:
            self.staging.to_device(index, buffer, lambda: future.set_result(buffer))

    def _warn_of_late_bucket(self) -> None:
        sizes: Dict[int, List[int]] = {}
        for parameter, place in self._places.items():
            sizes.setdefault(self._part_of[place], []).append(parameter.numel() * parameter.element_size())
        largest, total = max(sizes.values(), key=sum), sum(map(sum, sizes.values()))
        # A single gradient cannot be divided.
        if self.exchange.size > 1 and len(largest) > 1 and sum(largest) >= max(LATE_BUCKET_BYTES, total / 2):
            warnings.warn(
                f"a bucket of DDP holds {sum(largest) / 1e6:.0f} of {total / 1e6:.0f} MB of gradients, and is not exchanged before "
                "all of them are final, so little of backward hides its exchange: expected smaller buckets, as by "
                "DistributedDataParallel(network, bucket_cap_mb=4)", stacklevel=2)

    def _settle(self) -> None:
        """Ends the step, when DDP has ended its own."""
        error = self._error
        self._begin()
        if error is None:
            return
        policy = self._options["non_finite"]
        # An accumulated gradient that has overflowed stays so: skipping would never end.
        is_skipped = isinstance(error, DragonnError) and error.status == "non_finite" and "overflowed" not in str(error)
        if policy == "raise" or not is_skipped:
            raise error
        self.skipped += 1
        for parameter in self._places:
            if policy == "skip":
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.fill_(float("nan"))

    def _guarded(self, function: Any) -> None:
        """Calls the function unless something has failed, and keeps its error for the end of the step."""
        try:
            if self._error is None:
                function()
        except BaseException as error:
            self._error = error

    def _begin(self) -> None:
        self._waiting: List[Tuple[torch.futures.Future, int, torch.Tensor]] = []
        self._part_of = [0] * len(self._places)
        self._error: Optional[BaseException] = None

    def _give_up(self) -> None:
        """Gives up what a backward() that failed in the middle has begun."""
        if self._waiting:
            done = torch.futures.Future()
            self.staging.submit(lambda: (self._give_up_begun(), done.set_result(None)))
            done.wait()
        self._begin()

    def _give_up_begun(self) -> None:
        try:
            self.exchange.cancel()
        except DragonnError as error:
            self._error = self._error or error

    def _watch_optimizers(self) -> None:
        """From now on checks every optimizer before its step, as long as this hook lives and the exchange is open."""
        exchange, applied = self.exchange, self._with_momentum
        if applied:
            watch = register_optimizer_step_pre_hook(lambda optimizer, *_: _check_momentum(optimizer, exchange, applied))
            weakref.finalize(self, watch.remove)


class _Bucket:
    """Where the gradients of a bucket lie, until DDP makes other buckets: to look at each in every step takes longer than
    to select its entries."""

    def __init__(self, places: List[int], buffer: torch.Tensor, gradients: List[torch.Tensor]) -> None:
        self._places, self._buffer = places, _memory(buffer)
        self._layout = [] if buffer.is_sparse else [
            (gradient.shape, gradient.stride(), gradient.storage_offset()) for gradient in gradients]
        self._host: Any = None
        self._records: Any = None

    def is_of(self, places: List[int], buffer: torch.Tensor) -> bool:
        return self._places == places and self._buffer == _memory(buffer)

    def records(self, exchange: Exchange, host: torch.Tensor) -> Any:
        """The gradients for C, in the bucket or in its copy."""
        if host.is_sparse:  # refused; such a bucket holds nothing else
            return exchange._records({self._places[0]: host})
        if self._host != _memory(host):
            start = host.storage_offset() - self._buffer[-1]
            views = [torch.as_strided(host, shape, stride, offset + start) for shape, stride, offset in self._layout]
            self._records, self._host = exchange._records(dict(zip(self._places, views))), _memory(host)
        return self._records


def _memory(tensor: torch.Tensor) -> Any:
    if tensor.is_sparse:
        return None
    return tensor.data_ptr(), tensor.numel(), tensor.dtype, tensor.storage_offset()


def hook(state: DdpHook, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook, as model.register_comm_hook(state, hook) takes it."""
    return state.run(bucket)


def _behind_ddp(function: Any) -> None:
    """Lets backward() call the function when DDP has ended its step.

    An error that is raised in the hook, or set in a future, would leave DDP in the middle of a step, and every later one
    would fail. Callbacks of backward() run in their order, and DDP adds its own, which ends the step, behind the last
    bucket: so a callback that is added now adds the one that calls the function.
    """
    engine = torch.autograd.Variable._execution_engine
    engine.queue_callback(lambda: engine.queue_callback(function))


def _check_momentum(optimizer: Any, exchange: Exchange, applied: Dict[Any, Tuple[str, float]]) -> None:
    """Raises a ValueError if an optimizer has momentum (Adam: a first moment) for parameters to which an open exchange
    applies it. `applied`: by parameter its name and the exchange's momentum."""
    for group in optimizer.param_groups if exchange.is_open() else []:
        key, momentum = ("betas[0]", group["betas"][0]) if "betas" in group else ("momentum", group.get("momentum", 0))
        twice = next((parameter for parameter in group["params"] if parameter in applied), None) if momentum else None
        if twice is not None:
            name, factor = applied[twice]
            raise ValueError(
                f"{type(optimizer).__name__} has {key} = {float(momentum):g} for {name}, to which the exchange applies "
                f"optimizer.momentum = {factor:g} already: expected an optimizer with the groups of "
                "hook.parameter_groups(momentum), or a config without optimizer.momentum")


def check_ranks(exchange: Exchange) -> None:
    """Raises a ValueError unless the exchange connects the ranks of PyTorch's group."""
    mine, of_group = (exchange.rank, exchange.size), (dist.get_rank(), dist.get_world_size())
    if mine != of_group:
        text = (f"the exchange has rank {mine[0]} of {mine[1]}, and DDP rank {of_group[0]} of {of_group[1]}: expected a start "
                "by torchrun or mpirun, or RANK and WORLD_SIZE in the environment of each process")
        exchange.abort(text)
        raise ValueError(text)


def rendezvous() -> Optional[str]:
    """A port of rank 0 that is free, told to all ranks by PyTorch; None without MASTER_ADDR."""
    host = os.environ.get("MASTER_ADDR", "")
    if not host or dist.get_world_size() == 1:
        return None
    place: List[Any] = [None]
    if dist.get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            place = [f"tcp:{f'[{host}]' if ':' in host else host}:{probe.getsockname()[1]}"]
    dist.broadcast_object_list(place, src=0)
    return place[0]
