"""Protocols of the optional parts that a backend may list in its `Capabilities`.

Each adds one way to run faster. They are apart from `capabilities.py`, which every program imports:
most of them are read by type checkers only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from tapegrad.core.backend.native_sequences import LoopWriter

Array = Any
"""A raw array of some backend."""

DType = np.dtype[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., Any]

Pullback = Callable[[Array, Any, Any, dict[str, Any], bool], Sequence[Array | None] | None]
"""All VJP rules of a primitive: (cotangent, saved values per input, which inputs are wanted,
params, whether to conjugate) -> one cotangent per input, or None to fall back to the rules."""


class FusedPullbacks(Protocol):
    """VJP rules compiled into one kernel per primitive."""

    def pullback(self, primitive: str) -> Pullback | None:
        """Return the kernel for all rules of a primitive, or None if there is none.

        It computes `rule.guarded`: where the cotangent is 0, the results are 0.
        """


class InPlaceKernels(Protocol):
    """Kernels that write into an operand. The engine calls them only on buffers that it owns."""

    def add(self, total: Array, addend: Array) -> None:
        """Add `addend` to `total`; both have the same shape and dtype."""

    def accumulate(self, primitive: str) -> Callable[..., bool] | None:
        """Return a kernel that adds a primitive's result to its first argument, or None.

        The kernel takes (total, *operands, **params) and returns False, without writing, if it
        cannot handle these operands.
        """

    def overwrite(self, primitive: str) -> Kernel | None:
        """Return a kernel that may write results over `Primitive.overwritten`, or None.

        Those are operands whose arrays nothing else needs.
        """


class LoopCompiler(Protocol):
    """Compiles fused loops (see core/trace/loop.py)."""

    @property
    def dtypes(self) -> Collection[str] | None:
        """Names of the dtypes that loops may use; None for all."""

    @property
    def complex_primitives(self) -> Collection[str] | None:
        """Names of the primitives that loops compute with complex numbers; None for all."""

    @property
    def joins(self) -> bool:
        """Whether `compile` accepts `JoinedLoops`: one formula over many arrays in one launch."""

    @property
    def windows(self) -> Collection[str]:
        """Primitives that loops need not run: they read the operand elsewhere (`Along`).

        Of "roll", "unslice", "flip", "slice", "split" and "unstack". The last three are also read
        behind one of the others.
        """

    @property
    def definitions(self) -> Collection[str]:
        """Primitives that are replaced by the operations that they consist of, such as "softmax".

        Loops then compute these together with the calls around them.
        """

    @property
    def widened(self) -> Collection[str]:
        """Primitives whose calls in half precision become calls in single precision.

        Loops cast the operands and the results.
        """

    def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
        """Whether `compile` accepts loops with stages for so many rows of this length.

        The elements of a row are `stride` apart in an array of the space of the loop: 1 for its
        last axes. It should be true where one such loop is faster than several loops without
        stages.
        """

    def recomputes(self, weight: int, nbytes: int) -> bool:
        """Whether operations of this weight take less time than to read or write so many bytes.

        The weight is 1 for an addition and 8 for a division or an exponential. If it is true, loops
        compute values again instead of storing them for each other.
        """

    def adds_rows(self, dtype: DType, entries: int, size: int) -> bool:
        """Whether `compile` accepts outputs that add so many rows into `size` rows (`Rows`).

        It should be true where that is faster than storing the rows and adding them afterwards.
        """

    def gathers(self, nbytes: int) -> bool:
        """Whether loops should read rows by index in a table of so many bytes.

        It should be false where reading at random places takes long, so that it is done once.
        """

    def sorts_rows(self, entries: int, row: int, size: int) -> bool:
        """Whether so many rows of `row` bytes should be sorted before loops add them.

        It should be true where neighbouring rows of one index are added faster, by more than it
        takes to sort the indices.
        """

    def compile(self, loops: Sequence[Any]) -> Sequence[Callable[..., Any] | None]:
        """Return a function `(arrays, targets) -> results` per loop, None for unsupported ones.

        A target is an array to write the result into, or None for a new array.
        """

    def result_buffer(self, shape: Shape, dtype: DType) -> Callable[[], Array | None] | None:
        """Return a source of reusable arrays for a large result of a program, or None."""

    def source(self, run: Callable[..., Any]) -> str | None:
        """Return the source text of a compiled loop, or None if it is not kept."""


@runtime_checkable
class CallsInC(Protocol):
    """A part of a `LoopCompiler` whose loops can be called without Python code."""

    def writer(self, run: Callable[..., Any]) -> LoopWriter | None:
        """Return a compiled loop as a function in C, or None if it cannot be called like that."""


class LoopCall(NamedTuple):
    """A call of a compiled loop, whose arrays have known places."""

    run: Callable[..., Any]
    """What `LoopCompiler.compile` has returned."""

    strides: Sequence[Shape]
    """The strides of each array in bytes."""

    offsets: Sequence[int]
    """Where each array begins, in bytes from the start of the memory that was allocated."""

    overwritten: Sequence[int | None]
    """Per result, the position of the array that it is written over, or None."""


@runtime_checkable
class CompilesAtLaunch(Protocol):
    """A part of a `LoopCompiler` whose loops are compiled when their first arrays are known."""

    def prepare(self, calls: Sequence[LoopCall]) -> None:
        """Compile the code of these calls now, as much as possible at the same time.

        A call with other arrays compiles its loop when it is made. So does a call whose loop could
        not be compiled here, and raises the error.
        """


class SpecializableCall(NamedTuple):
    """A call whose shapes are known."""

    primitive: str
    operands: Sequence[tuple[Shape, DType]]
    params: Mapping[str, Any]


class ShapeSpecializer(Protocol):
    """Compiles kernels for calls whose shapes are fixed."""

    @property
    def primitives(self) -> Collection[str]:
        """Names of the primitives that `specialize` accepts."""

    def specialize(self, calls: Sequence[SpecializableCall]) -> Sequence[Kernel | None]:
        """Return a kernel per call, None where the ordinary kernel is as good."""


ProgramRun = Callable[[Sequence[Array], list[Array]], tuple[Sequence[Array], Sequence[Array]]]
"""(inputs, variables) -> (outputs, new arrays of the written variables)."""


@runtime_checkable
class GraphRun(Protocol):
    """A program run that is captured as a graph, or knows why it is not."""

    reason: str
    """Why the run is not captured; empty if it is, or will be."""

    refused_at: int | None
    """The line of the run's Python source that could not be captured, if known."""

    def __call__(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        """Run the program."""


@runtime_checkable
class DeferredRun(Protocol):
    """A program run that leaves its writes to variables to the caller, which makes them at once."""

    def prepare(self, inputs: Sequence[Array], variables: list[Array], anew: bool) -> Deferred:
        """Compute everything that overwrites no variable, and return the rest as calls.

        With `anew`, all variables that are overwritten get new arrays, which no object can hold.
        """

    def watch(self, held: Any, writes: Any, checks: Any) -> Iterable[bool]:
        """Return an iterator, in C, that yields True for an array that another object holds now.

        The arguments are what `prepare` has returned. A caller with several threads reads it right
        before it makes the calls.
        """


DeferredCalls = Sequence[tuple[Any, ...]]
"""Calls that are made later, each as a function of `LoopWriter` and its arguments."""

Deferred = tuple[tuple[Sequence[Array], Sequence[Array], DeferredCalls, DeferredCalls], bool]
"""What the run has returned, and a flag.

The run returns outputs, the arrays of the written variables, the calls that write, and calls that
only check the arrays of these, if there is more than one. The flag says that an array that is
overwritten is not that of its variable, which gets it afterwards.
"""


class ProgramCapture(Protocol):
    """Turns the run of a program into one that is cheaper to repeat, e.g. a CUDA graph."""

    @property
    def launches_graphs(self) -> bool:
        """Whether a captured run costs one launch, so that recording a step saves time."""

    def capture(
        self, run: ProgramRun, written: Sequence[int], in_place: Sequence[int]
    ) -> ProgramRun | GraphRun:
        """Return a run with the same results.

        `written` are the positions of the variables that the program changes. `in_place` are
        those whose arrays it overwrites: the captured run passes arrays for them that no other
        object holds.
        """


@runtime_checkable
class DefersWrites(Protocol):
    """A part of a `ProgramCapture` that can leave writes to variables to the caller."""

    def defer(self, run: Callable[..., Any], in_place: Sequence[int]) -> DeferredRun:
        """Return a run that passes arrays that no other object holds for the positions `in_place`.

        `Deferred` says what `run` returns.
        """


CastAll = Callable[[Sequence[Array]], list[Array] | None]


class BatchedCasts(Protocol):
    """Casts of many arrays in one launch."""

    def cast(self, arrays: Sequence[Array], dtypes: Sequence[DType]) -> list[Array]:
        """Cast each array to its dtype."""

    def prepare(self, arrays: Sequence[Array], dtype: DType) -> CastAll | None:
        """Return a function that casts arrays like these repeatedly, or None if it cannot.

        The function returns None when the arrays no longer match those it was prepared for.
        """


class GroupKernel(Protocol):
    """One optimizer step of a group of variables."""

    def __call__(
        self,
        arrays: list[Array],
        gradients: Sequence[Array],
        rate: Array,
        count: Array,
        params: Mapping[str, Any],
        *,
        amount: float = 0.0,
        decayed: int = 0,
        share: float = 0.0,
        factor: Array = None,
        further: Sequence[Array] = (),
    ) -> list[Array]:
        """Make a step and return the arrays after it; the given list if all changed in place.

        The first `decayed` variables are first reduced by `rate * amount` of their value. Running
        averages move by `share` of their distance to the new value, or all of it where `count`
        is 1. Gradients are multiplied by `factor` unless it is None. `further` are the other
        numbers that the rule reads. An array that anything but its variable and this list holds
        must not be written to. If the call raises, nothing has changed.
        """

    def factor(self, gradients: Sequence[Array], limit: float) -> Array:
        """Return the factor that reduces the gradients' global norm to `limit`."""


class AverageKernel(Protocol):
    """One update of a group of moving averages."""

    def __call__(self, averages: list[Array], seen: Sequence[Array], share: float) -> list[Array]:
        """Move averages by `share` of the distance to `seen` and return the arrays after it.

        The given list is returned if all changed in place. An array that anything but its variable
        and this list holds must not be written to.
        """


class GroupedUpdates(Protocol):
    """Optimizer steps, moving averages and clipping of many arrays in one launch."""

    def prepare(
        self, rule: str, arrays: Sequence[Array], variables: int, averaged: bool
    ) -> GroupKernel | None:
        """Return the step of an update rule for these arrays, or None if it cannot be grouped.

        `rule` is the name of the update primitive. `arrays` holds all parameters, then all first
        slots, and so on; with `averaged` the running averages come last. `variables` is the
        number of parameters.
        """

    def prepare_averages(self, averages: Sequence[Array]) -> AverageKernel:
        """Return the update of these moving averages; they have one floating dtype and device."""

    def clip(self, arrays: Sequence[Array], limit: float) -> tuple[Sequence[Array], Array] | None:
        """Return arrays scaled to a global norm of at most `limit`, and that norm, or None."""


class RowTransfers(Protocol):
    """Batches of rows chosen on the host."""

    def take(self, arrays: Sequence[Array], rows: np.ndarray) -> list[Array] | None:
        """Return the rows of arrays on the device, or None if it cannot."""

    def place(
        self, arrays: Sequence[np.ndarray], rows: np.ndarray, like: Array
    ) -> list[Array] | None:
        """Copy the rows of host arrays to the device of `like`, or return None if it cannot."""


class BatchTransfers(Protocol):
    """Copies of arrays that are used together, such as the arguments of a training step."""

    def place(self, values: Sequence[np.ndarray], device: str, as_one: bool) -> list[Array]:
        """Copy host arrays to a device; at least one is given, and each may change afterwards.

        Work that is submitted to the device later reads the copies. The copies need not wait for
        work that was submitted before. With `as_one` they may be parts of one block of memory,
        because they are released together.
        """


class Adoption(Protocol):
    """Arrays that only combine with arrays of the same recording."""

    def adopt(self, like: Array, values: Sequence[Any]) -> list[Any]:
        """Return `values` with foreign arrays turned into constants of the recording of `like`."""
