# SPDX-License-Identifier: MIT
"""A rank's part of a state_dict."""
import ctypes
from typing import Any, Dict, Iterable, Optional

import torch

from ._exchange import Exchange


def saved(exchange: Exchange) -> Dict[str, Any]:
    """The exchange's state of this rank, as a tensor, which every way of saving takes."""
    return {"rank": torch.frombuffer(bytearray(exchange.state()), dtype=torch.uint8)}


def restore(exchange: Exchange, state: Dict[str, Any], all_ranks: Optional[Iterable[Dict[str, Any]]]) -> None:
    """Restores what saved() returned on this rank, or on all ranks of a run of any number of ranks, in their order."""
    if all_ranks is None:
        exchange.load_state(_bytes(state["rank"]))
    else:
        exchange.load_states([_bytes(other["rank"]) for other in all_ranks])


def _bytes(values: torch.Tensor) -> bytes:
    values = values.cpu().contiguous()
    return ctypes.string_at(values.data_ptr(), values.numel())
