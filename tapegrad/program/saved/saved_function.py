"""Record a function for its signature, and call it again from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, product
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, FileFormatError, ShapeError, TapegradError
from tapegrad.ops.creation import zeros
from tapegrad.program.autograph.recording import must_be_recorded
from tapegrad.program.function import Function
from tapegrad.program.record.arguments import flatten_call
from tapegrad.program.record.checks import SavedAssertionError
from tapegrad.program.record.effects import without_effects
from tapegrad.program.record.recording_lock import recording_alone
from tapegrad.program.record.signature import TensorSpec
from tapegrad.program.saved.derived_sizes import (
    Sizes,
    UndeterminedError,
    far_lengths,
    first_lengths,
    other_lengths,
)
from tapegrad.program.saved.encoding import Encoder
from tapegrad.program.saved.extensions import decoded, made_extension
from tapegrad.program.saved.running import SavedGraph
from tapegrad.program.saved.sizes import (
    MOST_SYMBOLS,
    NotGeneralError,
    general,
    largest_bound,
    particular,
    trial_lengths,
)

_FACTORS = (1, 2, 4)
_LONG = 16
"""Factors of the lengths where an axis is divided. Loops over long axes are not unrolled."""
_SYMBOLS_OF_TEXTS = 2
"""Functions with more symbols mostly take images, for which short axes are enough."""
_UNIT = 32
"""Functions that halve images and double them again take multiples of this number."""
_MOST_MORE = 24
"""So many recordings tell apart the rules for a division, or check them."""
_MOST_TRIALS = 40
"""So many combinations of lengths are tried for axes that only some lengths fit."""
_SMALL_LENGTHS = 33
"""Lengths below this one are tried for axes with a length that no variable has."""
_HIGHEST_RANK = 4
"""Functions of tensors without a shape are saved for ranks from 0 up to this one."""


def encoded_function(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], encoder: Encoder,
    names: Sequence[str] = (), whose: str = "The function",
) -> dict[str, Any]:  # fmt: skip
    """Return a function for arguments with TensorSpecs as JSON values.

    Lengths that are None become symbols: one for all first axes, and one for each other axis. If
    an axis has to have one of the lengths of the variables, it gets this length.
    """
    try:
        return _encoded_function(function, args, kwargs, encoder, names, whose)
    except ShapeError:
        for fixed_args, fixed_kwargs in _with_lengths(args, dict(kwargs), encoder.lengths):
            with suppress(ShapeError):
                return _encoded_function(function, fixed_args, fixed_kwargs, encoder, names, whose)
        raise


def _with_lengths(args: Any, kwargs: Any, lengths: Sequence[int]) -> Iterator[tuple[Any, Any]]:
    """Yield the arguments with known lengths in the place of one or more unknown ones.

    First axes are the last to be tried; they all get the same length.
    """
    specs = [one for one in nest.flatten((args, kwargs)) if isinstance(one, TensorSpec)]
    unknown = [
        (number, axis)
        for number, spec in enumerate(specs)
        for axis, size in enumerate(spec.shape or ())
        if size is None
    ]
    inner = [place for place in unknown if place[1]]
    known = dict.fromkeys([*lengths, *range(1, _SMALL_LENGTHS)])
    choices = product([None, *known], repeat=len(inner))
    for chosen in islice(choices, 1, _MOST_TRIALS):
        yield _fixed(args, kwargs, dict(zip(inner, chosen)))
    for length in dict.fromkeys(lengths):
        first = {place: length for place in unknown if not place[1]}
        if first:
            yield _fixed(args, kwargs, first)


def _fixed(args: Any, kwargs: Any, sizes: Mapping[tuple[int, int], int | None]) -> Any:
    """Return the arguments with these lengths, by the number of the spec and the axis."""
    count = iter(range(1_000_000))

    def with_sizes(one: Any) -> Any:
        if not isinstance(one, TensorSpec):
            return one
        number = next(count)
        shape = [sizes.get((number, axis), n) for axis, n in enumerate(one.shape or ())]
        return TensorSpec(shape, one.dtype, one.name)

    return nest.map_structure(with_sizes, (args, kwargs))


def with_ranks(call: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the arguments for each rank of specs without a shape, which all have equal ranks.

    >>> [args[0].shape for args, _ in with_ranks(((TensorSpec(None),), {}))]
    [(), (None,), (None, None), (None, None, None), (None, None, None, None)]
    """
    specs = [one for one in nest.flatten(call) if isinstance(one, TensorSpec)]
    if all(spec.shape is not None for spec in specs):
        return [call]

    def ranked(one: Any, rank: int) -> Any:
        if not isinstance(one, TensorSpec) or one.shape is not None:
            return one
        return TensorSpec([None] * rank, one.dtype, one.name)

    return [
        nest.map_structure(lambda one, rank=rank: ranked(one, rank), call)
        for rank in range(_HIGHEST_RANK + 1)
    ]


