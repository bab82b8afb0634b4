# SPDX-License-Identifier: MIT
"""Copies of gradients between a GPU and pinned memory of the host, beside the GPU's other work."""
import concurrent.futures
from typing import Any, Callable, Dict, Hashable

import torch


class Staging:
    """The host copies of a GPU's gradients. They travel on a stream of their own, so the GPU goes on with backward, and a
    thread waits for them, so the caller does, too. `backend` has the interface of torch.cuda."""

    def __init__(self, device: torch.device, backend: Any = torch.cuda) -> None:
        self._device, self._backend = device, backend
        self._stream = backend.Stream(device)
        self._hosts: Dict[Hashable, torch.Tensor] = {}
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "dragonn-staging")

    def to_host(self, key: Hashable, source: torch.Tensor, then: Callable[[torch.Tensor], None]) -> None:
        """Copies what the GPU has computed by now, and calls `then` with the copy. Calls come in the order of copies."""
        self._stream.wait_stream(self._backend.current_stream(self._device))
        with self._backend.stream(self._stream):
            host = self._host(key, source)
            host.copy_(source, non_blocking=True)
            copied = self._backend.Event()
            copied.record(self._stream)

        def continue_() -> None:
            copied.synchronize()
            then(host)

        self._thread.submit(continue_)

    def to_device(self, key: Hashable, target: torch.Tensor, then: Callable[[], None]) -> None:
        """Copies the host's numbers back, and calls `then` with the copy's stream as the current one."""
        with self._backend.stream(self._stream):
            target.copy_(self._hosts[key], non_blocking=True)
            then()

    def submit(self, function: Callable[[], None]) -> None:
        """Calls the function behind the copies to the host so far."""
        self._thread.submit(function)

    def _host(self, key: Hashable, source: torch.Tensor) -> torch.Tensor:
        host = self._hosts.get(key)
        if host is None or host.shape != source.shape or host.dtype != source.dtype:
            host = torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda)
            self._hosts[key] = host
        return host


class Direct:
    """The same for gradients in the host's memory, which need no copies."""

    def to_host(self, _key: Hashable, source: torch.Tensor, then: Callable[[torch.Tensor], None]) -> None:
        then(source)

    def to_device(self, _key: Hashable, _target: torch.Tensor, then: Callable[[], None]) -> None:
        then()

    def submit(self, function: Callable[[], None]) -> None:
        function()
