"""vmap: run a function on many examples at once by a leading axis on every value.

A `Batched` value represents one example and holds all of them. A primitive applies its batching
rule to such values; without a rule it runs once per example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

from tapegrad.core.call_site import warn_outside
from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive, bind
from tapegrad.core.recorder import Node
from tapegrad.core.uninterrupted import starts_uninterrupted
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import DType
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.control.vmap_hook import register_spread
from tapegrad.ops.interface.operators import bind_operators
from tapegrad.ops.shape import functions as shapes, joining
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p


class Frame:
    """One running `vmap`: its depth, the number of examples, and the `vmap` around it."""

    __slots__ = ("level", "parent", "size")

    def __init__(self, level: int, size: int, parent: Frame | None = None) -> None:
        self.level = level
        self.size = size
        self.parent = parent


_frame: ContextVar[Frame | None] = ContextVar("tapegrad_vmap", default=None)
current_frame = _frame.get
_levels = iter(range(1, 2**62))


class NoSingleValueError(ArgumentTypeError):
    """Python code inside `vmap` reads the value of a tensor that stands for many examples."""


class Batched:
    """One example of many: `tensor` has all examples along an extra leading axis."""

    __slots__ = ("__weakref__", "level", "tensor", "view_of", "views")

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # like Tensor

    def __init__(self, tensor: Any, level: int) -> None:
        self.tensor = tensor
        self.level = level

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.tensor.shape[1:])

    @property
    def ndim(self) -> int:
        return len(self.tensor.shape) - 1

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> DType:
        dtype: DType = self.tensor.dtype
        return dtype

    @property
    def device(self) -> str:
        device: str = self.tensor.device
        return device

    def get_shape(self) -> TensorShape:
        return self.shape

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("A 0-d tensor has no length.")
        return self.shape[0]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NoSingleValueError(
            "Inside vmap a tensor stands for many examples, so it has no single value to read in "
            "Python. Use tapegrad.where instead of if, and read values outside."
        )

    numpy = numpy_later = item = tolist = _refuse
    __bool__ = __float__ = __int__ = __complex__ = __index__ = __trunc__ = _refuse
    __array__ = __dlpack__ = __bytes__ = _refuse

    def __repr__(self) -> str:
        return f"<batched tensor: {self.tensor.shape[0]} x {self.shape}, {self.dtype}>"


def is_batched(value: Any) -> bool:
    """Whether `value` represents one example of many."""
    return type(value) is Batched


def new_level() -> int:
    """Return a level above all existing ones."""
    return next(_levels)


def interpret(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to operands of which some are batched, the highest level first."""
    level = max([arg.level for arg in args if type(arg) is Batched])
    args = [_for_each(arg, level, args) if _is_shared(arg, level) else arg for arg in args]
    batched = tuple([type(arg) is Batched and arg.level == level for arg in args])
    inner = [arg.tensor if flag else arg for arg, flag in zip(args, batched)]
    if primitive.broadcasts:
        result = (primitive.fast or primitive)(*_aligned(inner, batched), **params)
    else:
        size = inner[batched.index(True)].shape[0]
        if primitive.batch_rule is not None:
            result = primitive.batch_rule(size, batched, *inner, **params)
        else:
            result = _loop(primitive, size, batched, inner, params)
    if primitive.many:
        return tuple([Batched(part, level) for part in result])
    return Batched(result, level)


_shared_nodes: WeakSet[Node] = WeakSet()
"""The nodes of values that examples share, repeated for each of them."""


def repeats_shared(node: Node) -> bool:
    """Whether a node has an axis of examples that its input lacks."""
    return node in _shared_nodes


def _is_shared(arg: Any, level: int) -> bool:
    """Whether examples share a tensor by which a tape differentiates for each of them."""
    node = arg.node if type(arg) is Tensor else None
    return node is not None and any([token.levels == (level,) for token in node.tokens])


def _for_each(arg: Any, level: int, args: Sequence[Any]) -> Batched:
    """Repeat a tensor for each example, so that the examples' gradients are not added up."""
    size = next(a.tensor.shape[0] for a in args if type(a) is Batched and a.level == level)
    repeated = lift(arg, size)
    if repeated.node is not None:  # the tape records here
        _shared_nodes.add(repeated.node)
    return Batched(repeated, level)