def _encoded_function(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], encoder: Encoder,
    names: Sequence[str], whose: str,
) -> dict[str, Any]:  # fmt: skip
    specs = [one for one in nest.flatten((args, dict(kwargs))) if isinstance(one, TensorSpec)]
    symbols = symbols_of(specs, whose)
    order = sorted({symbol for row in symbols for symbol in row if isinstance(symbol, str)})

    def recorded(lengths: tuple[int, ...]) -> tuple[Any, int]:
        sizes = dict(zip(order, lengths))
        given = iter([[sizes.get(n, n) for n in row] for row in symbols])
        return _recorded(function, args, dict(kwargs), given, encoder, whose)

    try:
        tree = for_all_lengths(recorded, len(order), encoder.lengths, may_divide=True)
    except NotGeneralError:
        raise ArgumentError(
            f"{whose} cannot be saved for all lengths: recordings with other lengths make other "
            "operations or constants. Give it an input_signature with fixed shapes."
        ) from None
    return {
        "arguments": encoder.structure(_with_specs((args, dict(kwargs)))),
        "specs": [[row, spec.dtype.name] for row, spec in zip(symbols, specs)],
        "symbols": order,
        "names": list(names),
        **tree,
    }


def for_all_lengths(
    record: Callable[[tuple[int, ...]], tuple[Any, int]], symbols: int, rows: Sequence[int],
    may_divide: bool = False,
) -> Any:  # fmt: skip
    """Return the program for all lengths, from the first set of lengths that it can be called with.

    An axis may have to be a multiple of a number, or all elements make rows of one of `rows`.
    `record` returns the program for some lengths and the largest bound of a slice in it. With
    `may_divide`, lengths may be divided, as by strided convolutions; the program then has rules.
    """
    if may_divide and symbols > _SYMBOLS_OF_TEXTS:
        for unit in (1, _UNIT):
            with suppress(ShapeError, NotGeneralError):
                return _with_divisions(record, symbols, unit=unit)
    try:
        return _for_possible_lengths(record, symbols, rows)
    except NotGeneralError:
        if not may_divide:
            raise
        for factor in _FACTORS if symbols > _SYMBOLS_OF_TEXTS else (*_FACTORS, _LONG):
            with suppress(ShapeError, NotGeneralError):
                return _with_divisions(record, symbols, factor)
        raise


def _with_divisions(
    record: Callable[[tuple[int, ...]], tuple[Any, int]], symbols: int, factor: int = 1,
    unit: int = 1,
) -> Any:  # fmt: skip
    probes, far = other_lengths(symbols, factor, unit), far_lengths(symbols, factor, unit)
    lengths = first_lengths(symbols, factor, unit)
    trees = [_beyond_slices(record, one) for one in lengths]
    for probe in probes[-_MOST_MORE:]:
        sizes = Sizes(lengths, probes)
        try:
            sizes.explain(trees)
            tree = general(trees, lengths, sizes)
        except UndeterminedError as error:
            if error.lengths is None:
                raise NotGeneralError from None
            lengths.append(error.lengths)
            trees.append(_beyond_slices(record, error.lengths))
            continue
        checked = _beyond_slices(record, probe)
        if particular(tree, probe, sizes.rules) == checked:
            _check_far(record, tree, sizes.rules, far)
            return {**tree, "rules": sizes.rules}
        lengths.append(probe)
        trees.append(checked)
    raise NotGeneralError


def _check_far(
    record: Callable[[tuple[int, ...]], tuple[Any, int]], tree: Any, rules: Sequence[Any],
    lengths: tuple[int, ...],
) -> None:  # fmt: skip
    """Raise if code compares lengths and does something else for these ones."""
    with suppress(ShapeError):  # they may be too short
        recorded = record(lengths)[0]
        if particular(tree, lengths, rules) != recorded:
            raise NotGeneralError


