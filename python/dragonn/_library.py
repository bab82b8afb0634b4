# SPDX-License-Identifier: MIT
"""libdragonn.so: its functions and structs (library/dragonn.h), and its errors."""
import ctypes
import operator
import os
import pathlib
from typing import Any, Dict, List

ABI = 3  # DRAGONN_ABI of the header that this file follows


class DragonnError(RuntimeError):
    """An error of the library. `status` is its dragonn_status as a word: "config", "timeout", ..."""

    STATUSES = ("ok", "usage", "config", "communication", "timeout", "non_finite", "state", "system", "cancelled")

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = self.STATUSES[status]

    def __reduce__(self) -> Any:
        return type(self), (self.STATUSES.index(self.status), str(self))


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_uint64)), ("dimensions", ctypes.c_uint64)]


class Array(ctypes.Structure):
    _fields_ = [("tensor", ctypes.c_uint64), ("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("config", ctypes.c_char_p), ("rendezvous", ctypes.c_char_p),
                ("steps_per_epoch", ctypes.c_uint64), ("trace", ctypes.c_char_p)]


class Info(ctypes.Structure):
    _fields_ = [("elements", ctypes.c_uint64), ("sparsified", ctypes.c_uint32), ("momentum_applied", ctypes.c_uint32),
                ("learning_rate_applied", ctypes.c_uint32), ("momentum", ctypes.c_float)]


class Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "exchanges", "bytes_sent", "bytes_received", "messages_sent", "elements", "entries_selected",
        "entries_of_sum")] + [(name, ctypes.c_double) for name in (
            "density", "residual_norm", "seconds", "seconds_compensate", "seconds_select", "seconds_exchange",
            "seconds_decode", "seconds_settle")]


HANDLE = ctypes.c_void_p
SIZE = ctypes.c_uint64
ARRAYS = [HANDLE, ctypes.POINTER(Array), SIZE, ctypes.c_size_t]
# By function that returns a status: its arguments.
FUNCTIONS: Dict[str, List[Any]] = {
    "create": [ctypes.POINTER(Options), ctypes.POINTER(Tensor), SIZE, ctypes.POINTER(HANDLE)],
    "destroy": [HANDLE],
    "get_tensor_info": [HANDLE, SIZE, ctypes.POINTER(Info), ctypes.c_size_t],
    "set_learning_rate": [HANDLE, ctypes.c_double],
    "exchange_gradients": ARRAYS,
    "begin": ARRAYS,
    "test": [HANDLE, ctypes.POINTER(ctypes.c_int32)],
    "wait": [HANDLE],
    "cancel": [HANDLE],
    "set_parts": [HANDLE, ctypes.POINTER(SIZE), SIZE],
    "local_start": ARRAYS,
    "local_step": ARRAYS + [ctypes.c_int32],
    "local_common": ARRAYS,
    "local_next": [HANDLE, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)],
    "get_statistics": [HANDLE, ctypes.POINTER(Statistics), ctypes.c_size_t],
    "state_size": [HANDLE, ctypes.POINTER(SIZE)],
    "state_save": [HANDLE, ctypes.c_void_p, SIZE],
    "state_load": [HANDLE, ctypes.c_char_p, SIZE],
    "state_load_all": [HANDLE, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(SIZE), SIZE],
}


def _find() -> str:
    """The file in the environment variable DRAGONN_LIBRARY, else that of the wheel, of build/release or of the system."""
    if os.environ.get("DRAGONN_LIBRARY"):
        return os.environ["DRAGONN_LIBRARY"]
    here = pathlib.Path(__file__).resolve().parent
    for path in (here / "libdragonn.so", here.parent.parent / "build/release/library/libdragonn.so"):
        if path.exists():
            return str(path)
    return "libdragonn.so.0"


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"dragonn: {path} cannot be loaded: {error}: expected the wheel's library, or another one in "
                          "DRAGONN_LIBRARY") from None
    abi = library.dragonn_abi() if hasattr(library, "dragonn_abi") else 1
    if abi < ABI:
        raise ImportError(f"dragonn: {path} has version {abi} of the interface: expected {ABI} or later")
    for name, arguments in FUNCTIONS.items():
        function = getattr(library, f"dragonn_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.dragonn_last_error.restype = ctypes.c_char_p
    library.dragonn_version.restype = ctypes.c_char_p
    library.dragonn_abort.argtypes, library.dragonn_abort.restype = [HANDLE, ctypes.c_char_p], None
    for name in ("rank", "size"):
        getattr(library, f"dragonn_{name}").argtypes = [HANDLE]
    return library


library = _load()


def version() -> str:
    """The version of the library, as "0.1.0-g1234567"."""
    return library.dragonn_version().decode()


def call(name: str, *arguments: Any) -> None:
    """Calls dragonn_NAME. Raises a DragonnError."""
    status = getattr(library, f"dragonn_{name}")(*arguments)
    if status != 0:
        raise DragonnError(status, library.dragonn_last_error().decode(errors="replace"))


def text(what: str, value: Any) -> bytes:
    """A str as bytes for C."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {type(value).__name__}: expected str")
    if "\0" in value:
        raise ValueError(f"{what} has a NUL character, where C would end it")
    return value.encode()


def integer(what: str, number: Any, smallest: int = 1) -> int:
    if operator.index(number) < smallest:
        raise ValueError(f"{what} is {number}: expected at least {smallest}")
    return operator.index(number)
