# SPDX-License-Identifier: MIT
"""Exchange: this process's end of an exchange of gradients."""
import ctypes
import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ._library import (HANDLE, SIZE, Array, DragonnError, Info, Options, Statistics, Tensor, call, integer, library,
                       text)

_DTYPES = {"float32": 0, "bfloat16": 1, "float16": 2}


class Exchange:
    """This process's end of an exchange. As a context manager it ends in order, or at once after an exception.

    Gradients are dense tensors of PyTorch, or arrays of NumPy, on the CPU: float32, bfloat16 or float16. Means take their
    place. One thread at a time uses an exchange, and no process that this one forks.

    >>> import torch
    >>> with Exchange([("fc.weight", (64, 32)), ("fc.bias", (64,))], '[compression]\\nmethod = "topk"') as exchange:
    ...     weight, bias = torch.ones(64, 32), torch.ones(64)
    ...     exchange.exchange([weight, bias])      # all at once, or as they are computed:
    ...     exchange.begin({1: bias})
    ...     exchange.begin({0: weight})
    ...     exchange.wait()
    ...     exchange.statistics()["exchanges"]
    2
    """

    def __init__(self, tensors: Iterable[Tuple[str, Sequence[int]]], config: str = "", steps_per_epoch: int = 0,
                 rendezvous: Optional[str] = None, trace: Optional[str] = None) -> None:
        """Collective. `tensors`: pairs of name and shape, in the order of the forward pass, the same on every rank.
        `rendezvous`: where ranks meet over TCP if the config does not say it ("tcp:HOST:PORT", "file:PATH"). `trace`: file
        for a timeline of the config's logging.trace exchanges, which rank 0 writes for Perfetto."""
        self._handle = HANDLE()
        pairs = list(tensors)
        self.names = [name for name, _ in pairs]
        self.shapes: List[Tuple[int, ...]] = []
        self._begun: Dict[int, Any] = {}  # kept alive until the exchange has ended
        records = (Tensor * max(len(self.names), 1))()
        for record, (name, shape) in zip(records, pairs):
            extents = tuple(integer(f"an extent of tensor {name}", extent) for extent in shape)
            values = (ctypes.c_uint64 * max(len(extents), 1))(*extents)
            record.name, record.dimensions = text("the name of a tensor", name), len(extents)
            record.shape = ctypes.cast(values, ctypes.POINTER(ctypes.c_uint64))
            self.shapes.append(extents)
        place = None if rendezvous is None else text("the rendezvous", rendezvous)
        options = Options(ctypes.sizeof(Options), text("the config", config), place,
                          integer("steps_per_epoch", steps_per_epoch, smallest=0),
                          None if trace is None else text("the file of the trace", trace))
        call("create", ctypes.byref(options), records, len(self.names), ctypes.byref(self._handle))
        self.rank: int = library.dragonn_rank(self._handle)
        self.size: int = library.dragonn_size(self._handle)

    def is_open(self) -> bool:
        return bool(self._handle)

    def _open(self) -> Any:
        if not self._handle:
            raise ValueError("the exchange is closed")
        return self._handle

    def _record(self, place: int, gradient: Any) -> Array:
        """A gradient for C, which must be dense and on the CPU."""
        if not 0 <= place < len(self.names):
            raise ValueError(f"there is no tensor {place}: expected 0 to {len(self.names) - 1}")
        name = self.names[place]
        dtype = str(getattr(gradient, "dtype", type(gradient).__name__))
        if dtype.split(".")[-1] not in _DTYPES:
            raise TypeError(f"the gradient of {name} is {dtype}: expected float32, bfloat16 or float16")
        if hasattr(gradient, "data_ptr"):
            if gradient.device.type != "cpu" or str(gradient.layout) != "torch.strided":
                raise TypeError(f"the gradient of {name} is {gradient.layout} on {gradient.device}: expected a dense one on "
                                "the CPU")
            size, address = gradient.numel(), gradient.data_ptr()
            is_dense = gradient.is_contiguous() or _is_permuted(gradient.shape, gradient.stride())
        else:
            size, address = gradient.size, gradient.ctypes.data
            is_dense = gradient.flags.forc
            if not gradient.flags.writeable:
                raise ValueError(f"the gradient of {name} is read-only, and the mean takes its place")
        shape = self.shapes[place]
        if size != math.prod(shape):
            raise ValueError(f"the gradient of {name} has {size} elements: expected {math.prod(shape)}")
        if tuple(gradient.shape) != shape:
            raise ValueError(f"the gradient of {name} has the shape {tuple(gradient.shape)}: expected {shape}")
        if not is_dense:
            raise ValueError(f"the gradient of {name} has gaps in memory: expected a contiguous one")
        return Array(place, address, _DTYPES[dtype.split(".")[-1]])

    def _records(self, gradients: Mapping[int, Any]) -> Any:
        """The gradients for C, checked."""
        records = [self._record(place, gradient) for place, gradient in gradients.items()]
        return (Array * len(records))(*records)

    def _call_with(self, name: str, records: Any, *others: int) -> None:
        call(name, self._open(), records, len(records), ctypes.sizeof(Array), *others)

    def exchange(self, gradients: Iterable[Any]) -> None:
        """Collective. Replaces the gradients by their means over the ranks."""
        listed = list(gradients)
        if len(listed) != len(self.names):
            raise ValueError(f"there are {len(listed)} gradients: expected {len(self.names)}, one for each tensor")
        self._call_with("exchange_gradients", self._records(dict(enumerate(listed))))

    def begin(self, gradients: Mapping[int, Any]) -> None:
        """Collective. Begins to exchange these gradients, by the places of their tensors, and returns at once. wait() ends
        the exchange when every tensor has begun; until then gradients must not change, and no other call but test() and
        cancel() is possible."""
        self._begin(self._records(gradients), gradients)

    def _begin(self, records: Any, owners: Mapping[int, Any]) -> None:
        """Begins with records that were made before, whose memory the owners keep."""
        self._call_with("begin", records)
        self._begun.update(owners)

    def test(self) -> bool:
        """Whether wait() would return at once."""
        done = ctypes.c_int32()
        call("test", self._open(), ctypes.byref(done))
        return bool(done.value)

    def wait(self) -> None:
        """Waits for the exchange that has begun. The gradients are then means; after an error they are as they were."""
        try:
            call("wait", self._open())
        except DragonnError as error:
            if error.status != "usage":
                self._begun = {}
            raise
        self._begun = {}

    def cancel(self) -> None:
        """Gives up an exchange that has begun, for this rank cannot compute the rest. On the other ranks wait() raises a
        DragonnError with the status "cancelled", and nothing has changed. Does nothing if none has begun."""
        call("cancel", self._open())
        self._begun = {}

    def set_parts(self, parts: Sequence[int]) -> None:
        """Tells in which order gradients will begin: by tensor the number of its begin(). The same on every rank; no
        result depends on it."""
        call("set_parts", self._open(), (SIZE * max(len(parts), 1))(*parts), len(parts))

    def tensor_info(self, place: int) -> Dict[str, Any]:
        """How a tensor is treated: the fields of dragonn_tensor_info in dragonn.h, as a dictionary."""
        info = Info()
        call("get_tensor_info", self._open(), place, ctypes.byref(info), ctypes.sizeof(info))
        return {name: getattr(info, name) for name, _ in Info._fields_}

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of the next exchanges, which acc_form = "folded", masking_rate and density_schedule = "rate" use."""
        call("set_learning_rate", self._open(), learning_rate)

    def statistics(self) -> Dict[str, Any]:
        """The statistics of the last exchange, as in dragonn.h."""
        statistics = Statistics()
        call("get_statistics", self._open(), ctypes.byref(statistics), ctypes.sizeof(statistics))
        return {name: getattr(statistics, name) for name, _ in Statistics._fields_}

    def state(self) -> bytes:
        """This rank's error feedback: to be saved with the model, by each rank."""
        size = SIZE()
        call("state_size", self._open(), ctypes.byref(size))
        state = ctypes.create_string_buffer(size.value)
        call("state_save", self._open(), state, size.value)
        return state.raw

    def load_state(self, state: bytes) -> None:
        """Restores what state() returned on this rank, in a run of the same config, tensors and number of ranks."""
        call("state_load", self._open(), bytes(state), len(state))

    def load_states(self, states: Sequence[bytes]) -> None:
        """Restores what state() returned on all ranks of a run, in their order, on this number of ranks or another one."""
        states = [bytes(state) for state in states]
        call("state_load_all", self._open(), (ctypes.c_char_p * max(len(states), 1))(*states),
             (SIZE * max(len(states), 1))(*map(len, states)), len(states))

    def close(self) -> None:
        """Collective. Ends the exchange in order. Gradients of which some have begun are given up."""
        for end in (self.cancel, self.wait) if self._handle and self._begun else ():
            try:
                end()
                break
            except DragonnError:
                pass  # all have begun, or the group has ended, as destroy will tell
        handle, self._handle = self._handle, HANDLE()
        try:
            if handle:
                call("destroy", handle)
        except DragonnError as error:
            if error.status == "usage":  # another thread uses it, or it is another process's: it is as before
                self._handle = handle
            raise

    def abort(self, reason: Any) -> None:
        """Ends the exchange because this process failed; the others' exchanges fail, too."""
        handle, self._handle = self._handle, HANDLE()
        if handle:
            library.dragonn_abort(handle, str(reason).encode())

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, kind: Any, error: Any, _traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abort(error or kind.__name__)


def check_parameters(named: Iterable[Tuple[str, Any]]) -> None:
    """Raises a TypeError if an exchange cannot take the gradients of these parameters of PyTorch."""
    for name, parameter in named:
        dtype, device = str(parameter.dtype).split(".")[-1], parameter.device.type
        if dtype not in _DTYPES:
            raise TypeError(f"the parameter {name} is {dtype}: expected float32, bfloat16 or float16")
        if device not in ("cpu", "cuda"):
            raise TypeError(f"the parameter {name} is on {device}: expected cpu or cuda")


def _is_permuted(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor fills its memory without gaps, in whatever order of its axes (channels last)."""
    expected = 1
    for stride, extent in sorted((stride, extent) for extent, stride in zip(shape, strides) if extent != 1):
        if stride != expected:
            return False
        expected *= extent
    return True
