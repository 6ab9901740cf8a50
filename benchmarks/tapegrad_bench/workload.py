"""What a workload is: data, maths, sizes and costs, defined once for every library.

The maths is a function of an `Ops` object, which holds a library's own functions under common
names, so that all libraries run the same lines. Nothing here imports any of those libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tapegrad_bench.precision import is_half, rounded
from tapegrad_bench.results import Size

Array = Any
"""An array of some library."""
Dims = Mapping[str, int]
"""The numbers that make up a size, e.g. {"batch": 64, "width": 128}."""
Arrays = list[np.ndarray]
Function = Callable[..., Any]

SEED = 0

SETS = 8
"""How many sets of inputs the steps of a problem take in turn.

With a single set a library may keep addresses, or values, that change at every step of real
training.
"""

TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 3e-2, "float16": 1e-2}
"""Half precision keeps 8 (bfloat16) or 11 (float16) bits of every intermediate result."""


class Ops(Protocol):
    """A library's functions under common names; images have whatever layout it likes.

    They are read-only members, so that a library's own function can stand for one as it is.
    """

    @property
    def tanh(self) -> Function:
        """Of x."""

    @property
    def relu(self) -> Function:
        """Of x."""

    @property
    def gelu(self) -> Function:
        """Of x, in the form with tanh."""

    @property
    def sum(self) -> Function:
        """Of all elements of x."""

    @property
    def mean(self) -> Function:
        """Of all elements of x."""

    @property
    def half(self) -> Function:
        """Cast x to the precision of the computation, if that is half."""

    @property
    def single(self) -> Function:
        """Cast x to single precision, if the computation is in half."""

    @property
    def matvec(self) -> Function:
        """Multiply a matrix and a vector."""

    @property
    def matmul_t(self) -> Function:
        """Multiply x and the transposed matrix w."""

    @property
    def reshape(self) -> Function:
        """Give x another shape."""

    @property
    def cross_entropy(self) -> Function:
        """Average -log softmax(logits)[label] over the rows of logits; takes labels too."""

    @property
    def layer_norm(self) -> Function:
        """Normalise the last axis of x with epsilon 1e-5; takes gain and bias too."""

    @property
    def embedding(self) -> Function:
        """Pick the rows of a table that tokens name."""

    @property
    def attention(self) -> Function:
        """Attend causally; takes [tokens, 3 * width] with q, k and v, the batch, the heads."""

    @property
    def conv(self) -> Function:
        """Convolve images x with 3 by 3 filters w, zeros around them, and a stride."""

    @property
    def batch_norm(self) -> Function:
        """Normalise each channel of x with epsilon 1e-5; takes gain and bias too."""

    @property
    def spatial_mean(self) -> Function:
        """Average images over height and width: [batch, channels]."""


class Kind(StrEnum):
    """What one step of a workload is."""

    GRADIENT = "gradient"
    """A scalar and its gradients by the parameters."""
    PULLBACK = "pullback"
    """An array and the gradients for a given gradient of it, the last array of the batch."""
    TRAINING = "training"
    """A loss, its gradients, and the optimizer's update."""
    HVP = "hvp"
    """The Hessian of a scalar times the last array of the batch."""
    JACOBIAN = "jacobian"
    """All derivatives of a vector by a vector."""
    FOOTPRINT = "footprint"
    """No computation: what a library costs before it computes anything."""


@dataclass(frozen=True)
class Optimizer:
    """An update rule by the name that NumPy's reference knows: sgd, momentum, adam or adamw."""

    name: str
    rate: float
    momentum: float = 0.9
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Cost:
    """What any implementation of one step has to do at least."""

    bytes: int | None = None
    flops: int | None = None
    parameters: int = 0