def _beyond_slices(
    record: Callable[[tuple[int, ...]], tuple[Any, int]], lengths: tuple[int, ...]
) -> Any:
    """Return a recording; shorter axes would not show where a slice ends."""
    tree, limit = record(lengths)
    if limit >= min(lengths):
        raise NotGeneralError
    return tree


def _for_possible_lengths(
    record: Callable[[tuple[int, ...]], tuple[Any, int]], symbols: int, rows: Sequence[int]
) -> Any:
    ways: list[Any] = [{}]
    if symbols:
        ways += [{"are_round": True}, *[{"row": row} for row in rows]]
    for way in ways[:-1]:
        with suppress(ShapeError):
            return _for_lengths(record, partial(trial_lengths, symbols, **way))
    return _for_lengths(record, partial(trial_lengths, symbols, **ways[-1]))


def _for_lengths(
    record: Callable[[tuple[int, ...]], tuple[Any, int]], chosen: Callable[..., Any]
) -> Any:
    lengths = chosen()
    trees, limits = zip(*[record(one) for one in lengths])
    limit = max(limits)
    if any([min(one, default=limit + 1) <= limit for one in lengths]):
        lengths = chosen(beyond=limit)  # shorter axes would not show where a slice ends
        trees = tuple([record(one)[0] for one in lengths])
    return general(trees, lengths)


def symbols_of(specs: Sequence[TensorSpec], whose: str) -> list[list[Any]]:
    rows = []
    for position, spec in enumerate(specs):
        if spec.dtype.name == "string":
            raise ArgumentError(
                f"{whose} takes text, which is computed in Python and not by a program. Save the "
                "part that takes numbers, and apply the layers or functions of text before it."
            )
        if spec.shape is None:
            raise ArgumentError(f"{whose} needs a TensorSpec with a shape; None is a length.")
        rows.append(
            [
                n if n is not None else "batch" if axis == 0 else f"length_{position}_{axis}"
                for axis, n in enumerate(spec.shape)
            ]
        )
    known = {n for row in rows for n in row if isinstance(n, str)}
    if len(known) > MOST_SYMBOLS:
        raise ArgumentError(
            f"{whose} has {len(known)} axes of unknown length, and at most {MOST_SYMBOLS} are "
            "saved. Fix the others in the input_signature."
        )
    return rows


def _with_specs(value: Any) -> Any:
    """Replace the specs by their positions, and refuse other arguments than plain values."""
    count = iter(range(1_000_000))
    leaves = [{"spec": next(count)} if isinstance(one, TensorSpec) else one
              for one in nest.flatten(value)]  # fmt: skip
    marked = [_Spec(one["spec"]) if isinstance(one, dict) else one for one in leaves]
    return nest.map_structure(_as_text, nest.pack_sequence_as(value, marked))


class _Spec:
    """The position of a tensor among the arguments."""

    def __init__(self, number: int) -> None:
        self.number = number


def _as_text(one: Any) -> Any:
    return f"tensor {one.number}" if isinstance(one, _Spec) else one


def _recorded(
    function: Function, args: Any, kwargs: Any, shapes: Any, encoder: Encoder, whose: str
) -> tuple[dict[str, Any], int]:
    """Return a program for some shapes, and the largest bound of a slice in it."""

    def example(one: Any) -> Any:
        return zeros(next(shapes), one.dtype) if isinstance(one, TensorSpec) else one

    new_args, new_kwargs = nest.map_structure(example, (args, kwargs))
    with recording_alone():
        with must_be_recorded(f"{whose} cannot be saved"), without_effects():
            call = function._recorded_call(flatten_call(new_args, new_kwargs), new_args, new_kwargs)
        try:
            if call.graph.obstacle:
                raise ArgumentError(f"{whose} cannot be saved: {call.graph.obstacle}")
            if call._recording.made:
                raise ArgumentError(
                    f"{whose} creates variables when it is called. Call it once before it is saved."
                )
            if not any(isinstance(one, Variable) for one in nest.flatten(call._result)):
                tree = encoder.graph(call.graph)
                tree["result"] = encoder.structure(_numbered(call._result, whose))
                return tree, largest_bound(call._recording.size_notes.operations)
        finally:
            call.let_go()
    leaves = nest.flatten((new_args, new_kwargs))
    given = iter([one.shape for one in leaves if isinstance(one, Tensor)])
    return _recorded(_reading(function), args, kwargs, given, encoder, whose)


