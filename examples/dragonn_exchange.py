# SPDX-License-Identifier: MIT
"""The exchange of libdragonn.so for Python (ctypes), and as a communication hook of PyTorch's DistributedDataParallel.

    exchange = dragonn_exchange.Exchange([("fc.weight", (64, 32)), ("fc.bias", (64,))], config)
    exchange.exchange([weight_gradient, bias_gradient])   # float32 tensors on the CPU, averaged in place

    hook = dragonn_exchange.DdpHook(ddp_model, config)    # instead of DDP's own allreduce
    ...
    torch.save({"model": ..., "exchange": hook.exchange.state()}, path)   # of each rank
    hook.exchange.load_state(torch.load(path)["exchange"])

`config` is TOML with the keys of dragonn-train: seed, [optimizer], [compression], [comm]. docs/library.md says more. The
library is the file in the environment variable DRAGONN_LIBRARY, else that of build/release or of the system. An error of
the library is a DragonnError of one line; a wrong argument is a TypeError or a ValueError before anything is sent.
"""
import ctypes
import operator
import os
import pathlib
import socket
import weakref


class DragonnError(RuntimeError):
    """An error of the library. `status` is its dragonn_status as a word: "config", "timeout", ..."""

    STATUSES = ("ok", "usage", "config", "communication", "timeout", "non_finite", "state", "system")

    def __init__(self, status, text):
        super().__init__(text)
        self.status = self.STATUSES[status]


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_uint64)), ("dimensions", ctypes.c_uint64)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("config", ctypes.c_char_p), ("rendezvous", ctypes.c_char_p),
                ("steps_per_epoch", ctypes.c_uint64)]


class _Info(ctypes.Structure):
    _fields_ = [("elements", ctypes.c_uint64)] + [
        (name, ctypes.c_uint32) for name in ("sparsified", "momentum_applied", "learning_rate_applied")] + [
            ("momentum", ctypes.c_float)]


class _Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "exchanges", "bytes_sent", "bytes_received", "messages_sent", "elements", "entries_selected",
        "entries_of_sum")] + [(name, ctypes.c_double) for name in (
            "density", "residual_norm", "seconds", "seconds_compensate", "seconds_select", "seconds_exchange",
            "seconds_decode", "seconds_settle")]


_HANDLE = ctypes.c_void_p
_SIZE = ctypes.c_uint64
# By function: what it returns, and its arguments. Without a result it is a status.
_FUNCTIONS = {
    "create": [ctypes.POINTER(_Options), ctypes.POINTER(_Tensor), _SIZE, ctypes.POINTER(_HANDLE)],
    "destroy": [_HANDLE],
    "get_tensor_info": [_HANDLE, _SIZE, ctypes.POINTER(_Info), ctypes.c_size_t],
    "set_learning_rate": [_HANDLE, ctypes.c_double],
    "exchange_tensors": [_HANDLE, ctypes.POINTER(ctypes.c_void_p), _SIZE],
    "get_statistics": [_HANDLE, ctypes.POINTER(_Statistics), ctypes.c_size_t],
    "state_size": [_HANDLE, ctypes.POINTER(_SIZE)],
    "state_save": [_HANDLE, ctypes.c_void_p, _SIZE],
    "state_load": [_HANDLE, ctypes.c_char_p, _SIZE],
    "state_load_all": [_HANDLE, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(_SIZE), _SIZE],
}
_library = None


def _load():
    global _library
    if _library is not None:
        return _library
    built = pathlib.Path(__file__).resolve().parent.parent / "build/release/library/libdragonn.so"
    path = os.environ.get("DRAGONN_LIBRARY") or (str(built) if built.exists() else "libdragonn.so.0")
    library = ctypes.CDLL(path)
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, f"dragonn_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.dragonn_last_error.restype = ctypes.c_char_p
    library.dragonn_version.restype = ctypes.c_char_p
    library.dragonn_abort.argtypes, library.dragonn_abort.restype = [_HANDLE, ctypes.c_char_p], None
    for name in ("rank", "size"):
        getattr(library, f"dragonn_{name}").argtypes = [_HANDLE]
    _library = library
    return library


def _call(name, *arguments):
    library = _load()
    status = getattr(library, f"dragonn_{name}")(*arguments)
    if status != 0:
        raise DragonnError(status, library.dragonn_last_error().decode(errors="replace"))