def _aligned(args: Sequence[Any], batched: Sequence[bool]) -> Sequence[Any]:
    """Insert axes of length 1 after the batch axis of operands of lower rank, for broadcasting."""
    ranks = [getattr(arg, "ndim", 0) - flag for arg, flag in zip(args, batched)]
    rank = max(ranks)
    if all([own == rank or not flag for own, flag in zip(ranks, batched)]):
        return args
    return [
        reshape_p(arg, shape=(arg.shape[0], *[1] * (rank - own), *arg.shape[1:]))
        if flag and own < rank
        else arg
        for arg, flag, own in zip(args, batched, ranks)
    ]


def _loop(
    primitive: Primitive, size: int, batched: Sequence[bool], args: Sequence[Any], params: Any
) -> Any:
    """Run a primitive without a batching rule on one example after the other."""
    results = [
        bind(
            primitive,
            *[a[i] if flag else a for a, flag in zip(args, batched, strict=True)],
            **params,
        )
        for i in range(size)
    ]
    if not results:
        raise ShapeError(f"vmap cannot batch {primitive.name} over zero examples.")
    if primitive.many:
        return tuple(joining.stack(list(parts)) for parts in zip(*results, strict=True))
    return joining.stack(results)


INTERPRETERS[Batched] = interpret
bind_operators(Batched)


def lift(value: Any, size: int) -> Any:
    """Return `value` repeated along a new leading axis, as a view if the backend has views."""
    return broadcast_p(value, shape=(size, *value.shape))


@contextmanager
def batching(size: int) -> Iterator[Frame]:
    """Start a batch of `size` examples; tapes inside belong to one example."""
    frame = Frame(new_level(), size, current_frame())
    with in_frame(frame):
        yield frame


class in_frame:  # noqa: N801  # a function to its users; as a generator it costs more
    """Make `frame` the running `vmap` inside the block; None for no `vmap`."""

    __slots__ = ("_frame", "_token")

    def __init__(self, frame: Frame | None) -> None:
        self._frame = frame

    def __enter__(self) -> None:
        self._token = _frame.set(self._frame)

    @starts_uninterrupted
    def __exit__(self, *_: object) -> None:
        _frame.reset(self._token)


def frames_around(frame: Frame | None) -> list[Frame]:
    """Return all running `vmap`s from the outermost to `frame`."""
    frames: list[Frame] = []
    while frame is not None:
        frames.insert(0, frame)
        frame = frame.parent
    return frames


def is_running(levels: Container[int]) -> bool:
    """Whether one of the levels belongs to a running `vmap`."""
    return any(frame.level in levels for frame in frames_around(current_frame()))


def spread_over_examples(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    """Make one value per example of all running `vmap`s by one call with the whole shape."""
    frames = frames_around(current_frame())
    value = make((*[frame.size for frame in frames], *shape))
    return wrap_levels(value, [frame.level for frame in frames])


register_spread(spread_over_examples)


def per_example(value: Any, frame: Frame | None) -> Any:
    """Repeat a value that examples share (as a view) for each example of all running `vmap`s."""
    if frame is None:
        return value
    if is_batched(value) and value.level == frame.level and frame.parent is None:
        return value
    levels = unwrap(value)[1]
    for one in frames_around(frame):
        if one.level not in levels:
            value = wrap_levels(lift(value, one.size), (one.level,))
    return value


def align(value: Any, like: Any) -> Any:
    """Return a value with the leading axes of examples that the batched value `like` has."""
    if not is_batched(like):
        return value
    inside, levels = unwrap(like)
    value, own = unwrap(value, levels)
    return with_examples(value, own, dict(zip(levels, inside.array.shape)))


def with_examples(value: Any, own: Sequence[int], sizes: dict[int, int]) -> Any:
    """Broadcast a value with leading axes for the levels `own` to all levels in `sizes`."""
    if len(own) == len(sizes):
        return value
    rest = tuple(value.shape[len(own) :])
    if own:
        ones = tuple([size if level in own else 1 for level, size in sizes.items()])
        value = reshape_p(value, shape=(*ones, *rest))
    return broadcast_p(value, shape=(*sizes.values(), *rest))


def unwrap(value: Any, among: Container[int] | None = None) -> tuple[Any, tuple[int, ...]]:
    """Return the value inside `Batched`, and the levels of its leading axes in order.

    With `among`, only these levels are unwrapped.
    """
    inside, levels = value, []
    while is_batched(inside):
        levels.append(inside.level)
        inside = inside.tensor
    levels.reverse()
    if among is None or not levels:
        return inside, tuple(levels)
    own = [level for level in levels if level in among]
    if not own:
        return value, ()
    others = [level for level in levels if level not in among]
    return wrap_levels(_in_order(inside, levels, [*others, *own]), others), tuple(own)


def wrap_levels(value: Any, levels: Sequence[int]) -> Any:
    """Wrap leading axes as `Batched` levels, the highest (latest) level outermost."""
    if is_batched(value):
        value, own = unwrap(value)
        together = [*own, *levels]
        levels = sorted(together)
        value = _in_order(value, together, levels)
    for level in levels:
        value = Batched(value, level)
    return value


def _in_order(value: Any, levels: list[int], wanted: Sequence[int]) -> Any:
    """Permute the leading axes of a value, one per level."""
    if levels == wanted:
        return value
    order = [levels.index(level) for level in wanted]
    return shapes.permute_dims(value, [*order, *range(len(order), len(value.shape))])


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: int = 0) -> Callable[..., Any]:
    """Vectorize a function of one example over an axis of examples.

    `in_axes` is the axis of examples, or one axis per argument; None for an argument that all
    examples share.

    >>> import tapegrad
    >>> dot = vmap(lambda a, b: tapegrad.reduce_sum(a * b))
    >>> rows = tapegrad.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> dot(rows, tapegrad.constant([[1.0, 1.0], [1.0, 0.0]]))
    <tapegrad.Tensor: shape=(2,), dtype=float32, numpy=[3., 3.]>
    """

    if not callable(function):
        raise ArgumentTypeError(f"vmap takes a function. Got {type(function).__name__}.")

    def mapped(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, list | tuple) else [in_axes] * len(args)
        if len(axes) != len(args):
            raise ArgumentError(
                f"in_axes must have one entry per argument: {len(args)}. Got {len(axes)}."
            )
        fronted = [_front(arg, axis) for arg, axis in zip(args, axes, strict=True)]
        size = _batch_size(fronted, axes)
        with batching(size) as frame:
            inputs = [
                arg
                if axis is None
                else nest.map_structure(lambda leaf: Batched(leaf, frame.level), arg)
                for arg, axis in zip(fronted, axes, strict=True)
            ]
            output = function(*inputs)
        return nest.map_structure(lambda leaf: _output(leaf, frame, out_axes), output)

    return mapped


