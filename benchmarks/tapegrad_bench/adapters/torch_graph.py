"""A whole step of PyTorch in one CUDA graph: inputs are copied in, and results are copied out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tapegrad_bench.adapters.library import UnsupportedError

WARM_UP = 3
"""Steps before the capture, in which PyTorch compiles, chooses algorithms and makes its state."""


class Captured:
    """`step` as a graph: a function of one list or dictionary of tensors like `example`.

    The steps before the capture run as usual: if they are updates, put the parameters back.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        example: Any,
        before_capture: Callable[[], None] = lambda: None,
    ) -> None:
        self._inputs = each(_like, example)
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
                self._result = step(self._inputs)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            line = str(error).strip().partition("\n")[0]
            raise UnsupportedError(f"PyTorch cannot capture this step: {line[:200]}") from error

    def __call__(self, tensors: Any) -> Any:
        """Run the step on other data; the next run leaves its results alone.

        Tensors in page-locked memory of the host are copied without waiting for the device.
        """
        with torch.no_grad():
            if tensors:  # PyTorch takes no empty list
                torch._foreach_copy_(_leaves(self._inputs), _leaves(tensors), non_blocking=True)
            self._graph.replay()
            return copied(self._result)


def forget_updates(optimizer: Any) -> None:
    """Let an optimizer forget its updates, in place: a graph keeps the addresses of its state."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                value.zero_()


def copied(result: Any) -> Any:
    """Return copies of results that lie in the memory of a graph, which the next run overwrites."""
    return each(lambda tensor: tensor.detach().clone(), result)


def each(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the tensors in dictionaries, lists and tuples."""
    if isinstance(tree, dict):
        return {name: each(function, value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(each(function, value) for value in tree)
    return function(tree) if isinstance(tree, torch.Tensor) else tree


def _like(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _leaves(tensors: Any) -> list[Any]:
    return list(tensors.values()) if isinstance(tensors, dict) else list(tensors)