def _text(what, text):
    """A str as bytes for C."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is {type(text).__name__}: expected str")
    if "\0" in text:
        raise ValueError(f"{what} has a NUL character, where C would end it")
    return text.encode()


def _positive(what, number, smallest=1):
    if operator.index(number) < smallest:
        raise ValueError(f"{what} is {number}: expected at least {smallest}")
    return operator.index(number)


class Exchange:
    """This process's end of an exchange. As a context manager it ends in order, or at once after an exception."""

    def __init__(self, tensors, config="", steps_per_epoch=0, rendezvous=None):
        """Collective. `tensors`: pairs of name and shape, in the order of the forward pass, the same on every rank.
        `rendezvous`: where ranks meet over TCP if the config does not say it ("tcp:HOST:PORT", "file:PATH")."""
        self._handle = _HANDLE()
        tensors = list(tensors)
        self.names = [name for name, _ in tensors]
        self.sizes = []
        records = (_Tensor * max(len(self.names), 1))()
        for record, (name, shape) in zip(records, tensors):
            shape = tuple(_positive(f"an extent of tensor {name}", extent) for extent in shape)
            extents = (ctypes.c_uint64 * max(len(shape), 1))(*shape)
            record.name, record.dimensions = _text("the name of a tensor", name), len(shape)
            record.shape = ctypes.cast(extents, ctypes.POINTER(ctypes.c_uint64))
            self.sizes.append(1)
            for extent in shape:
                self.sizes[-1] *= extent
        place = None if rendezvous is None else _text("the rendezvous", rendezvous)
        options = _Options(ctypes.sizeof(_Options), _text("the config", config), place,
                           _positive("steps_per_epoch", steps_per_epoch, smallest=0))
        _call("create", ctypes.byref(options), records, len(self.names), ctypes.byref(self._handle))
        self.rank = _load().dragonn_rank(self._handle)
        self.size = _load().dragonn_size(self._handle)

    def is_open(self):
        return bool(self._handle)

    def _open(self):
        if not self._handle:
            raise ValueError("the exchange is closed")
        return self._handle

    def _address(self, place, gradient):
        """The address of a gradient, which must be a dense float32 tensor (of PyTorch) or array (of NumPy) on the CPU."""
        name = self.names[place]
        if str(getattr(gradient, "dtype", type(gradient).__name__)) not in ("float32", "torch.float32"):
            kind = getattr(gradient, "dtype", type(gradient).__name__)
            raise TypeError(f"the gradient of {name} is {kind}: expected float32")
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
        if size != self.sizes[place]:
            raise ValueError(f"the gradient of {name} has {size} elements: expected {self.sizes[place]}")
        if not is_dense:
            raise ValueError(f"the gradient of {name} has gaps in memory: expected a contiguous one")
        return address

    def exchange(self, gradients):
        """Collective. Replaces each gradient by the mean over the ranks of what they sent."""
        handle = self._open()
        if len(gradients) != len(self.names):
            raise ValueError(f"there are {len(gradients)} gradients: expected {len(self.names)}, one for each tensor")
        addresses = [self._address(place, gradient) for place, gradient in enumerate(gradients)]
        _call("exchange_tensors", handle, (ctypes.c_void_p * len(addresses))(*addresses), len(addresses))

    def tensor_info(self, place):
        """How a tensor is treated: the fields of dragonn_tensor_info in dragonn.h, as a dictionary."""
        info = _Info()
        _call("get_tensor_info", self._open(), place, ctypes.byref(info), ctypes.sizeof(info))
        return {name: getattr(info, name) for name, _ in _Info._fields_}

    def set_learning_rate(self, learning_rate):
        """Sets the learning rate of the next exchanges; only acc_form = "folded" uses it."""
        _call("set_learning_rate", self._open(), learning_rate)

    def statistics(self):
        """The statistics of the last exchange, as in dragonn.h."""
        statistics = _Statistics()
        _call("get_statistics", self._open(), ctypes.byref(statistics), ctypes.sizeof(statistics))
        return {name: getattr(statistics, name) for name, _ in _Statistics._fields_}

    def state(self):
        """This rank's error feedback, as bytes: to be saved with the model, by each rank."""
        size = _SIZE()
        _call("state_size", self._open(), ctypes.byref(size))
        state = ctypes.create_string_buffer(size.value)
        _call("state_save", self._open(), state, size.value)
        return state.raw

    def load_state(self, state):
        """Restores what state() returned on this rank, in a run of the same config, tensors and number of ranks."""
        _call("state_load", self._open(), bytes(state), len(state))

    def load_states(self, states):
        """Restores what state() returned on all ranks of a run, in their order, on this number of ranks or another one."""
        states = [bytes(state) for state in states]
        _call("state_load_all", self._open(), (ctypes.c_char_p * len(states))(*states),
              (_SIZE * len(states))(*map(len, states)), len(states))

    def close(self):
        """Collective. Ends the exchange in order."""
        handle, self._handle = self._handle, _HANDLE()
        try:
            if handle:
                _call("destroy", handle)
        except DragonnError as error:
            if error.status == "usage":  # another thread uses it, or it is another process's: it is as before
                self._handle = handle
            raise

    def abort(self, reason):
        """Ends the exchange because this process failed; the others' exchanges fail, too."""
        handle, self._handle = self._handle, _HANDLE()
        if handle:
            _load().dragonn_abort(handle, str(reason).encode())

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _traceback):
        if kind is None:
            self.close()
        else:
            self.abort(error or kind.__name__)


