"""A whole step of PyTorch in one CUDA graph: inputs are copied in, and results are copied out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tapegrad_bench.adapters.library import UnsupportedError

WARM_UP = 3
"""Steps before the capture, in which PyTorch compiles, chooses algorithms and makes its state."""


class Captured:
    """`step` as a graph: a function of tensors like those of `example`."""

    def __init__(
        self,
        step: Callable[[list[Any]], Any],
        example: Sequence[Any],
        before_capture: Callable[[], None] = lambda: None,
    ) -> None:
        self._inputs = [_like(tensor) for tensor in example]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        # On another stream, since a capture cannot wait for the default one.
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step(self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        before_capture()
        self._graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self._graph):
                self._value, self._gradients = step(self._inputs)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            line = str(error).strip().partition("\n")[0]
            raise UnsupportedError(f"PyTorch cannot capture this step: {line[:200]}") from error

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Run the step on other data; the next run leaves its results alone."""
        with torch.no_grad():
            torch._foreach_copy_(self._inputs, tensors)
            self._graph.replay()
            return copied(self._value, self._gradients)


def _like(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def copied(value: Any, gradients: Sequence[Any]) -> Any:
    """Return copies of results that lie in the memory of a graph, which the next run overwrites."""
    value = None if value is None else value.detach().clone()
    return value, [gradient.detach().clone() for gradient in gradients]