def vectorized_map(
    fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Apply `fn` to each element of the structure `elems` along axis 0, all at once.

    This is `vmap` with TensorFlow's signature: `fn` takes one structure. If `fn` needs the value of
    an element in Python, e.g. for `if x > 0`, `map_fn` applies it to one element after the other,
    with a warning unless `warn` is false. With `fallback_to_while_loop=False` it is an error.

    >>> import tapegrad
    >>> vectorized_map(lambda x: x * x, tapegrad.constant([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    try:
        return vmap(fn)(elems)
    except NoSingleValueError:
        if not fallback_to_while_loop:
            raise
    if warn:
        warn_outside(
            "vectorized_map applies its function to one element after the other, because the "
            "function needs the value of a single element in Python. tapegrad.where instead of if "
            "lets it take all elements at once; warn=False turns this warning off.",
        )
    from tapegrad.ops.control.control_flow import map_fn  # slow to import

    return map_fn(fn, elems)


def _front(arg: Any, axis: int | None) -> Any:
    """Convert the leaves to tensors with the axis of examples first."""
    if axis is None:
        return arg
    return nest.map_structure(lambda leaf: _move_axis(_leaf(leaf), axis, 0), arg)


def _leaf(value: Any) -> Any:
    return value if is_batched(value) else to_tensor(value)


def _move_axis(tensor: Any, source: int, target: int) -> Any:
    if not -len(tensor.shape) <= source < len(tensor.shape):
        raise ShapeError(f"vmap got axis {source} for an argument of shape {tensor.shape}.")
    source, target = source % len(tensor.shape), target % len(tensor.shape)
    if source == target:
        return tensor
    order = [axis for axis in range(len(tensor.shape)) if axis != source]
    order.insert(target, source)
    return shapes.permute_dims(tensor, order)


def _batch_size(args: Sequence[Any], axes: Sequence[int | None]) -> int:
    sizes = {
        leaf.shape[0]
        for arg, axis in zip(args, axes, strict=True)
        if axis is not None
        for leaf in nest.flatten(arg)
    }
    if not sizes:
        raise ArgumentError("vmap needs at least one argument with an axis of examples.")
    if len(sizes) > 1:
        raise ShapeError(f"vmap got arguments with different numbers of examples: {sorted(sizes)}.")
    return int(sizes.pop())


def _output(value: Any, frame: Frame, out_axis: int) -> Any:
    if value is None:
        return None
    if is_batched(value) and value.level == frame.level:
        return _move_axis(value.tensor, 0, out_axis)
    return _move_axis(
        lift(to_tensor(value) if not is_batched(value) else value, frame.size), 0, out_axis
    )
