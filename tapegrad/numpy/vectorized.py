"""`vectorize`: apply a Python function to the elements, or to the core parts, of arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.numpy.values import as_arrays, side_by_side, with_dtype
from tapegrad.ops.creation import as_constant
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ops.shape.joining import stack

Core = tuple[str, ...]


class vectorize:  # noqa: N801 -- NumPy's name
    """Apply a function of numbers to arrays, one call per element.

    With a `signature` such as `"(n),(n)->()"`, the function takes arrays of the named axes, and
    the axes before them are looped over. Use `tapegrad.vmap` where the function consists of array
    operations: it makes one call.

    >>> vectorize(lambda a, b: a if a > b else b)([1.0, 5.0], 3.0).tolist()
    [3.0, 5.0]
    >>> vectorize(lambda a: a.sum(), signature="(n)->()")([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [3.0, 7.0]
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any] | None = None,
        otypes: Any = None,
        doc: str | None = None,
        excluded: Any = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.otypes = otypes
        self.cache = cache  # the function is called once per element in any case
        self.excluded = set(excluded or ())
        self.signature = signature
        self._cores = None if signature is None else parse_signature(signature)
        self._doc = doc
        self.pyfunc: Callable[..., Any] | None = None
        if pyfunc is not None:
            self._take(pyfunc)

    def _take(self, pyfunc: Callable[..., Any]) -> None:
        self.pyfunc = pyfunc
        self.__doc__ = self._doc or pyfunc.__doc__
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function for each element of the broadcast arguments."""
        if self.pyfunc is None:  # a decorator with options
            if kwargs or len(args) != 1 or not callable(args[0]):
                raise ArgumentTypeError("vectorize needs a function first, and then its arguments.")
            self._take(args[0])
            return self
        places = [
            *(k for k in range(len(args)) if k not in self.excluded),
            *(name for name in kwargs if name not in self.excluded),
        ]
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        arrays = side_by_side(*(given[place] for place in places))
        cores = [()] * len(arrays) if self._cores is None else self._cores[0]
        if len(cores) != len(arrays):
            raise ArgumentTypeError(
                f"vectorize with signature {self.signature!r} takes {len(cores)} arguments. "
                f"Got {len(arrays)}."
            )
        sizes: dict[str, int] = {}
        loop = np.broadcast_shapes(
            *(_match(x, core, sizes) for x, core in zip(arrays, cores, strict=True))
        )
        columns = [
            reshape(broadcast_to(x, (*loop, *core)), (math.prod(loop), *core))
            for x, core in zip(arrays, (tuple(sizes[n] for n in c) for c in cores), strict=True)
        ]
        results = []
        for row in range(math.prod(loop)):
            given.update(
                (place, column[row]) for place, column in zip(places, columns, strict=True)
            )
            positional = [given[k] for k in range(len(args))]
            results.append(self.pyfunc(*positional, **{name: given[name] for name in kwargs}))
        return self._joined(results, tuple(loop), sizes)

    def _joined(self, results: list[Any], loop: tuple[int, ...], sizes: dict[str, int]) -> Any:
        """Return the results of all calls as one array, or as one per output."""
        if not results:
            return self._empty(loop, sizes)
        is_several = isinstance(results[0], tuple)
        count = len(results[0]) if is_several else 1
        if self._cores is not None and count != len(self._cores[1]):
            raise ArgumentError(
                f"vectorize with signature {self.signature!r} needs {len(self._cores[1])} outputs. "
                f"The function returned {count}."
            )
        columns = list(zip(*results, strict=True)) if is_several else [results]
        joined = [self._column(column, k, loop, sizes) for k, column in enumerate(columns)]
        return tuple(joined) if is_several else joined[0]

    def _column(
        self, column: Sequence[Any], k: int, loop: tuple[int, ...], sizes: dict[str, int]
    ) -> Any:
        parts = as_arrays(column)
        if self._cores is not None:
            for part in parts:
                _match(part, self._cores[1][k], sizes, is_result=True)
        joined = stack(parts)
        joined = reshape(joined, (*loop, *joined.shape[1:]))
        return with_dtype(joined, np.dtype(self.otypes[k])) if self.otypes else joined

    def _empty(self, loop: tuple[int, ...], sizes: dict[str, int]) -> Any:
        """Return empty results, whose dtype no call can tell."""
        outputs: list[Core] = [()] * len(self.otypes or ())
        if self._cores is not None:
            outputs = self._cores[1]
        if not self.otypes or any(name not in sizes for core in outputs for name in core):
            raise ArgumentError(
                "vectorize cannot call the function for arrays without elements. Set otypes, and "
                "use no new axes in signature."
            )
        found = [
            as_constant(np.empty((*loop, *(sizes[name] for name in core)), np.dtype(kind)))
            for core, kind in zip(outputs, self.otypes, strict=True)
        ]
        return found[0] if len(found) == 1 else tuple(found)


def _match(x: Any, core: Core, sizes: dict[str, int], is_result: bool = False) -> tuple[int, ...]:
    """Compare the last axes with the names of a core; return the axes before them."""
    rank = len(x.shape) - len(core)
    if rank < 0 or (is_result and rank):
        raise ShapeError(f"vectorize needs the axes {core}. Got shape {tuple(x.shape)}.")
    for name, length in zip(core, x.shape[rank:], strict=True):
        if sizes.setdefault(name, length) != length:
            raise ShapeError(f"The axis {name!r} has length {sizes[name]} and {length}.")
    return tuple(x.shape[:rank])


_CORE = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_CORES = rf"{_CORE}(?:,{_CORE})*"


def parse_signature(signature: str) -> tuple[list[Core], list[Core]]:
    """Return the names of the core axes of inputs and outputs.

    >>> parse_signature("(n),(m)->(n,m)")
    ([('n',), ('m',)], [('n', 'm')])
    """
    text = re.sub(r"\s+", "", signature)
    if not re.fullmatch(rf"{_CORES}->{_CORES}", text):
        raise ArgumentError(f"signature must look like '(n),(m)->(n,m)'. Got {signature!r}.")
    inputs, outputs = (
        [tuple(re.findall(r"\w+", core)) for core in re.findall(_CORE, side)]
        for side in text.split("->")
    )
    return inputs, outputs
