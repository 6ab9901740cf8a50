"""Kernels of large arrays by the functions in C that sequences of programs call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import (
    Instruction,
    Layout,
    Place,
    SequencePlan,
    contiguous,
)
from tapegrad_numpy.eager.formulas import MOST_PLANS
from tapegrad_numpy.sequences.calls import sequence_function
from tapegrad_numpy.sequences.instructions import WRITERS

Kernel = Callable[..., Any]
Run = Callable[..., Any]

_ANYWHERE = frozenset({"logsumexp", "matmul_stack", "mean", "prod", "sum"})
"""Primitives whose kernels of NumPy take arrays with gaps as fast as others."""


class NativeKernel:
    """A kernel that calls a function in C, per layout of its operands.

    NumPy's kernel shows which results there are, when operands of some layout come first. It also
    computes where the function cannot: it raises the errors that belong to the operands.
    """

    def __init__(self, name: str, plain: Kernel) -> None:
        self.name, self.plain = name, plain
        self._plans: dict[Any, Run | None] = {}

    def __call__(self, *operands: Any, **params: Any) -> Any:
        layouts = []
        for operand in operands:
            if type(operand) is not np.ndarray or not operand.flags.c_contiguous:
                return self._without_gaps(operands, params)
            layouts.append((operand.dtype, operand.shape))
        key = (tuple(layouts), tuple(params.items()))
        try:
            run = self._plans.get(key, self)
        except TypeError:  # a param without a hash
            return self.plain(*operands, **params)
        if run is self:
            run = self._new_plan(key, operands, params)
        found = None if run is None else run(*operands)
        return self.plain(*operands, **params) if found is None else found

    def _without_gaps(self, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Compute with copies of arrays with gaps, unless NumPy needs none."""
        if self.name in _ANYWHERE or not all([type(one) is np.ndarray for one in operands]):
            return self.plain(*operands, **params)
        return self(
            *[one if one.flags.c_contiguous else np.ascontiguousarray(one) for one in operands],
            **params,
        )

    def _new_plan(self, key: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[key] = _planned(self.name, operands, self.plain(*operands, **params), params)
        return self._plans[key]


def _planned(
    name: str, operands: Sequence[Any], shown: Any, params: Mapping[str, Any]
) -> Run | None:
    """Return a function of operands that returns new results, or None where C cannot compute."""
    is_tuple = isinstance(shown, tuple)
    results = shown if is_tuple else (shown,)
    given = [Layout(array.shape, array.strides, array.dtype) for array in operands]
    made = [contiguous(array.shape, array.dtype) for array in results]
    steps = WRITERS[name](given, made, params)
    if steps is None:
        return None
    places = [Place(layout.dtype, layout.shape, False) for layout in given]
    places += [Place(layout.dtype, layout.shape, True) for layout in made]
    instructions = tuple([Instruction(step, step.arrays) for step in steps])
    function = sequence_function(SequencePlan(tuple(places), (), (), 0, instructions))
    if function is None:
        return None
    kinds = [(layout.shape, layout.dtype) for layout in made]
    is_number = isinstance(shown, np.generic)

    def run(*operands: Any) -> Any:
        new = tuple([np.empty(shape, dtype) for shape, dtype in kinds])
        if function(*operands, *new):
            return None
        if is_number:
            return new[0][()]
        return new if is_tuple else new[0]

    return run