def _is_permuted(shape, strides):
    """Whether a tensor fills its memory without gaps, in whatever order of its axes (channels last)."""
    expected = 1
    for stride, extent in sorted((stride, extent) for extent, stride in zip(shape, strides) if extent != 1):
        if stride != expected:
            return False
        expected *= extent
    return True


class DdpHook:
    """Registers the exchange as the communication hook of a DistributedDataParallel model on the CPU.

    The exchange has its own state for each parameter. DDP's buckets carry gradients in whatever order, and DDP rebuilds
    them after the first step: the hook looks each parameter up, and exchanges when the last bucket of a step has come.

    An error of the exchange is raised by backward(), when DDP has ended its step: the gradients are then this rank's
    own, and after zero_grad() the next step can begin. An optimizer that would apply momentum where the exchange does is
    a ValueError in its step().
    """

    def __init__(self, model, config="", steps_per_epoch=0):
        """Collective."""
        import torch.distributed as dist

        if model.process_group.size() != dist.get_world_size():
            raise ValueError(f"DDP averages over {model.process_group.size()} of {dist.get_world_size()} ranks: expected all")
        named = [(name, parameter) for name, parameter in model.module.named_parameters()
                 if parameter.requires_grad and name not in model.parameters_to_ignore]
        self._places = {parameter: place for place, (_, parameter) in enumerate(named)}
        self._begin()
        tensors = [(name, tuple(parameter.shape)) for name, parameter in named]
        self.exchange = Exchange(tensors, config, steps_per_epoch, _rendezvous())
        mine, of_ddp = (self.exchange.rank, self.exchange.size), (dist.get_rank(), dist.get_world_size())
        if mine != of_ddp:
            text = (f"the exchange has rank {mine[0]} of {mine[1]}, and DDP rank {of_ddp[0]} of {of_ddp[1]}: expected a start "
                    "by torchrun or mpirun, or RANK and WORLD_SIZE in the environment of each process")
            self.exchange.abort(text)
            raise ValueError(text)
        infos = map(self.exchange.tensor_info, range(len(named)))
        self._with_momentum = {parameter: (name, info["momentum"])
                               for (name, parameter), info in zip(named, infos) if info["momentum_applied"]}
        self._watch_optimizers()
        model.register_comm_hook(self, _run)

    def parameter_groups(self, momentum):
        """Groups for an optimizer: no momentum where the exchange applies it."""
        groups = {False: [], True: []}
        for parameter in self._places:
            groups[parameter in self._with_momentum].append(parameter)
        wanted = [{"params": groups[False], "momentum": momentum}, {"params": groups[True], "momentum": 0.0}]
        return [group for group in wanted if group["params"]]

    def run(self, bucket):
        """Takes a bucket of gradients; with the last one, exchanges all."""
        import torch

        if bucket.index() == 0:  # a backward() that failed in the middle may have left some
            self._begin()
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            self._gradients[self._places[parameter]] = gradient
        future = torch.futures.Future()
        self._waiting.append((future, bucket.buffer()))
        if bucket.is_last():
            try:
                self.exchange.exchange(self._gradients)
            except BaseException as error:
                _raise_behind_ddp(error)
            for pending, buffer in self._waiting:
                pending.set_result(buffer)
            self._begin()
        return future

    def _begin(self):
        self._waiting, self._gradients = [], [None] * len(self._places)

    def _watch_optimizers(self):
        """From now on checks every optimizer before its step, as long as this hook lives and the exchange is open."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        exchange, applied = self.exchange, self._with_momentum
        if applied:
            watch = register_optimizer_step_pre_hook(lambda optimizer, *_: _check_momentum(optimizer, exchange, applied))
            weakref.finalize(self, watch.remove)


def _run(hook, bucket):
    return hook.run(bucket)


def _raise_behind_ddp(error):
    """Lets backward() raise the error when DDP has ended its step.

    Raised in the hook, or set in a future, the error would leave DDP in the middle of a step, and every later one would
    fail. Callbacks of backward() run in their order, and DDP adds its own, which ends the step, behind the last bucket: so
    a callback that is added now adds the one that raises.
    """
    import torch

    def fail():
        raise error

    engine = torch.autograd.Variable._execution_engine
    engine.queue_callback(lambda: engine.queue_callback(fail))


def _check_momentum(optimizer, exchange, applied):
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


def _rendezvous():
    """A port of rank 0 that is free, told to all ranks by PyTorch; None without MASTER_ADDR."""
    import torch.distributed as dist

    host = os.environ.get("MASTER_ADDR", "")
    if not host or dist.get_world_size() == 1:
        return None
    place = [None]
    if dist.get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            place = [f"tcp:{f'[{host}]' if ':' in host else host}:{probe.getsockname()[1]}"]
    dist.broadcast_object_list(place, src=0)
    return place[0]