def no_data(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """The data of a workload that computes nothing."""
    return [], []


def no_maths(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """The maths of a workload that computes nothing."""
    raise NotImplementedError("This workload has no maths.")


@dataclass(frozen=True)
class Workload:
    """One row of the benchmark."""

    name: str
    summary: str
    kind: Kind
    defaults: Mapping[str, Dims]
    """The size timed on "cpu" and on "cuda"."""
    dtypes: Mapping[str, str]
    """The dtype timed on "cpu" and on "cuda"."""
    default_on: tuple[str, ...]
    """The kinds of device where it is timed if nobody says which workloads to run."""
    size: Callable[[Dims], Size]
    cost: Callable[[Dims, str], Cost]
    make: Callable[[np.random.Generator, Dims], tuple[Arrays, Arrays]] = no_data
    """Draw parameters and batch, in float32; whole numbers are int64."""
    forward: Callable[[Ops, Dims, Sequence[Array], Sequence[Array]], Array] = no_maths
    check: Dims = field(default_factory=dict)
    """A small size, at which loss and gradients are compared with the reference."""
    scaling: tuple[Dims, ...] = ()
    """Further sizes, to see how the cost grows."""
    optimizer: Optimizer | None = None
    tolerance: Mapping[str, float] = field(default_factory=lambda: TOLERANCE)
    """Allowed relative error by dtype."""

    def sizes(self, device: str) -> dict[str, Dims]:
        """Return every size by its label, the default of `device` first."""
        found = {self.size(dims).label: dims for dims in (self.defaults[device], *self.scaling)}
        if self.check:
            found.setdefault(self.size(self.check).label, self.check)
        return found


@dataclass(frozen=True)
class Problem:
    """A workload at one size and dtype, with its data."""

    workload: Workload
    dims: Dims
    dtype: str

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it the same problem again."""
        return (self.workload.name, *sorted(self.dims.items()), self.dtype)

    @cached_property
    def _drawn(self) -> tuple[Arrays, Arrays]:
        return self.workload.make(np.random.default_rng(SEED), self.dims)

    @property
    def parameter_dtype(self) -> str:
        """What parameters are kept in: single precision where a step trains in half precision."""
        masters = self.workload.kind is Kind.TRAINING and is_half(self.dtype)
        return "float32" if masters else self.dtype

    @cached_property
    def params(self) -> Arrays:
        """The parameters in float32 or float64, with values that `parameter_dtype` can hold."""
        return [rounded(array, self.parameter_dtype) for array in self._drawn[0]]

    @cached_property
    def batch(self) -> Arrays:
        """Everything else; floating values are such that `dtype` can hold them."""
        return [
            rounded(array, self.dtype) if array.dtype.kind == "f" else array
            for array in self._drawn[1]
        ]

    def batches(self) -> Iterator[Arrays]:
        """Yield the sets of a training step, one at a time, since they may be large."""
        for number in range(SETS):
            yield [_moved(array, number) for array in self.batch]

    def inputs(self) -> Iterator[tuple[Arrays, Arrays]]:
        """Yield the sets of a step without an update, whose parameters are inputs as well."""
        for number in range(SETS):
            yield (
                [_moved(array, number) for array in self.params],
                [_moved(array, number) for array in self.batch],
            )

    @property
    def cost(self) -> Cost:
        """What one step needs at least."""
        return self.workload.cost(self.dims, self.dtype)

    def apply(self, ops: Ops, params: Sequence[Array], batch: Sequence[Array]) -> Array:
        """Run the maths with a library's functions."""
        return self.workload.forward(ops, self.dims, params, batch)


def _moved(array: np.ndarray, number: int) -> np.ndarray:
    """Return the numbers of an array at other places, and with other signs in every other set.

    They are other data, which cost nothing to draw. A sum does not depend on places: without the
    signs a result that belongs to another set would not show in it.

    >>> _moved(np.arange(8), 1), _moved(np.array(2.0), 1)
    (array([1, 2, 3, 4, 5, 6, 7, 0]), array(-2.))
    """
    moved = np.roll(array, 7 * number, axis=-1) if number and array.ndim else array
    negated = number % 2 and array.dtype.kind == "f"
    return np.asarray(-moved) if negated else moved