def _reading(function: Function) -> Function:
    """Return a function that returns the values of the variables that another one returns."""

    def read(*args: Any, **kwargs: Any) -> Any:
        # A method gets its object first, and knows it.
        found = function(*(None,) * function._is_method, *args, **kwargs)
        return nest.map_structure(
            lambda one: one.read_value() if isinstance(one, Variable) else one, found
        )

    return Function(read)


def _numbered(result: Any, whose: str) -> Any:
    """Return the structure of a result, with the number of the output for each tensor."""
    count = iter(range(1_000_000))

    def leaf(one: Any) -> Any:
        if isinstance(one, Tensor | Variable):
            return f"output {next(count)}"
        if one is None or isinstance(one, bool | int | float):
            return one
        raise ArgumentError(f"{whose} returns a {type(one).__name__}, and only tensors are saved.")

    return nest.pack_sequence_as(result, [leaf(one) for one in nest.flatten(result)])


class SavedFunction:
    """A function that was read from a file: it takes tensors and returns tensors."""

    def __init__(
        self, name: str, tree: Mapping[str, Any], arrays: Mapping[str, Any],
        variables: Mapping[str, Variable],
    ) -> None:  # fmt: skip
        self.name = self.__name__ = name
        self._graph = SavedGraph(tree, arrays, variables)
        self._symbols = [str(symbol) for symbol in tree["symbols"]]
        self._rows = [(list(row), str(dtype)) for row, dtype in tree["specs"]]
        self.names = [str(one) for one in tree["names"]]
        self._result = tree["result"]
        known = {n for row, _ in self._rows for n in row if isinstance(n, str)}
        if known != {*self._symbols}:
            raise FileFormatError(f"The axes of {name!r:.60} are damaged.")
        self._program = Function(self._run)

    @property
    def input_signature(self) -> list[TensorSpec]:
        """The shapes and dtypes of the tensors that it takes."""
        names: list[Any] = self.names
        if len(names) != len(self._rows):  # a parameter may be a structure of tensors
            names = [None] * len(self._rows)
        return [
            TensorSpec([None if isinstance(n, str) else n for n in row], as_dtype(dtype), name)
            for (row, dtype), name in zip(self._rows, names)
        ]

    @property
    def structured_outputs(self) -> Any:
        """The shapes and dtypes of its results, in their structure."""
        return _filled(self._result, self._graph.output_specs())

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Return whether these tensors have the shapes and dtypes of the signature."""
        return len(leaves) == len(self._rows) and self._lengths(leaves) is not None

    def _lengths(self, tensors: Sequence[Any]) -> tuple[int, ...] | None:
        known: dict[str, int] = {}
        for x, (row, dtype) in zip(tensors, self._rows):
            if len(x.shape) != len(row) or x.dtype.name != dtype:
                return None
            for n, size in zip(row, x.shape):
                expected = known.setdefault(n, int(size)) if isinstance(n, str) else n
                if expected != size:
                    return None
        return tuple(known[symbol] for symbol in self._symbols)

    def __call__(self, *tensors: Any) -> Any:
        if not self.fits(tensors):
            got = ", ".join(f"{x.dtype.name}{list(x.shape)}" for x in tensors)
            wanted = ", ".join(map(repr, self.input_signature))
            raise ArgumentError(
                f"{self.name!r} was saved for {wanted or 'no tensors'}. Got {got or 'none'}. Axes "
                "of the same name must have equal lengths."
            )
        try:
            return self._program(*tensors)
        except (TapegradError, SavedAssertionError):
            raise
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"The saved program of {self.name!r} is damaged, or of another version "
                f"({type(error).__name__}: {error})."
            ) from error

    def _run(self, *tensors: Any) -> Any:
        lengths = self._lengths(tensors)
        assert lengths is not None
        outputs = self._graph.run(tensors, lengths)
        return _filled(self._result, outputs)

    def __repr__(self) -> str:
        return f"<saved function {self.name!r} of {self.input_signature}>"


def _filled(tree: Any, outputs: Sequence[Any]) -> Any:
    if isinstance(tree, str):
        kind, _, number = tree.partition(" ")
        if kind != "output" or not number.isdigit() or int(number) >= len(outputs):
            raise FileFormatError("The structure of a result is damaged.")
        return outputs[int(number)]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "extension":
        return made_extension(content, [_filled(one, outputs) for one in content[3]], decoded)
    if kind == "dict":
        return {key: _filled(one, outputs) for key, one in content.items()}
    return (tuple if kind == "tuple" else list)(_filled(one, outputs) for one in content)
