"""Kernels of the primitives that have no generic form, borrowed from NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import array_api_strict as strict

from tapegrad.core.backend.registry import get_backend
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_strict.namespace import pack, unpack


class HostedKernels(Mapping[str, Callable[..., Any]]):
    """NumPy's kernels on unpacked arrays, as a GPU library would bring its own.

    All other primitives run in their generic form on the strict namespace.
    """

    def __init__(self) -> None:
        self._kernels = get_backend("numpy").kernels

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if PRIMITIVES[name].forward is not None or hasattr(strict, name):
            raise KeyError(name)
        kernel = self._kernels[name]

        def hosted(*arrays: Any, **params: Any) -> Any:
            return pack(kernel(*[unpack(array) for array in arrays], **params))

        return hosted

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)
